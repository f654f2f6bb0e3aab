"""The four inputs of a call, each told by what is different from the one before, and by whom."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.words import compact, plain_table
from agenttool.records import (
    InputMutation,
    InputStage,
    InvocationStatus,
    Json,
    MutationSource,
    PermissionDecision,
    ToolInvocation,
    UnsetType,
    input_ref,
)
from agenttool.schema.explain import pointer_of

Change = tuple[str, str, str, str]
"""A sign, the place as a JSON pointer, and the value before and after."""

_HIDDEN = "[redacted]"


def inputs_table(
    invocation: ToolInvocation, mutations: Sequence[InputMutation], decisions: Sequence[PermissionDecision]
) -> Table:
    """Draw what was asked for, and every step from there to what ran."""
    table = plain_table("input", "value or difference", "changed by", header=True)
    authors: dict[str, str] = {each.decision_id: each.decided_by or "" for each in decisions}
    value = invocation.model_input
    shown = Text("not recorded", style="dim") if isinstance(value, UnsetType) else Text(compact(value))
    table.add_row(Text("model_input", style="cyan"), shown, "")
    for stage, now, is_reached in _stages(invocation):
        made = [each for each in mutations if each.to_input_ref == input_ref(invocation.invocation_id, stage)]
        changed = tuple(changes(value, now, made))
        told = Text("as above" if is_reached else "the call did not get so far", style="dim")
        for place, line in enumerate([_line(each) for each in changed] or [told]):
            by = Text(", ".join(_by(each, authors) for each in made))
            table.add_row(*(("", line, "") if place else (Text(stage.value, style="cyan"), line, by)))
        value = value if isinstance(now, UnsetType) else now
    return table


def _stages(invocation: ToolInvocation) -> Iterator[tuple[InputStage, Json | UnsetType, bool]]:
    """Give the later inputs, and whether there ever was such an input: one that did not change is not noted."""
    told = {step.status for step in invocation.status_transitions or ()}
    is_ready = InvocationStatus.ARGUMENTS_READY in told
    yield InputStage.OBSERVABLE_INPUT, invocation.observable_input, is_ready
    yield InputStage.PERMISSION_INPUT, invocation.permission_input, bool(invocation.permission_decision_refs)
    yield InputStage.CALL_INPUT, invocation.call_input, invocation.started_at is not None


def _line(change: Change) -> Text:
    sign, pointer, before, after = change
    told = Text(f"{sign} {pointer}  ", style="bold")
    told.append(before, style="not bold red")
    told.append(" → " if before and after else "", style="not bold")
    return told.append(after, style="not bold green")


def changes(before: Json | UnsetType, after: Json | UnsetType, made: Sequence[InputMutation]) -> Iterator[Change]:
    """Tell what is different: `+` is new, `-` is gone, `~` is another; a hidden value that changed shows as hidden."""
    if isinstance(before, UnsetType) or isinstance(after, UnsetType):
        return
    told = {change[1]: change for change in _differences(before, after, ())}
    named = [pointer for each in made for pointer in each.changed_fields or ()]
    yield from told.values()
    for pointer in dict.fromkeys(named):
        if not any(pointer == each or each.startswith(f"{pointer}/") for each in told):
            yield "~", printable(pointer), _HIDDEN, _HIDDEN


def _differences(before: Json, after: Json, steps: tuple[str, ...]) -> Iterator[Change]:
    place = printable(pointer_of(steps))
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            if name not in after:
                yield "-", printable(pointer_of((*steps, name))), compact(before[name]), ""
            elif name not in before:
                yield "+", printable(pointer_of((*steps, name))), "", compact(after[name])
            else:
                yield from _differences(before[name], after[name], (*steps, name))
    elif before != after or type(before) is not type(after):
        yield "~", place or "/", compact(before), compact(after)


def _by(mutation: InputMutation, authors: dict[str, str]) -> str:
    """Name who made a change; behind a prompt stands whoever answered it."""
    ref = mutation.source_ref or ""
    if mutation.source_type is MutationSource.PERMISSION_PROMPT:
        ref = authors.get(ref, "") or ref
    told = f"{mutation.source_type.value.replace('_', ' ')} {ref}".strip()
    return printable(f"{told} ({mutation.reason})" if mutation.reason else told)
