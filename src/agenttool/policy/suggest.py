"""Suggest the smallest change of rules, mode or workspace that would allow a call."""

import shlex
from collections.abc import Iterable
from contextlib import suppress

from agenttool.codec import json_bytes
from agenttool.config import Setting
from agenttool.policy.decide import Policy
from agenttool.policy.matching import matches
from agenttool.policy.paths import ResolvedPath, Steps, Workspace
from agenttool.policy.rule_settings import read_rule, rule_toml
from agenttool.policy.rules import Rule
from agenttool.policy.subject import Subject
from agenttool.policy.targets import CallTargets
from agenttool.policy.verdict import Verdict, Weight
from agenttool.policy.votes import PermissionMode
from agenttool.policy.wildcards import has_wildcard
from agenttool.records import UNSET, Behavior, Json, JsonObject, ReasonType, RuleSource, SuggestedUpdate, UnsetType
from agenttool.schema.explain import pointer_of

ADD_RULE = "add_rule"
REMOVE_RULE = "remove_rule"
SET_MODE = "set_mode"
ADD_DIRECTORY = "add_directory"

MAX_RULE_BYTES = 4_000
"""A longer rule is not suggested: an approver cannot read it at a glance."""


def suggest(policy: Policy, verdict: Verdict, call: CallTargets) -> tuple[SuggestedUpdate, ...]:
    """Return changes of rules, mode or workspace, smallest first; each one alone would allow the call.

    Nothing is suggested against the policy layer, a hook, an external vote or a question to a user, or if a rule would
    have to repeat a sensitive value.
    """
    rules = [rule for ref in verdict.rule_refs if (rule := policy.book.get(ref)) is not None]
    is_fixed = any(rule.is_policy for rule in rules) or (verdict.reason.details or {}).get("inherited")
    if verdict.behavior == Behavior.ALLOW or is_fixed:
        return ()
    if verdict.weight is Weight.DENY:
        if verdict.reason.type == ReasonType.MODE and policy.mode == PermissionMode.READ_ONLY:
            return (SuggestedUpdate(type=SET_MODE, destination=RuleSource.SESSION, value=str(PermissionMode.DEFAULT)),)
        return tuple(map(_removal, rules))
    is_by_rules = rules or verdict.weight is not Weight.ASK
    by_others = verdict.reason.hook_ref is not None or verdict.reason.type in (ReasonType.CLASSIFIER, ReasonType.POLICY)
    if by_others or not is_by_rules:
        return ()
    members, path = smallest_rule(call), verdict.blocked_path or ""
    found = [] if members is None else [_add(members, call.subject, settles=[rule.ref for rule in rules])]
    if verdict.reason.type == ReasonType.WORKING_DIR and path.startswith("/"):
        directory = path.rpartition("/")[0] or "/"
        found.append(SuggestedUpdate(type=ADD_DIRECTORY, destination=RuleSource.SESSION, value=directory))
    return tuple(found)


def _removal(rule: Rule) -> SuggestedUpdate:
    """Suggest removing a denying rule, because no other rule overrides a deny."""
    value: JsonObject = {"rule_ref": rule.ref, "origin": rule.origin}
    return SuggestedUpdate(type=REMOVE_RULE, destination=rule.source, value=value)


def _add(members: JsonObject, subject: Subject, *, settles: list[str]) -> SuggestedUpdate:
    """Suggest a rule: bound to the current tool for a session, as TOML for a file.

    A file cannot settle the question of another rule, so then there is nothing to paste.
    """
    bound: JsonObject = {**members, "declaration_digest": subject.declaration_digest}
    text: Json | UnsetType = UNSET
    if settles:
        bound["settles"] = [*settles]
    else:
        with suppress(ValueError):  # TOML has no null
            text = rule_toml(members)
    return SuggestedUpdate(type=ADD_RULE, destination=RuleSource.SESSION, rule=bound, value=text)


def smallest_rule(call: CallTargets) -> JsonObject | None:
    """Return the narrowest allow rule that covers this call; None if no rule can, or if none is short enough to read.

    It has a condition on every argument, because an approver who accepts it has seen only this call.
    """
    subject = call.subject
    if call.doubt is not None or subject.hides_fields or has_wildcard(subject.qualified_name):
        return None
    head: JsonObject = {"behavior": "allow", "tool": subject.qualified_name}
    if "." not in subject.qualified_name:
        head["namespace"] = subject.declaration.namespace
    if call.caller.actor is not None:
        if has_wildcard(call.caller.actor):
            return None
        head["actor"] = call.caller.actor
    for conditions in (_by_commands(call), _by_paths(call), _by_arguments(call)):
        if conditions is not None and _suffices({**head, **conditions}, call):
            return {**head, **conditions}
    return None


def _suffices(members: JsonObject, call: CallTargets) -> bool:
    if len(json_bytes(members)) > MAX_RULE_BYTES:
        return False
    try:
        rule = read_rule(Setting(members=members, source=RuleSource.SESSION))
    except ValueError:
        return False
    return matches(rule, call)


def _by_commands(call: CallTargets) -> JsonObject | None:
    """Return conditions on the exact words of every command, on every file that it writes, and on all arguments.

    The text of the command is an argument, too: here-documents and pipes are input of a command, not words of it.
    """
    subcommands = [each for each in call.subcommands if not each.is_wrapper]
    words = [word for each in subcommands for word in (*each.assignments, *each.words)]
    if not words or any(not word.is_plain or has_wildcard(word.text) for word in words):
        return None
    writes = [place for each in subcommands for word in each.writes for place in call.word_places(word)]
    paths = _paths(writes, call)
    commands: list[Json] = [
        *dict.fromkeys(shlex.join(word.text for word in (*each.assignments, *each.words)) for each in subcommands)
    ]
    pins = _by_arguments(call)
    return None if pins is None else {"command": commands, **({"path": paths} if paths else {}), **pins}


def _by_paths(call: CallTargets) -> JsonObject | None:
    """Return conditions on all arguments, and on the paths as they are now: a link may lead elsewhere later."""
    paths, pins = _paths(call.paths, call), _by_arguments(call)
    if not paths or pins is None or any(isinstance(each, str) and has_wildcard(each) for each in paths):
        return None
    return {"path": paths, **pins}


def _paths(places: Iterable[ResolvedPath], call: CallTargets) -> list[Json]:
    """Return paths as patterns, relative to the workspace if inside, with their links resolved."""
    return [*dict.fromkeys(_spelled(way, call.workspace) for place in places for way in place.candidates)]


def _spelled(steps: Steps, workspace: Workspace) -> str:
    for base in workspace.bases:
        if steps[: len(base)] == base and len(steps) > len(base):
            steps, start = steps[len(base) :], ""
            break
    else:
        start = "/"
    return start + "/".join(each if isinstance(each, str) else "**" for each in steps)


def _by_arguments(call: CallTargets) -> JsonObject | None:
    """Return conditions on the exact value of every argument, and on the absence of all others.

    A sensitive value is not repeated; the approver did not see it, so any value of that argument is covered. No rule is
    suggested if only sensitive values distinguish this call from others.
    """
    arguments, known = call.arguments, call.subject.arguments
    if not isinstance(arguments, dict):
        return None
    hidden = arguments.keys() & call.subject.sensitive
    if known is None:  # it may have arguments that no schema names, so only the whole input excludes them
        return None if hidden else {"argument": {"": {"equals": arguments}}}
    if hidden and hidden == arguments.keys():
        return None
    tests: JsonObject = {
        pointer_of([name]): {"present": True} if name in hidden else {"equals": value}
        for name, value in arguments.items()
    }
    tests.update({pointer_of([name]): {"present": False} for name in sorted(known - arguments.keys())})
    return {"argument": tests} if tests else {}
