"""Rules that look at what the journal does not hold: redacted values, and what only a tool's own records say."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agenttool.cli.replay.tools import Seen
from agenttool.policy.fields import MatchingField, texts_in, values_at
from agenttool.policy.matching import CallTargets, matches
from agenttool.policy.paths import Workspace
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.subject import Subject
from agenttool.records import Json
from agenttool.results.redaction import MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A rule that may or may not match a call, and what it would have to see for that."""

    rule: Rule
    looks_at: str


def doubts_about(book: RuleBook, seen: Seen, arguments: Json, workspace: Workspace) -> tuple[Doubt, ...]:
    """Give the rules that would match if only what can be seen mattered, and look at something else as well."""
    call = CallTargets(seen.subject, arguments, workspace)
    found: list[Doubt] = []
    for rule in book:
        unseen = tuple(_unseen(rule, seen, arguments))
        if unseen and matches(_loosened(rule, seen, arguments), call):
            found.append(Doubt(rule=rule, looks_at=unseen[0]))
    return tuple(found)


def _unseen(rule: Rule, seen: Seen, arguments: Json) -> Iterator[str]:
    if not seen.is_declared:
        known = {"its kind": rule.kinds, "its native id": rule.operations, "its digest": rule.declaration_digest}
        yield from (f"{what}, which is not in the journal" for what, given in known.items() if given)
    if rule.paths or rule.commands or rule.urls or rule.resources:
        yield from (f"{where}, which is redacted" for where in _hidden_fields(seen.subject, arguments))
    for test in rule.arguments:
        if _is_hidden(arguments, test.steps):
            yield f"{test.pointer}, which is redacted"


def _loosened(rule: Rule, seen: Seen, arguments: Json) -> Rule:
    """Give the rule without every condition that looks at something unseen."""
    if not seen.is_declared:
        rule = replace(rule, kinds=(), operations=(), declaration_digest=None)
    if tuple(_hidden_fields(seen.subject, arguments)):
        rule = replace(rule, paths=(), commands=(), urls=(), resources=())
    return replace(rule, arguments=tuple(each for each in rule.arguments if not _is_hidden(arguments, each.steps)))


def _hidden_fields(subject: Subject, arguments: Json) -> Iterator[str]:
    """Name the arguments that rules on paths, commands, addresses or resources look at and that are redacted."""
    for field in MatchingField:
        places = ((),) if field in subject.fields.anywhere else subject.fields.places.get(field, ())
        yield from ("/" + "/".join(steps) for steps in places if _is_hidden(arguments, steps))


def _is_hidden(arguments: Json, steps: tuple[str, ...]) -> bool:
    """Tell whether what stands at a place, or something around it, was taken out."""
    around = (value for depth in range(len(steps)) for value in values_at(arguments, steps[:depth]))
    return any(value == MARKER for value in around) or any(
        MARKER in text for value in values_at(arguments, steps) for text in texts_in(value)
    )
