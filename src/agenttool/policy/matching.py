"""Decide whether a rule matches a call, and whether an allow covers it.

An allow matches only if it surely covers the whole call. A deny or an ask matches whatever it cannot rule out.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from agenttool.policy.paths import PathPattern, ResolvedPath, Workspace, all_covered
from agenttool.policy.program_table import WRITES
from agenttool.policy.programs import WRITERS
from agenttool.policy.rules import Rule
from agenttool.policy.shell import Subcommand
from agenttool.policy.shell_words import Word
from agenttool.policy.subject import Subject, qualified_name
from agenttool.policy.targets import FOLDER_CHANGES, MAX_WORDS, Caller, CallTargets, path_words
from agenttool.policy.usage import Usage, usage_of, why_unknown
from agenttool.policy.wildcards import fits
from agenttool.ports.identity import GATEWAY_ROLE
from agenttool.records import Behavior, ToolDeclaration

READABLE = tuple(
    map(
        PathPattern,
        "/usr/include /usr/share/doc /usr/lib/python3*/** /etc/os-release /proc/cpuinfo /proc/meminfo".split(),  # noqa: SIM905 -- a list of words reads best as words
    )
)
"""Places outside of a workspace that known programs may read."""
_NO_EFFECT = frozenset({":", "true"})
_PRINTERS = frozenset({"echo", "printf"})


class RuleMatch(NamedTuple):
    """What a deny or an ask matched in a call.

    Attributes:
        path: the path that was matched, for the record.
        what: what was matched, for messages: a path, the name of a command, an address.
        is_certain: whether it surely matches; if not, the match cannot be ruled out, and a deny becomes an ask.
        is_exact: whether it was matched without wildcards; such a match is named first.
        programs: the opaque commands that are the only reason for the match; an allow that names them answers it.
    """

    path: str | None = None
    what: str | None = None
    is_certain: bool = True
    is_exact: bool = True
    programs: tuple[Subcommand, ...] = ()


_ANY_CALL = RuleMatch()


def is_outdated(rule: Rule, subject: Subject) -> bool:
    """Return whether the tool has changed since an allow was given; a deny or an ask stays in force."""
    digest = rule.declaration_digest if rule.is_allow else None
    return digest is not None and digest != subject.declaration_digest


def names_tool(rule: Rule, subject: Subject) -> bool:
    """Return whether a rule names a tool, even if the tool has changed.

    An allow needs the qualified name, so that a tool of another server cannot earn it by having the same name. A deny
    or an ask matches any name of the tool.
    """
    return names_declaration(rule, subject.declaration) and (
        not rule.operations or any(fits(each, name) for each in rule.operations for name in subject.operations)
    )


def names_declaration(rule: Rule, declaration: ToolDeclaration) -> bool:
    """Return whether the names, the namespaces and the kinds of a rule match a declaration."""
    return (
        (not rule.tools or _has_name(rule, declaration))
        and (not rule.namespaces or any(fits(each, declaration.namespace) for each in rule.namespaces))
        and (not rule.kinds or declaration.tool_kind in rule.kinds)
    )


def _has_name(rule: Rule, declaration: ToolDeclaration) -> bool:
    known = [qualified_name(declaration)]
    if not rule.is_allow or rule.namespaces:
        known.append(declaration.name)
    if not rule.is_allow:
        known += declaration.aliases or ()
        return _any_fits(map(str.casefold, rule.tools), map(str.casefold, known))
    return _any_fits(rule.tools, known)


def _any_fits(patterns: Iterable[str], names: Iterable[str]) -> bool:
    known = tuple(names)
    return any(fits(pattern, name) for pattern in patterns for name in known)


def names_caller(rule: Rule, caller: Caller) -> bool:
    """Return whether a rule applies to a caller; a deny or an ask also applies to a caller that is not known.

    The same holds for a rule about the roles of keys, if those of the caller are not known.
    """
    if caller.actor is None:
        return not rule.is_allow or not rule.names_callers
    roles, teams = caller.roles, caller.teams
    if caller.user is not None and rule.is_user_allow:
        roles, teams = caller.user.roles, caller.user.teams
    return (
        (not rule.actors or _any_fits(rule.actors, (caller.actor,)))
        and (not rule.teams or _any_fits(rule.teams, teams))
        and (not rule.roles or any(_has_role(pattern, rule, roles, caller.granted) for pattern in rule.roles))
    )


def _has_role(pattern: str, rule: Rule, listed: Iterable[str], granted: Iterable[str] | None) -> bool:
    """Return whether a caller has a role: one of `[roles]`, or behind `gateway:` one of its key."""
    if not pattern.startswith(GATEWAY_ROLE):
        return _any_fits((pattern,), listed)
    return not rule.is_allow if granted is None else _any_fits((pattern,), granted)


def missing_fields(rule: Rule, subject: Subject) -> tuple[str, ...]:
    """Name the fields of a rule that a tool does not have, so that the rule cannot apply to it (AT-PERM-09)."""
    # Arguments that are not declared may still be given, so a deny or an ask applies to them.
    has = subject.fields.has if rule.is_allow else subject.fields.may_have
    missing = [str(field) for field in rule.fields if not has(field)]
    if subject.arguments is not None:
        known = ("*", *subject.arguments)
        missing += [test.pointer for test in rule.arguments if test.steps and test.steps[0] not in known]
    return tuple(missing)


def matches(rule: Rule, call: CallTargets) -> bool:
    """Return whether a rule matches a call."""
    subject = call.subject
    if is_outdated(rule, subject) or not names_tool(rule, subject) or missing_fields(rule, subject):
        return False
    if not names_caller(rule, call.caller):
        return False
    return covers(rule, call) if rule.is_allow else find_match(rule, call) is not None


def find_match(rule: Rule, call: CallTargets) -> RuleMatch | None:
    """Return what a deny or an ask matches in a call; None if it surely does not match."""
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
            found = match._replace(
                is_certain=match.is_certain and found.is_certain,
                is_exact=match.is_exact and found.is_exact,
            )
    if found is not _ANY_CALL and call.subject.hides_fields:
        return found._replace(path=None, what="something in it that is sensitive")
    return found


def _path(rule: Rule, call: CallTargets) -> RuleMatch | None:
    listed = call.listed_paths if rule.behavior == Behavior.DENY else ()
    is_about_writes = bool(rule.commands) and rule.commands[0].usage_kind == WRITES
    possible = call.possible_writes if is_about_writes else call.possible_paths
    workspaces = [each for each in (call.workspace, call.workspace.user) if each is not None]
    is_ask = rule.behavior == Behavior.ASK
    places = [
        each
        for each in (*call.paths, *possible, *listed)
        if any(rule.path_patterns.hits(each, workspace, is_ask=is_ask) for workspace in workspaces)
    ]
    # A readable path, or one that is an argument, is certain; a word that cannot be read may be any path.
    known = sorted(
        (each for each in places if (each.candidates and not each.is_source_tree) or each in call.paths),
        key=lambda each: not each.is_exact,
    )
    certain = next(iter(known), None)
    found = certain or next(iter(places), None)
    if found is None:
        return None
    what = f"path {found.text!r}" if found.candidates or certain is not None else "a path that is computed"
    return RuleMatch(path=found.text, what=what, is_certain=certain is not None, is_exact=found.is_exact)


def _workspace(rule: Rule, call: CallTargets) -> Workspace:
    """Return the workspace that the paths of an allow refer to."""
    return call.workspace.user or call.workspace if rule.is_user_allow else call.workspace


def _url(rule: Rule, call: CallTargets) -> RuleMatch | None:
    urls = [each for each in (*call.urls, *call.possible_urls) if any(pattern.hits(each) for pattern in rule.urls)]
    certain = next((each for each in urls if each.host or each in call.urls), None)
    if not urls:
        return None
    what = f"address at {certain.host!r}" if certain is not None and certain.host else "an address that cannot be read"
    return RuleMatch(what=what, is_certain=certain is not None)


def _resource(rule: Rule, call: CallTargets) -> RuleMatch | None:
    for resource in call.resources:
        if resource is None:
            return RuleMatch(what="a resource that cannot be read")
        if any(fits(pattern.casefold(), resource.casefold()) for pattern in rule.resources):
            return RuleMatch(what=f"resource {resource!r}")
    return None


def _command(rule: Rule, call: CallTargets) -> RuleMatch | None:
    """Return a certain match if there is one; otherwise what cannot be ruled out."""
    hit = [
        each
        for each in call.subcommands
        if any(pattern.hits(each) for pattern in rule.command_patterns.for_command(each))
    ]
    if hit and rule.commands[0].usage_kind is not None:
        is_exact = any(each.writes or each.usage is not None for each in hit)
        return RuleMatch(what=f"command {hit[0].name!r}", is_exact=is_exact)
    for subcommand in hit:
        if any(pattern.surely_hits(subcommand) for pattern in rule.command_patterns.for_command(subcommand)):
            return RuleMatch(what=f"command {subcommand.name!r}")
    if call.doubt is not None:
        return RuleMatch(what=f"this command, which is not understood ({call.doubt})", is_certain=False)
    if hit:
        return RuleMatch(what=f"command {hit[0].name!r}, whose arguments are computed", is_certain=False)
    return None if rule.commands[0].usage_kind is not None else _opaque_command(rule, call)


def _opaque_command(rule: Rule, call: CallTargets) -> RuleMatch | None:
    """Match commands that may run any other command.

    An allow cannot answer if the line mentions a command that is denied, or if words are computed when it runs.
    """
    opaque = tuple(each for each in call.subcommands if each.opaque is not None)
    if not opaque:
        return None
    lines = [line for line in call.lines if any(each.opaque is not None for each in line.subcommands)]
    is_mentioned = rule.behavior == Behavior.DENY and any(
        pattern.is_mentioned_in(line) for pattern in rule.commands for line in lines
    )
    has_unknown = any(word.is_unknown for each in opaque for word in each.words)
    programs = () if is_mentioned or has_unknown else opaque
    return RuleMatch(what=f"this command, because {opaque[0].opaque}", is_certain=False, programs=programs)


def covers(rule: Rule, call: CallTargets) -> bool:
    """Return whether an allow surely covers a whole call."""
    return covers_around(rule, call) and all(
        covers_subcommand(rule, subcommand, call) for subcommand in call.subcommands
    )


def covers_around(rule: Rule, call: CallTargets) -> bool:
    """Return whether an allow surely covers everything in a call except its commands."""
    if not all(test.covers(call.arguments) for test in rule.arguments):
        return False
    has_commands = call.subject.fields.has_commands or bool(call.lines)
    if has_commands and not rule.commands and (rule.paths or rule.urls or rule.resources):
        # Of a command's paths and addresses only some are known, so they alone prove nothing.
        return False
    return all(map(call.is_sure_of, rule.fields)) and (
        (not rule.commands or (bool(call.lines) and call.doubt is None))
        and (not rule.paths or _covers_paths(rule, call))
        and (not rule.urls or _covers_urls(rule, call))
        and (not rule.resources or _covers_resources(rule, call))
    )


def _covers_paths(rule: Rule, call: CallTargets) -> bool:
    workspace = _workspace(rule, call)
    is_known = bool(call.paths or rule.commands)
    return is_known and all(all_covered(rule.paths, place, workspace) for place in call.paths)


def _covers_urls(rule: Rule, call: CallTargets) -> bool:
    urls = (*call.urls, *call.possible_urls)
    return bool(urls) and all(any(pattern.covers(url) for pattern in rule.urls) for url in urls)


def _covers_resources(rule: Rule, call: CallTargets) -> bool:
    names = [name for name in call.resources if name is not None and _any_fits(rule.resources, (name,))]
    return bool(names) and len(names) == len(call.resources)


def covers_subcommand(rule: Rule, subcommand: Subcommand, call: CallTargets) -> bool:
    """Return whether an allow surely covers one command, and every file that its redirections write."""
    if not rule.commands:
        return True
    asked = subcommand
    if subcommand.is_wrapper:
        # What it runs is listed beside it.
        asked = Subcommand(assignments=asked.assignments, writes=asked.writes, reads=asked.reads)
        if asked == Subcommand():
            return True
    sets_only = not asked.words and subcommand.opaque is None and not asked.writes
    patterns = [each for each in rule.command_patterns.for_command(asked) if sets_only or each.covers(asked)]
    if not patterns:
        return False
    if asked.usage is not None and patterns[0].usage_kind is not None:
        return _covers_usage(rule, asked, asked.usage, call)
    files = (*asked.writes, *_operands(asked), *_folder(asked, call)) if rule.paths else asked.writes
    return _outside(rule.paths, files, call, _workspace(rule, call)) is None


def _outside(
    patterns: tuple[PathPattern, ...], files: Iterable[Word], call: CallTargets, workspace: Workspace
) -> ResolvedPath | None:
    """Return the first of some files that patterns do not surely cover."""
    places = (place for word in files for place in call.word_places(word))
    return next((each for each in places if not all_covered(patterns, each, workspace)), None)


def covering_rules(rules: list[Rule], subcommand: Subcommand, call: CallTargets) -> tuple[Rule, ...]:
    """Return the allow rules that together cover one command: one for all of it, or two; none if they do not.

    If there are two, one covers the program, and one would allow `tee` to write the files of its redirections.
    """
    for parts in ((subcommand,), _split_redirections(subcommand)):
        found = [next((rule for rule in rules if covers_subcommand(rule, part, call)), None) for part in parts]
        if found and None not in found:
            return tuple(rule for rule in found if rule is not None)
    return ()


def _split_redirections(subcommand: Subcommand) -> tuple[Subcommand, ...]:
    """Return a command without the files that its redirections write, and a `tee` to them."""
    if not subcommand.writes or _empties(subcommand):
        return ()
    words = (Word("tee"), *subcommand.writes)
    return subcommand._replace(writes=()), Subcommand(words=words, usage=usage_of(words))


def why_not_covered(rules: Iterable[Rule], call: CallTargets) -> str | None:
    """Return why none of some allow rules covers a command line; None if they cover it, or if none is on commands."""
    able = [rule for rule in rules if rule.is_allow and rule.commands]
    around = [rule for rule in able if covers_around(rule, call)]
    if not able or not call.lines:
        return None
    if call.doubt is not None:
        return f"it is not understood ({call.doubt})"
    for subcommand in call.subcommands:
        if not covering_rules(around, subcommand, call):
            return _why_not_covered(able, subcommand, call)
    return None


def _why_not_covered(rules: list[Rule], subcommand: Subcommand, call: CallTargets) -> str:
    usage = subcommand.usage
    if subcommand.words and usage is None:
        return why_unknown(subcommand.words)
    if _empties(subcommand):
        return f"{subcommand.writes[0].text!r} would be emptied"
    fitting = [rule for rule in rules if any(each.covers(subcommand) for each in rule.commands)]
    paths = (*(pattern for rule in fitting or rules for pattern in rule.paths), *READABLE)
    files = (*subcommand.writes, *subcommand.reads, *((*usage.writes, *usage.reads, *usage.looks) if usage else ()))
    outside = _outside(paths, map(_known_folder, files[:MAX_WORDS]), call, call.workspace)
    if outside is not None:
        why = "is outside of the paths that rules allow" if outside.candidates else "may be any path"
        return f"{subcommand.name or 'a redirection'!r} uses {outside.text!r}, which {why}"
    return subcommand.opaque or f"the files of {subcommand.name or 'a redirection'!r} are too many, or not all allowed"


def _covers_usage(rule: Rule, subcommand: Subcommand, usage: Usage, call: CallTargets) -> bool:
    """Return whether an allow covers the files of a known program; some places of the system may always be read."""
    if _empties(subcommand) or (usage.writes and _prints_nothing(subcommand)):
        return False  # It only empties the file.
    if _runs_what_is_written(usage, call):
        return False
    if not rule.paths:
        return not subcommand.writes
    written = (*subcommand.writes, *usage.writes, *_folder(subcommand, call))
    read = (*subcommand.reads, *usage.reads, *usage.looks)
    if len(written) + len(read) > MAX_WORDS:
        return False
    uses = (rule.paths, written), ((*rule.paths, *READABLE), read)
    workspace = _workspace(rule, call)
    return all(_outside(patterns, map(_known_folder, words), call, workspace) is None for patterns, words in uses)


def _empties(subcommand: Subcommand) -> bool:
    """Return whether a redirection replaces the content of a file by nothing."""
    writes, appends = subcommand.writes, subcommand.appends
    return any(writes.count(each) > appends.count(each) for each in writes) and _prints_nothing(subcommand)


def _prints_nothing(subcommand: Subcommand) -> bool:
    words = subcommand.words
    is_blank = subcommand.name in _PRINTERS and not any(word.text.strip() for word in words[1:])
    return subcommand.name in _NO_EFFECT or is_blank or Word("/dev/null") in words


def _runs_what_is_written(usage: Usage, call: CallTargets) -> bool:
    """Return whether a program runs a file that another command of the line writes."""
    if not usage.runs:
        return False
    written = {
        word.text.removeprefix("./")
        for each in call.subcommands
        for word in (*each.writes, *(() if each.usage is None or each.usage is usage else each.usage.writes))
    }
    return any(word.text.removeprefix("./") in written for word in usage.runs)


def _folder(subcommand: Subcommand, call: CallTargets) -> Iterator[Word]:
    """Return the folder that a command runs in if the line changes it and the program may run files of it."""
    if (subcommand.opaque is not None or subcommand.name == "git") and any(
        each.name in FOLDER_CHANGES for each in call.subcommands
    ):
        yield Word(".")


def _operands(subcommand: Subcommand) -> Iterator[Word]:
    """Return the files that a command may write or run, as its words name them.

    Wildcards stand for the folder that they are in. Of a program that is understood only what it writes counts.
    """
    name, words = subcommand.name, subcommand.words
    in_place = name == "sed" and any(re.match(r"-[nErsz]*i|--in-place", word.text) for word in words)
    if name == "git":
        yield from (after for word, after in pairwise(words) if word.text == "-C")
    elif words and (name in WRITERS or in_place or subcommand.opaque is not None):
        takes_urls = name in ("curl", "wget") or name not in WRITERS
        files = [word for word in words[1 + in_place :] if not (takes_urls and "://" in word.text)]
        for word in path_words(Subcommand(words=(words[0], *files))):
            if word.text != "/dev/null" or name not in ("curl", "tee", "wget"):
                yield _known_folder(word)


def _known_folder(word: Word) -> Word:
    """Return the folder of a word with wildcards; a wildcard after a dot may lead to the folder above."""
    if not word.expands or re.search(r"(?:^|/)\.+[*?]", word.text):
        return word
    folder = re.split(r"(?:^|/)[^/]*[*?]", word.text, maxsplit=1)[0]
    return Word(folder or ("/" if word.text.startswith("/") else "."))
