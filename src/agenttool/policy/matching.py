"""Match rules with a call: the paths, commands, URLs and resources among its arguments.

An allow matches only if it surely covers the whole call. A deny or an ask matches whatever it cannot rule out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from agenttool.policy.fields import MatchingField, field_named, flatten_lists, pointers_in, texts_in, values_at
from agenttool.policy.paths import (
    PathPattern,
    ResolvedPath,
    Workspace,
    all_covered,
    resolve_path,
    resolve_word,
)
from agenttool.policy.programs import NO_FILES, WRITERS, list_argv, list_commands
from agenttool.policy.rules import Rule
from agenttool.policy.shell import CommandLine, Subcommand
from agenttool.policy.shell_words import Certainty, Word
from agenttool.policy.subject import Subject, qualified_name
from agenttool.policy.urls import Url, url_of
from agenttool.policy.usage import WRITES, Usage, why_unknown
from agenttool.policy.wildcards import fits
from agenttool.records import Behavior, Json, ToolDeclaration

MAX_WORDS = 30
"""How many words of commands are looked up as paths; more count as everywhere."""

MAX_FOLDERS = 5
"""How many folders the words of a line may be relative to; a line that changes it more often may be anywhere."""

MAX_STEPS = 32
"""A word of a command with more steps may be any path."""

MAX_PLACES = 60
"""How many paths the words may be, from all of these folders; more count as everywhere."""

MAX_PIECES = 8
"""How many parts of a word may be names, or texts of another command; a word with more may be anything."""

MAX_WORD = 512
"""A longer word of a command may be any path."""

READABLE = tuple(
    PathPattern(each)
    for each in (
        "/usr/include",
        "/usr/share/doc",
        "/usr/lib/python3*/**",
        "/etc/os-release",
        "/proc/cpuinfo",
        "/proc/meminfo",
    )
)
"""Places outside of a workspace that known programs may read."""
_NO_EFFECT = frozenset({":", "true"})
_MOVES = frozenset({"cd", "chdir", "pushd", "popd"})
_HOST = re.compile(r"^(?:localhost|[^\s/@:-][^\s/@:]*[.\u3002\uff0e\uff61][^\s/@:]+)(?::\d+)?(?:/|$)", re.IGNORECASE)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_JOINTS = re.compile(r"[=@:,;]")
_TEXT_BREAKS = re.compile(r"[\s'\"`();|&<>!]+")


@dataclass(frozen=True, slots=True)
class Caller:
    """The actor that makes a call, with its roles and teams; the actor is none if the caller did not name one."""

    actor: str | None = None
    roles: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()


UNKNOWN_CALLER = Caller()


class CallTargets:
    """The paths, commands, URLs and resources of one call, read on first use.

    A value of the wrong type counts as unreadable, so that a deny matches it. Paths and URLs that words of a command
    may name (`cat secrets/key`) are separate: a deny matches them, an allow does not.
    """

    def __init__(
        self, subject: Subject, arguments: Json, workspace: Workspace, caller: Caller = UNKNOWN_CALLER
    ) -> None:
        """Store the call; nothing is parsed yet."""
        self.subject = subject
        self.arguments = arguments
        self.workspace = workspace
        self.caller = caller
        self._word_places: dict[Word, tuple[ResolvedPath, ...]] = {}

    def _values(self, field: MatchingField) -> list[Json]:
        fields = self.subject.fields
        if field in fields.anywhere:
            return [*texts_in(self.arguments)]
        found = [value for steps in self._places(field) for value in values_at(self.arguments, steps)]
        return [value for value in found if value is not None]

    def _places(self, field: MatchingField) -> tuple[tuple[str, ...], ...]:
        declared = self.subject.fields.places.get(field, ())
        return (*declared, *self._named.get(field, ())) if self.subject.fields.is_open else declared

    @cached_property
    def _named(self) -> dict[MatchingField, list[tuple[str, ...]]]:
        """The members of undeclared arguments whose names suggest a field."""
        found: dict[MatchingField, list[tuple[str, ...]]] = {}
        for steps in pointers_in(self.arguments):
            field = field_named(steps[-1])
            declared = () if field is None else self.subject.fields.places.get(field, ())
            if field is not None and not any(_leads_to(place, steps) for place in declared):
                found.setdefault(field, []).append(steps)
        return found

    def is_sure_of(self, field: MatchingField) -> bool:
        """Return whether the place of a field is declared; if not, any text may be it, and no allow relies on it."""
        return field not in self.subject.fields.anywhere

    @cached_property
    def paths(self) -> tuple[ResolvedPath, ...]:
        """The resolved path arguments."""
        values = flatten_lists(self._values(MatchingField.PATH))
        return tuple(
            resolve_path(value, self.workspace) if isinstance(value, str) else ResolvedPath(text=str(value))
            for value in values
        )

    @cached_property
    def urls(self) -> tuple[Url, ...]:
        """The parsed URL arguments."""
        values = flatten_lists(self._values(MatchingField.URL))
        return tuple(url_of(value) if isinstance(value, str) else Url(text=str(value)) for value in values)

    @cached_property
    def resources(self) -> tuple[str | None, ...]:
        """The resource arguments; None for one that is not text."""
        values = flatten_lists(self._values(MatchingField.RESOURCE))
        return tuple(value if isinstance(value, str) else None for value in values)

    @cached_property
    def lines(self) -> tuple[CommandLine, ...]:
        """The command lines among the arguments, in every way that the tool may read them."""
        if MatchingField.COMMAND in self.subject.fields.anywhere:
            return tuple(list_commands(text) for text in texts_in(self.arguments))
        return tuple(
            line
            for steps in self._places(MatchingField.COMMAND)
            for outer in values_at(self.arguments, steps[:-1])
            for line in _lines(outer, steps[-1:])
        )

    @cached_property
    def subcommands(self) -> tuple[Subcommand, ...]:
        """Every command that the call would run, each once."""
        return tuple(dict.fromkeys(subcommand for line in self.lines for subcommand in line.subcommands))

    @property
    def doubt(self) -> str | None:
        """Why a command line is not understood, so that it may run more than is listed; None if it is understood."""
        return next((line.doubt for line in self.lines if line.doubt is not None), None)

    @cached_property
    def _bases(self) -> tuple[str, ...] | None:
        """The directories of relative words; None if a command changes to an unknown directory."""
        at = self.workspace.starts
        found = dict.fromkeys((*(place.text for place in self.paths if place.candidates), *at))
        for subcommand in self.subcommands:
            if subcommand.name in _MOVES:
                targets = [word for word in subcommand.words[1:] if not word.text.startswith("-")]
                to = targets[0].text if len(targets) == 1 and targets[0].is_plain else None
                if not at or to is None or to.count("/") > MAX_STEPS:
                    return None
                at = tuple(resolve_word(to, self.workspace, base=each, expands=False).text for each in at)
                found.update(dict.fromkeys(at))
                if len(found) > MAX_FOLDERS:
                    return None
        return tuple(found)

    def word_places(self, word: Word) -> tuple[ResolvedPath, ...]:
        """Return the resolved paths of a word, from every directory that the command may be in."""
        if word.is_unknown or self._bases is None or word.text.count("/") > MAX_STEPS:
            return (ResolvedPath(text=word.text),)
        if word not in self._word_places:
            expands = word.certainty is Certainty.EXPANDS
            bases = self._bases or (None,)
            self._word_places[word] = tuple(
                resolve_word(word.text, self.workspace, base=base, expands=expands) for base in bases
            )
        return self._word_places[word]

    @cached_property
    def possible_paths(self) -> tuple[ResolvedPath, ...]:
        """The paths that words of commands may be, for a deny or an ask."""
        return self._resolved(word for subcommand in self.subcommands for word in _path_words(subcommand))

    @cached_property
    def possible_writes(self) -> tuple[ResolvedPath, ...]:
        """The paths among them that commands may write."""
        return self._resolved(word for subcommand in self.subcommands for word in _written_words(subcommand))

    def _resolved(self, found: Iterable[Word]) -> tuple[ResolvedPath, ...]:
        if not self.lines:
            return ()
        words = dict.fromkeys(found)
        hidden = (ResolvedPath(text="a command that cannot be known"),) if self.doubt is not None else ()
        if len(words) > MAX_WORDS or len(words) * len(self._bases or ()) > MAX_PLACES:
            return (ResolvedPath(text="one of very many words"),)
        return (*(place for word in words for place in self.word_places(word)), *hidden)

    @cached_property
    def listed_paths(self) -> tuple[ResolvedPath, ...]:
        """The wildcards of commands that only show names, sizes or counts, for a deny."""
        usages = [each.usage for each in self.subcommands if each.usage is not None]
        words = [word for usage in usages for word in usage.looks if not word.is_plain]
        return tuple(place for word in words[:MAX_WORDS] for place in self.word_places(word))

    @cached_property
    def possible_urls(self) -> tuple[Url, ...]:
        """The URLs that words of commands may be, for a deny or an ask."""
        if not self.lines:
            return ()
        words = {word: None for subcommand in self.subcommands for word in _arguments(subcommand)}
        hidden = (Url(text="a command that cannot be known"),) if self.doubt is not None else ()
        if len(words) > MAX_WORDS:
            return (Url(text="one of very many words"),)
        return (*(url for word in words for url in _word_urls(word)), *hidden)


def _leads_to(place: tuple[str, ...], steps: tuple[str, ...]) -> bool:
    return len(place) == len(steps) and all(mine in ("*", yours) for mine, yours in zip(place, steps, strict=True))


_UNREADABLE_COMMAND = CommandLine(doubt="the command is not text")


def _lines(outer: Json, last: tuple[str, ...]) -> Iterator[CommandLine]:
    """Parse the commands at the last step of a pointer; further words may be in a sibling `args`."""
    beside = [outer[name] for name in ("args", "arguments") if name in outer] if isinstance(outer, dict) else []
    for value in values_at(outer, last):
        if value is None:
            continue
        if isinstance(value, str):
            if not beside or re.search(r"\s", value):
                yield list_commands(value)
            yield from (_argv([value, *more]) if isinstance(more, list) else _UNREADABLE_COMMAND for more in beside)
        elif isinstance(value, list):
            yield _argv(value)
            if last and last[0].endswith("s"):
                # `commands`, unlike `command`, may be one text after another.
                yield from (list_commands(each) if isinstance(each, str) else _UNREADABLE_COMMAND for each in value)
        else:
            yield _UNREADABLE_COMMAND


def _argv(words: list[Json]) -> CommandLine:
    """Return the commands of a list of words that run without a shell."""
    texts = [word for word in words if isinstance(word, str)]
    return list_argv(texts) if texts and len(texts) == len(words) else _UNREADABLE_COMMAND


def _arguments(subcommand: Subcommand, first: int = 1) -> Iterator[Word]:
    """Return the words of a command; for an opaque one also their parts, which may be text of another command."""
    for word in subcommand.words[first:]:
        parts = [word.text]
        if subcommand.opaque is not None and not word.is_unknown and len(word.text) <= MAX_WORD:
            parts = list(dict.fromkeys((word.text, *_TEXT_BREAKS.split(word.text))))
        is_long = len(word.text) > MAX_WORD or len(parts) > MAX_WORDS
        if word.is_unknown or is_long or any(len(_JOINTS.findall(each)) > MAX_PIECES for each in parts[1:] or parts):
            yield Word(word.text[:MAX_WORD], Certainty.UNKNOWN)
        else:
            yield from (Word(each, word.certainty) for each in parts if len(_JOINTS.findall(each)) <= MAX_PIECES)


def _path_words(subcommand: Subcommand) -> Iterator[Word]:
    """Return what may be a path in a command: its arguments, what is joined to its options, its redirections."""
    yield from (*subcommand.reads, *subcommand.writes)
    if subcommand.usage is not None:
        exact = [word for word in subcommand.usage.looks if word.is_plain]
        yield from (*subcommand.usage.reads, *subcommand.usage.writes, *exact)
        return
    if subcommand.name in NO_FILES:
        return
    is_path = bool(subcommand.words) and (subcommand.name is None or "/" in subcommand.name)
    for word in _arguments(subcommand, 0 if is_path else 1):
        if word.is_unknown:
            yield word
        elif word.certainty is not Certainty.NUMBER:
            names = [each for each in _pieces(word.text) if not each.startswith("-")]
            yield from (Word(each, word.certainty) for each in names)


def _written_words(subcommand: Subcommand) -> Iterator[Word]:
    """Return what a command may write; of a program that is not known every path."""
    yield from subcommand.writes
    if subcommand.usage is not None:
        yield from subcommand.usage.writes
    elif not subcommand.is_wrapper:
        yield from _path_words(subcommand)


def _pieces(text: str) -> list[str]:
    """Return the parts of a word that may be names: `-dVALUE`, `file=@NAME;type=x`, `NAME:/inside`, `file:NAME`."""
    value = [text[2:]] if re.match(r"^-[^-]", text) else []
    rests = [text[joint.end() :] for joint in _JOINTS.finditer(text)]
    fields = [field for whole in (text, *value) for field in _JOINTS.split(whole)]
    return [each for each in dict.fromkeys((text, *value, *rests, *fields)) if each]


def _word_urls(word: Word) -> Iterator[Url]:
    """Return the URLs that a word may be, with or without a scheme, as `curl` reads it."""
    if word.is_unknown:
        yield Url(text=word.text)
    elif "://" in word.text:
        yield from map(url_of, [each for each in _pieces(word.text) if _ADDRESS.match(each)] or [word.text])
    else:
        # A file name such as `x.y` may look like a host.
        hosts = [each for each in _pieces(word.text) if _HOST.match(each)]
        urls = (url_of(f"{scheme}://{host}") for host in hosts for scheme in ("http", "https"))
        yield from (url for url in urls if url.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """What a deny or an ask matched in a call.

    Attributes:
        path: the path that was matched, for the record.
        what: what was matched, for messages: a path, the name of a command, an address.
        is_certain: whether it surely matches; otherwise it only cannot be ruled out, and a deny becomes a question.
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
    """Return whether the tool of an allow has changed since; a deny or an ask stays in force."""
    digest = rule.declaration_digest if rule.behavior == Behavior.ALLOW else None
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
    if rule.behavior != Behavior.ALLOW or rule.namespaces:
        known.append(declaration.name)
    if rule.behavior != Behavior.ALLOW:
        known += declaration.aliases or ()
        return _any_fits(map(str.casefold, rule.tools), map(str.casefold, known))
    return _any_fits(rule.tools, known)


def _any_fits(patterns: Iterable[str], names: Iterable[str]) -> bool:
    known = tuple(names)
    return any(fits(pattern, name) for pattern in patterns for name in known)


def names_caller(rule: Rule, caller: Caller) -> bool:
    """Return whether a rule applies to a caller; a deny or an ask also applies to a caller that is not known."""
    if caller.actor is None:
        return rule.behavior != Behavior.ALLOW or not rule.names_callers
    named = ((rule.actors, (caller.actor,)), (rule.roles, caller.roles), (rule.teams, caller.teams))
    return all(not patterns or _any_fits(patterns, names) for patterns, names in named)


def missing_fields(rule: Rule, subject: Subject) -> tuple[str, ...]:
    """Name the fields of a rule that a tool does not have, so that the rule cannot apply to it (AT-PERM-09)."""
    # Arguments that are not declared may still be given, so a deny or an ask applies to them.
    may_have_more = subject.fields.is_open and rule.behavior != Behavior.ALLOW
    missing = [str(field) for field in rule.fields if not subject.fields.has(field) and not may_have_more]
    if subject.arguments is not None:
        missing += [test.pointer for test in rule.arguments if test.steps[:1] and _is_missing(test.steps[0], subject)]
    return tuple(missing)


def _is_missing(argument: str, subject: Subject) -> bool:
    return argument != "*" and subject.arguments is not None and argument not in subject.arguments


def matches(rule: Rule, call: CallTargets) -> bool:
    """Return whether a rule matches a call."""
    subject = call.subject
    if is_outdated(rule, subject) or not names_tool(rule, subject) or missing_fields(rule, subject):
        return False
    if not names_caller(rule, call.caller):
        return False
    return covers(rule, call) if rule.behavior == Behavior.ALLOW else find_match(rule, call) is not None


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
            found = replace(
                match,
                is_certain=match.is_certain and found.is_certain,
                is_exact=match.is_exact and found.is_exact,
            )
    if found is not _ANY_CALL and call.subject.hides_fields:
        return replace(found, path=None, what="something in it that is sensitive")
    return found


def _path(rule: Rule, call: CallTargets) -> RuleMatch | None:
    listed = call.listed_paths if rule.behavior == Behavior.DENY else ()
    is_about_writes = bool(rule.commands) and rule.commands[0].usage_kind == WRITES
    possible = call.possible_writes if is_about_writes else call.possible_paths
    places = [each for each in (*call.paths, *possible, *listed) if _hits_path(rule, each, call)]
    # A readable path, or one that is an argument, is certain; a word that cannot be read may be any path.
    known = sorted(
        (each for each in places if each.candidates or each in call.paths), key=lambda each: not each.is_exact
    )
    certain = next(iter(known), None)
    found = certain or next(iter(places), None)
    if found is None:
        return None
    what = "a path that is computed" if certain is None else f"path {found.text!r}"
    return RuleMatch(path=found.text, what=what, is_certain=certain is not None, is_exact=found.is_exact)


def _hits_path(rule: Rule, place: ResolvedPath, call: CallTargets) -> bool:
    return rule.path_patterns.hits(place, call.workspace, is_ask=rule.behavior == Behavior.ASK)


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
    return (
        (not rule.commands or (bool(call.lines) and call.doubt is None and call.is_sure_of(MatchingField.COMMAND)))
        and _covers_paths(rule, call)
        and _covers_urls(rule, call)
        and _covers_resources(rule, call)
    )


def _covers_paths(rule: Rule, call: CallTargets) -> bool:
    if not rule.paths:
        return True
    is_known = call.is_sure_of(MatchingField.PATH) and bool(call.paths or rule.commands)
    return is_known and all(all_covered(rule.paths, place, call.workspace) for place in call.paths)


def _covers_urls(rule: Rule, call: CallTargets) -> bool:
    if not rule.urls:
        return True
    urls = (*call.urls, *call.possible_urls)
    is_known = call.is_sure_of(MatchingField.URL) and bool(urls)
    return is_known and all(any(pattern.covers(url) for pattern in rule.urls) for url in urls)


def _covers_resources(rule: Rule, call: CallTargets) -> bool:
    if not rule.resources:
        return True
    is_known = call.is_sure_of(MatchingField.RESOURCE) and bool(call.resources) and None not in call.resources
    return is_known and all(any(fits(each, name or "") for each in rule.resources) for name in call.resources)


def covers_subcommand(rule: Rule, subcommand: Subcommand, call: CallTargets) -> bool:
    """Return whether an allow surely covers one command, and every file that its redirections write."""
    if not rule.commands:
        return True
    asked = subcommand if not subcommand.is_wrapper else _shell_of(subcommand)
    if asked == Subcommand():
        return True
    sets_only = not asked.words and subcommand.opaque is None and not asked.writes
    patterns = [each for each in rule.command_patterns.for_command(asked) if sets_only or each.covers(asked)]
    if not patterns:
        return False
    if asked.usage is not None and patterns[0].usage_kind is not None:
        return _covers_usage(rule, asked, asked.usage, call)
    files = (*asked.writes, *_operands(asked), *_folder(asked, call)) if rule.paths else asked.writes
    return all(all_covered(rule.paths, place, call.workspace) for word in files for place in call.word_places(word))


def why_not_covered(rules: Iterable[Rule], call: CallTargets) -> str | None:
    """Return why none of some allow rules covers a command line; None if they cover it, or if none is on commands."""
    able = [rule for rule in rules if rule.behavior == Behavior.ALLOW and rule.commands]
    if not able or not call.lines:
        return None
    if call.doubt is not None:
        return f"it is not understood ({call.doubt})"
    for subcommand in call.subcommands:
        if not any(covers_around(rule, call) and covers_subcommand(rule, subcommand, call) for rule in able):
            return _why_not_covered(able, subcommand, call)
    return None


def _why_not_covered(rules: list[Rule], subcommand: Subcommand, call: CallTargets) -> str:
    usage = subcommand.usage
    if subcommand.words and usage is None:
        return why_unknown(subcommand.words)
    paths = (*(pattern for rule in rules for pattern in rule.paths), *READABLE)
    files = (*subcommand.writes, *subcommand.reads, *((*usage.writes, *usage.reads, *usage.looks) if usage else ()))
    places = [place for word in files[:MAX_WORDS] for place in call.word_places(_known_folder(word))]
    outside = next((each for each in places if not all_covered(paths, each, call.workspace)), None)
    if outside is not None:
        why = "is outside of the paths that rules allow" if outside.candidates else "may be any path"
        return f"{subcommand.name or 'a redirection'!r} uses {outside.text!r}, which {why}"
    return subcommand.opaque or f"the files of {subcommand.name or 'a redirection'!r} are too many, or not all allowed"


def _covers_usage(rule: Rule, subcommand: Subcommand, usage: Usage, call: CallTargets) -> bool:
    """Return whether an allow covers the files of a known program; some places of the system may always be read."""
    if subcommand.writes and (subcommand.name in _NO_EFFECT or Word("/dev/null") in subcommand.words):
        return False  # It only empties the file.
    if _runs_what_is_written(usage, call):
        return False
    if not rule.paths:
        return not subcommand.writes
    written = (*subcommand.writes, *usage.writes, *_folder(subcommand, call))
    read = (*subcommand.reads, *usage.reads, *usage.looks)
    if len(written) + len(read) > MAX_WORDS:
        return False
    return all(
        all_covered(patterns, place, call.workspace)
        for patterns, words in (
            (rule.paths, written),
            ((*rule.paths, *READABLE), read),
        )
        for word in words
        for place in call.word_places(_known_folder(word))
    )


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
        each.name in _MOVES for each in call.subcommands
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
        for word in _path_words(Subcommand(words=(words[0], *files))):
            if word.text != "/dev/null" or name not in ("curl", "tee", "wget"):
                yield _known_folder(word)


def _known_folder(word: Word) -> Word:
    """Return the folder of a word with wildcards; a wildcard after a dot may lead to the folder above."""
    if word.certainty is not Certainty.EXPANDS or re.search(r"(?:^|/)\.+[*?]", word.text):
        return word
    folder = re.split(r"(?:^|/)[^/]*[*?]", word.text, maxsplit=1)[0]
    return Word(folder or ("/" if word.text.startswith("/") else "."))


def _shell_of(subcommand: Subcommand) -> Subcommand:
    """Return the variables and redirections of a wrapper, without the command that it runs."""
    return Subcommand(assignments=subcommand.assignments, writes=subcommand.writes, reads=subcommand.reads)
