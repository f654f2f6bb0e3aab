"""The decisions about a call: what was decided, by which rule, which rules it beat, and what would have allowed it."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.words import compact, lines, plain_table, style_of
from agenttool.records import Behavior, PermissionDecision, Reason, SuggestedUpdate, UnsetType


def decisions_block(decisions: Sequence[PermissionDecision]) -> Group:
    """Draw all decisions about one call, in order."""
    return Group(*(part for decision in decisions for part in _decision(decision)))


def _decision(decision: PermissionDecision) -> Iterator[RenderableType]:
    reason = decision.reason or Reason()
    first = Text(decision.behavior.value, style=f"bold {style_of(decision.behavior)}")
    first.append(f"  {lines(reason.message or '')}", style="not bold default")
    yield first
    facts = plain_table()
    for name, value in _facts(decision, reason):
        facts.add_row(Text(name, style="dim"), Text(value))
    yield Padding(facts, (0, 0, 0, 2))
    for suggestion in decision.suggested_updates or ():
        yield Padding(_suggestion(suggestion, decision.behavior), (0, 0, 0, 2))


def _facts(decision: PermissionDecision, reason: Reason) -> Iterator[tuple[str, str]]:
    if decision.decided_by:
        yield "by", printable(decision.decided_by)
    told = f"{decision.source or 'nobody'}, mode {decision.mode or 'not recorded'}"
    yield "source", printable(told)
    if decision.rule_refs:
        yield "rules", printable(", ".join(decision.rule_refs))
    if reason.beaten_rule_refs:
        yield "beaten", printable(", ".join(reason.beaten_rule_refs))
    if reason.hook_ref:
        yield "hook", printable(reason.hook_ref)
    if decision.blocked_path:
        yield "path", printable(decision.blocked_path)
    if check := decision.pending_classifier_check:
        told = (check.classifier_ref, check.status, check.authority, check.classifier_reason)
        yield "classifier", printable("  ".join(str(each) for each in told if each))
    if decision.accept_feedback:
        yield "feedback", printable(decision.accept_feedback)
    if decision.expires_at:
        yield "expires", printable(decision.expires_at)


def _suggestion(suggestion: SuggestedUpdate, behavior: Behavior) -> RenderableType:
    """Tell the smallest change that would have let the call through: a rule to paste, or what stands against it."""
    told = suggestion.type or "change"
    would = "would have gone unasked" if behavior is Behavior.ASK else "would have been allowed"
    table = Table.grid()
    table.add_column(overflow="fold")
    if isinstance(suggestion.value, str) and suggestion.rule is not None:
        words, text = f"it {would} with this rule:", suggestion.value
    elif suggestion.rule is not None:
        words, text = f"it {would} with this rule for the session:", compact(suggestion.rule)
    else:
        value = "" if isinstance(suggestion.value, UnsetType) else compact(suggestion.value)
        words, text = f"it {would} after {printable(told.replace('_', ' '))}:", value
    table.add_row(Text(words, style="dim"))
    table.add_row(Padding(Text(lines(text), style="green", overflow="fold"), (0, 0, 0, 2)))
    return table
