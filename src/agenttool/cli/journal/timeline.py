"""When what happened to a call, in the words of its events and the phases they belong to."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.words import duration, plain_table, style_of
from agenttool.records import EventType, Phase, ToolEvent

FEW = 6
"""So many updates are told at either end of a long row of them."""

_E, _P = EventType, Phase
_PHASES = {
    _E.PLANNED: _P.RESOLVE_TOOL,
    _E.SELECTED: _P.RESOLVE_TOOL,
    _E.ARGUMENTS_READY: _P.VALIDATE_VALUES,
    _E.HOOK_PRE_STARTED: _P.PRE_HOOKS,
    _E.HOOK_PRE_COMPLETED: _P.PRE_HOOKS,
    _E.PERMISSION_REQUESTED: _P.PERMISSION,
    _E.PERMISSION_DECIDED: _P.PERMISSION,
    _E.QUEUED: _P.SCHEDULE,
    _E.STARTED: _P.EXECUTE,
    _E.PROGRESS: _P.EXECUTE,
    _E.PARTIAL_RESULT: _P.EXECUTE,
    _E.HOOK_POST_STARTED: _P.POST_HOOKS,
    _E.HOOK_POST_COMPLETED: _P.POST_HOOKS,
    _E.RESULT_PERSISTED: _P.PERSIST_RESULT,
    _E.RESULT_REDACTED: _P.PERSIST_RESULT,
    _E.RESULT_CREATED: _P.EMIT_TERMINAL,
    _E.YIELDED: _P.EMIT_TERMINAL,
    **dict.fromkeys((_E.SUCCEEDED, _E.FAILED, _E.CANCELED, _E.TIMED_OUT), _P.EMIT_TERMINAL),
}
_SAID = ("name", "hook", "behavior", "decided_by", "message", "step", "strategy", "error_class", "abort_reason")


def timeline(told: Sequence[tuple[int, ToolEvent]]) -> Table:
    """Draw events, each with the nanoseconds since the beginning of its call."""
    table = plain_table("since start", "phase", "event", "", header=True)
    table.columns[0].justify = "right"
    table.columns[1].no_wrap = table.columns[2].no_wrap = True
    before: str | None = None
    for row in _shortened(told):
        if isinstance(row, int):
            table.add_row("", "", Text(f"… {row:,} more", style="dim"))
            continue
        since, event = row
        phase = phase_of(event)
        seen = "" if phase == before else phase
        before = phase
        table.add_row(f"+{duration(since)}", Text(seen, style="cyan"), _event(event), Text(said(event)))
    return table


def phase_of(event: ToolEvent) -> str:
    """Tell to which phase an event belongs; the request to stop comes from outside of all of them."""
    told = (event.data or {}).get("phase")
    found = _PHASES.get(event.event_type)
    return printable(told) if isinstance(told, str) else "" if found is None else found.value


def event_word(event: ToolEvent) -> str:
    """Give the name of an event without what all of them share."""
    return printable(event.event_type.removeprefix("tool.").removeprefix("invocation."))


def said(event: ToolEvent) -> str:
    """Tell in a few words what an event says."""
    data = event.data or {}
    words = [printable(str(data[name])) for name in _SAID if data.get(name) is not None]
    if data.get("prompted"):
        words.insert(0, "somebody is asked")
    percent = data.get("percent")
    if isinstance(percent, int | float):
        words.append(f"({percent:.0f} %)")
    return "  ".join(words)


def _event(event: ToolEvent) -> Text:
    status = (event.data or {}).get("status")
    return Text(event_word(event), style=style_of(str(status)) if event.event_type.is_terminal else "")


def _shortened(told: Sequence[tuple[int, ToolEvent]]) -> Iterator[tuple[int, ToolEvent] | int]:
    """Leave out the middle of a long row of updates; a number stands for how many."""
    row: list[tuple[int, ToolEvent]] = []
    for each in (*told, None):
        if each is not None and each[1].event_type is EventType.PROGRESS:
            row.append(each)
            continue
        if len(row) > 2 * FEW + 1:
            yield from row[:FEW]
            yield len(row) - 2 * FEW
            yield from row[-FEW:]
        else:
            yield from row
        row = []
        if each is not None:
            yield each
