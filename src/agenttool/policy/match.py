"""Whether a rule applies to a tool, and whether it matches a call.

An allow matches only what it surely covers, all of it. A deny or an ask matches whatever it cannot rule out, any of it.
"""

from dataclasses import dataclass

from agenttool.policy.call import Call
from agenttool.policy.commands import Subcommand
from agenttool.policy.field_names import MatchingField
from agenttool.policy.paths import all_covered
from agenttool.policy.rules import Rule
from agenttool.policy.subject import Subject
from agenttool.policy.wildcards import fits
from agenttool.records import Behavior


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a deny or an ask caught, for people: a path, the name of a command, an address."""

    path: str | None = None
    what: str | None = None


_ANY_CALL = Match()
_UNTOLD = Match(what="something in it that is sensitive")


def names(rule: Rule, subject: Subject) -> bool:
    """Tell whether a rule is about a tool at all, whatever its arguments.

    An allow wants the qualified name, so that a tool of another server cannot earn it by being called the same; a deny
    or an ask takes any name the tool goes by.
    """
    return not is_outdated(rule, subject) and is_about(rule, subject)


def is_outdated(rule: Rule, subject: Subject) -> bool:
    """Tell whether an allow was given to a tool that has changed since; a deny or an ask holds of it all the more."""
    digest = rule.declaration_digest if rule.behavior == Behavior.ALLOW else None
    return digest is not None and digest != subject.declaration_digest


def is_about(rule: Rule, subject: Subject) -> bool:
    """Tell whether a rule is about a tool of this name, whatever became of the tool."""
    return (
        (not rule.tools or _has_name(rule, subject))
        and (not rule.namespaces or any(fits(each, subject.namespace) for each in rule.namespaces))
        and (not rule.kinds or subject.kind in rule.kinds)
        and (not rule.operations or any(fits(each, name) for each in rule.operations for name in subject.operations))
    )


def _has_name(rule: Rule, subject: Subject) -> bool:
    known = [subject.qualified_name]
    if rule.behavior != Behavior.ALLOW or rule.namespaces:
        known.append(subject.name)
    if rule.behavior != Behavior.ALLOW:
        known += subject.declaration.aliases or ()
        return any(fits(each.casefold(), name.casefold()) for each in rule.tools for name in known)
    return any(fits(each, name) for each in rule.tools for name in known)


def missing_fields(rule: Rule, subject: Subject) -> tuple[str, ...]:
    """Name the fields of a rule that a tool does not have, so that the rule cannot apply to it (AT-PERM-09)."""
    wanted = {
        MatchingField.PATH: rule.paths,
        MatchingField.COMMAND: rule.commands,
        MatchingField.URL: rule.urls,
        MatchingField.RESOURCE: rule.resources,
    }
    # What may be there although the tool does not say so is no reason for a deny or an ask to look away.
    may_have_more = subject.fields.is_open and rule.behavior != Behavior.ALLOW
    missing = [
        str(field)
        for field, patterns in wanted.items()
        if patterns and not subject.fields.has(field) and not may_have_more
    ]
    if subject.arguments is not None:
        missing += [test.pointer for test in rule.arguments if test.steps[:1] and _is_missing(test.steps[0], subject)]
    return tuple(missing)


def _is_missing(argument: str, subject: Subject) -> bool:
    return argument != "*" and subject.arguments is not None and argument not in subject.arguments


def matches(rule: Rule, call: Call) -> bool:
    """Tell whether a rule says something about a call."""
    if not names(rule, call.subject) or missing_fields(rule, call.subject):
        return False
    return covers(rule, call) if rule.behavior == Behavior.ALLOW else caught(rule, call) is not None


def caught(rule: Rule, call: Call) -> Match | None:
    """Give what a deny or an ask catches in a call; nothing if it surely has nothing to do with it."""
    if not all(test.hits(call.arguments) for test in rule.arguments):
        return None
    found = _ANY_CALL
    for patterns, catch in (
        (rule.resources, _resource),
        (rule.urls, _url),
        (rule.commands, _command),
        (rule.paths, _path),
    ):
        if patterns:
            match = catch(rule, call)
            if match is None:
                return None
            found = match
    return _UNTOLD if found is not _ANY_CALL and call.subject.hides_fields else found


def _path(rule: Rule, call: Call) -> Match | None:
    for place in (*call.paths, *call.possible_paths):
        if any(pattern.hits(place, call.workspace) for pattern in rule.paths):
            return Match(path=place.text, what=f"path {place.text!r}")
    return None


def _url(rule: Rule, call: Call) -> Match | None:
    for url in (*call.urls, *call.possible_urls):
        if any(pattern.hits(url) for pattern in rule.urls):
            return Match(what=f"address at {url.host!r}" if url.host else "an address that cannot be read")
    return None


def _resource(rule: Rule, call: Call) -> Match | None:
    for resource in call.resources:
        if resource is None:
            return Match(what="a resource that cannot be read")
        if any(fits(pattern.casefold(), resource.casefold()) for pattern in rule.resources):
            return Match(what=f"resource {resource!r}")
    return None


def _command(rule: Rule, call: Call) -> Match | None:
    for subcommand in call.subcommands:
        if any(pattern.hits(subcommand) for pattern in rule.commands):
            return Match(what=f"command {subcommand.name!r}" if subcommand.name else "a command that cannot be known")
    return Match(what="a command that cannot be known") if call.is_suspicious else None


def covers(rule: Rule, call: Call) -> bool:
    """Tell whether an allow is sure of a whole call."""
    return covers_around(rule, call) and all(
        covers_subcommand(rule, subcommand, call) for subcommand in call.subcommands
    )


def covers_around(rule: Rule, call: Call) -> bool:
    """Tell whether an allow is sure of everything in a call except its single commands."""
    if not all(test.covers(call.arguments) for test in rule.arguments):
        return False
    has_commands = call.subject.fields.has_commands or bool(call.lines)
    if has_commands and not rule.commands and (rule.paths or rule.urls or rule.resources):
        # Of a command's paths and addresses only some are known, so they alone prove nothing.
        return False
    return (
        (not rule.commands or (bool(call.lines) and not call.is_in_doubt and call.is_sure_of(MatchingField.COMMAND)))
        and _covers_paths(rule, call)
        and _covers_urls(rule, call)
        and _covers_resources(rule, call)
    )


def _covers_paths(rule: Rule, call: Call) -> bool:
    if not rule.paths:
        return True
    if not call.is_sure_of(MatchingField.PATH) or not (call.paths or rule.commands):
        return False
    return all(all_covered(rule.paths, place, call.workspace) for place in call.paths)


def _covers_urls(rule: Rule, call: Call) -> bool:
    urls = (*call.urls, *call.possible_urls) if rule.urls else ()
    return not rule.urls or (
        call.is_sure_of(MatchingField.URL)
        and bool(urls)
        and all(any(pattern.covers(url) for pattern in rule.urls) for url in urls)
    )


def _covers_resources(rule: Rule, call: Call) -> bool:
    return not rule.resources or (
        call.is_sure_of(MatchingField.RESOURCE)
        and bool(call.resources)
        and all(
            resource is not None and any(fits(pattern, resource) for pattern in rule.resources)
            for resource in call.resources
        )
    )


def covers_subcommand(rule: Rule, subcommand: Subcommand, call: Call) -> bool:
    """Tell whether an allow is sure of one command, and of every file that its redirections write."""
    if not rule.commands:
        return True
    asked = subcommand if not subcommand.is_wrapper else _shell_of(subcommand)
    if asked == Subcommand():
        return True
    return any(pattern.covers(asked) for pattern in rule.commands) and all(
        all_covered(rule.paths, place, call.workspace) for word in asked.writes for place in call.word_places(word)
    )


def _shell_of(subcommand: Subcommand) -> Subcommand:
    """Give what a wrapper does besides running what is listed beside it: set variables, redirect."""
    return Subcommand(assignments=subcommand.assignments, writes=subcommand.writes, reads=subcommand.reads)
