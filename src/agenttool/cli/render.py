"""The parts of a recorded call as tables: timeline, inputs, decisions, hooks, cancellation, result, persistence."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import TypeAlias

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agenttool.cli.format import compact_json, duration, printable_lines, status_style
from agenttool.cli.output import figures, fixed, indented, plain_table
from agenttool.codec import to_json
from agenttool.codec.moments import nanoseconds
from agenttool.history.listed_call import approver_name
from agenttool.history.printable import printable
from agenttool.policy.verdict import REMEDIES
from agenttool.records import (
    TERMINAL_EVENTS,
    Behavior,
    EventType,
    HookOutputKind,
    InputMutation,
    InputStage,
    InvocationStatus,
    Json,
    JsonObject,
    MutationSource,
    PermissionDecision,
    Phase,
    Reason,
    ResultPersistence,
    SuggestedUpdate,
    ToolEvent,
    ToolHook,
    ToolInvocation,
    ToolResult,
    UnsetType,
    input_ref,
)
from agenttool.schema.explain import pointer_of

PREVIEW_LINES = 12
PREVIEW_CHARS = 1200

SHOWN_UPDATES = 6
"""A long run of progress updates shows this many at either end."""

InputChange: TypeAlias = tuple[str, str, str, str]
"""`+`, `-` or `~`, the JSON pointer, and the value before and after."""

_REDACTED = "[redacted]"
_DETAILS = ("name", "hook", "behavior", "message", "step", "strategy", "error_class", "abort_reason")
_EVENTS = {
    Phase.RESOLVE_TOOL: (EventType.PLANNED, EventType.SELECTED),
    Phase.VALIDATE_VALUES: (EventType.ARGUMENTS_READY,),
    Phase.PRE_HOOKS: (EventType.HOOK_PRE_STARTED, EventType.HOOK_PRE_COMPLETED),
    Phase.PERMISSION: (EventType.PERMISSION_REQUESTED, EventType.PERMISSION_DECIDED),
    Phase.SCHEDULE: (EventType.QUEUED,),
    Phase.EXECUTE: (EventType.STARTED, EventType.PROGRESS, EventType.PARTIAL_RESULT),
    Phase.POST_HOOKS: (EventType.HOOK_POST_STARTED, EventType.HOOK_POST_COMPLETED),
    Phase.PERSIST_RESULT: (EventType.RESULT_PERSISTED, EventType.RESULT_REDACTED),
    Phase.EMIT_TERMINAL: (EventType.RESULT_CREATED, EventType.YIELDED, *TERMINAL_EVENTS),
}
_PHASES = {event: phase for phase, events in _EVENTS.items() for event in events}


def fields_table(fields: Iterable[tuple[str, str | None]]) -> Table:
    """Return names and values as rows, without empty values."""
    shown = ((name, "\n".join(map(printable, value.split("\n")))) for name, value in fields if value)
    return plain_table(rows=((Text(name, style="dim"), Text(value)) for name, value in shown))


def timeline_table(events: Sequence[tuple[int, ToolEvent]]) -> Table:
    """Return events, each given with the nanoseconds since the call began."""
    return plain_table(figures("since start"), fixed("phase", "cyan"), fixed("event"), "", rows=_timeline_rows(events))


def _timeline_rows(events: Sequence[tuple[int, ToolEvent]]) -> Iterator[tuple[str | Text, ...]]:
    """Yield a row for each event; one row replaces the middle of a long run of progress updates."""
    before = ""
    for is_progress, group in groupby(events, key=lambda each: each[1].event_type is EventType.PROGRESS):
        run = list(group)
        hidden = run[SHOWN_UPDATES:-SHOWN_UPDATES] if is_progress and len(run) > 2 * SHOWN_UPDATES + 1 else []
        for number, (since, event) in enumerate(run):
            if hidden and number == SHOWN_UPDATES:
                yield "", "", Text(f"… {len(hidden):,} more", style="dim")
            if not hidden or not SHOWN_UPDATES <= number < len(run) - SHOWN_UPDATES:
                data, known = event.data or {}, _PHASES.get(event.event_type)
                # A cancellation request comes from outside and has no phase.
                phase = str(data.get("phase") or (known.value if known else ""))
                style = status_style(str(data.get("status"))) if event.event_type.is_terminal else ""
                name = Text(event_name(event), style=style)
                yield f"+{duration(since)}", "" if phase == before else phase, name, event_details(event)
                before = phase


def event_name(event: ToolEvent) -> str:
    """Return the type of an event without the common prefix."""
    return printable(event.event_type.removeprefix("tool.").removeprefix("invocation."))


def event_details(event: ToolEvent) -> str:
    """Return the most useful values of an event's data on one line."""
    data = event.data or {}
    words = [printable(str(data[name])) for name in _DETAILS if data.get(name) is not None]
    if data.get("decided_by") is not None:
        words.append(f"by {approver_text(str(data['decided_by']), data.get('approver'))}")
    if data.get("requested_by") is not None:
        words.append(f"by {approver_text('unknown', data['requested_by'])}")
    if data.get("prompted"):
        words.insert(0, "approval requested")
    percent = data.get("percent")
    if isinstance(percent, int | float):
        words.append(f"({percent:.0f} %)")
    return "  ".join(words)


def approver_text(name: str, approver: Json) -> str:
    """Return the person who answered or canceled, by each way in which it is known; only the name in older records."""
    known = approver if isinstance(approver, dict) else {}
    user, claim = known.get("os_user"), known.get("claim")
    if not isinstance(user, dict):
        return printable(name if claim is None else f"{claim} (claim)")
    text = f"{user.get('name', 'unnamed')} (operating-system user, uid {user.get('uid')})"
    return printable(text if claim is None else f"{text}, claims to be {claim}")


def inputs_table(
    invocation: ToolInvocation, mutations: Sequence[InputMutation], decisions: Sequence[PermissionDecision]
) -> Table:
    """Return the model's input, then each later input as its difference from the one before."""
    table = plain_table("input", "value or difference", "changed by")
    approvers: dict[str, str] = {each.decision_id: approver_name(each) for each in decisions}
    value = invocation.model_input
    shown = Text("not recorded", style="dim") if isinstance(value, UnsetType) else Text(compact_json(value))
    table.add_row(Text("model_input", style="cyan"), shown, "")
    # An unchanged input is not recorded, so another record shows whether the call reached it.
    is_ready = any(each.status is InvocationStatus.ARGUMENTS_READY for each in invocation.status_transitions or ())
    for stage, current, is_reached in (
        (InputStage.OBSERVABLE_INPUT, invocation.observable_input, is_ready),
        (InputStage.PERMISSION_INPUT, invocation.permission_input, bool(invocation.permission_decision_refs)),
        (InputStage.CALL_INPUT, invocation.call_input, invocation.started_at is not None),
    ):
        made = [each for each in mutations if each.to_input_ref == input_ref(invocation.invocation_id, stage)]
        same = Text("as above" if is_reached else "the call ended before this input", style="dim")
        lines = [_change_line(each) for each in input_changes(value, current, made)] or [same]
        changed_by = Text(", ".join(_mutation_source(each, approvers) for each in made))
        table.add_row(Text(stage.value, style="cyan"), Text("\n").join(lines), changed_by)
        value = value if isinstance(current, UnsetType) else current
    return table


def _change_line(change: InputChange) -> Text:
    sign, pointer, before, after = change
    line = Text(f"{sign} {pointer}  ", style="bold")
    line.append(before, style="not bold red")
    line.append(" → " if before and after else "", style="not bold")
    return line.append(after, style="not bold green")


def input_changes(
    before: Json | UnsetType, after: Json | UnsetType, mutations: Sequence[InputMutation]
) -> Iterator[InputChange]:
    """Yield what was added (`+`), removed (`-`) or changed (`~`); a changed redacted value is shown as redacted."""
    if isinstance(before, UnsetType) or isinstance(after, UnsetType):
        return
    visible = {change[1]: change for change in _differences(before, after, ())}
    recorded = [pointer for each in mutations for pointer in each.changed_fields or ()]
    yield from visible.values()
    for pointer in dict.fromkeys(recorded):
        if not any(pointer == each or each.startswith(f"{pointer}/") for each in visible):
            yield "~", printable(pointer), _REDACTED, _REDACTED


def _differences(before: Json, after: Json, steps: tuple[str, ...]) -> Iterator[InputChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            pointer = printable(pointer_of((*steps, name)))
            if name not in after:
                yield "-", pointer, compact_json(before[name]), ""
            elif name not in before:
                yield "+", pointer, "", compact_json(after[name])
            else:
                yield from _differences(before[name], after[name], (*steps, name))
    elif before != after or type(before) is not type(after):
        yield "~", printable(pointer_of(steps)) or "/", compact_json(before), compact_json(after)


def _mutation_source(mutation: InputMutation, approvers: dict[str, str]) -> str:
    """Return what changed an input; for an approval, the approver."""
    ref = mutation.source_ref or ""
    if mutation.source_type is MutationSource.PERMISSION_PROMPT:
        ref = approvers.get(ref, "") or ref
    source = f"{mutation.source_type.value.replace('_', ' ')} {ref}".strip()
    return printable(f"{source} ({mutation.reason})" if mutation.reason else source)


def decisions_block(decisions: Sequence[PermissionDecision]) -> Group:
    """Return all decisions about one call: the decision, its rules, and what would have allowed the call."""
    return Group(*(part for decision in decisions for part in _decision(decision)))


def _decision(decision: PermissionDecision) -> Iterator[RenderableType]:
    reason = decision.reason or Reason()
    title = Text(decision.behavior.value, style=f"bold {status_style(decision.behavior)}")
    yield title.append(f"  {printable_lines(reason.message or '')}", style="not bold default")
    yield indented(fields_table(_decision_fields(decision, reason)))
    remedies = (reason.details or {}).get(REMEDIES)
    if remedies:
        yield indented(_change("one of these changes that:", str(remedies)))
    for suggestion in decision.suggested_updates or ():
        yield indented(_suggestion(suggestion, decision.behavior))


def _decision_fields(decision: PermissionDecision, reason: Reason) -> Iterator[tuple[str, str | None]]:
    check, details = decision.pending_classifier_check, reason.details or {}
    words = () if check is None else (check.classifier_ref, check.status, check.authority, check.classifier_reason)
    if decision.decided_by:
        yield "by", approver_text(decision.decided_by, details.get("approver"))
        yield "shown", str(details.get("shown_digest") or "not known: the answer came without a digest")
    yield "source", f"{decision.source or 'none'}, mode {decision.mode or 'not recorded'}"
    yield "rules", ", ".join(decision.rule_refs or ())
    yield "overridden", ", ".join(reason.beaten_rule_refs or ())
    yield "hook", reason.hook_ref
    yield "path", decision.blocked_path
    yield "classifier", "  ".join(str(each) for each in words if each)
    yield "feedback", decision.accept_feedback
    yield "expires", decision.expires_at


def _suggestion(suggestion: SuggestedUpdate, behavior: Behavior) -> RenderableType:
    """Return the smallest change that would have allowed the call: a rule to paste, or another update."""
    would = "would have run without approval" if behavior is Behavior.ASK else "would have been allowed"
    value, rule = suggestion.value, suggestion.rule
    if rule is not None and isinstance(value, str):
        return _change(f"it {would} with this rule:", value)
    if rule is not None:
        return _change(f"it {would} with this rule for the session:", compact_json(rule))
    update = printable((suggestion.type or "change").replace("_", " "))
    return _change(f"it {would} after {update}:", "" if isinstance(value, UnsetType) else compact_json(value))


def _change(title: str, text: str) -> RenderableType:
    shown = Text(printable_lines(text), style="green", no_wrap=True, overflow="ignore")  # a wrapped rule is no TOML
    return Group(Text(title, style="dim", overflow="fold"), indented(shown))


def hooks_table(hooks: Sequence[ToolHook]) -> Table:
    """Return every run of a hook: its event, how long it took, and its outputs."""
    rows = (
        (each.name or each.hook_id, each.hook_event.value, _hook_duration(each), _hook_outputs(each)) for each in hooks
    )
    return plain_table(fixed("hook", "cyan"), "at", "took", "output", rows=rows)


def _hook_duration(hook: ToolHook) -> str:
    if hook.started_at is None or hook.ended_at is None:
        return ""
    return duration(
        nanoseconds(datetime.fromisoformat(hook.ended_at)) - nanoseconds(datetime.fromisoformat(hook.started_at))
    )


def _hook_outputs(hook: ToolHook) -> Text:
    outputs = hook.outputs or ()
    kinds = ((each.type.value.replace("_", " "), each.message) for each in outputs)
    text = "; ".join(f"{kind}: {message}" if message else kind for kind, message in kinds)
    style = "red" if any(each.type is HookOutputKind.STOP for each in outputs) else "" if outputs else "dim"
    return Text(printable(text) or "nothing", style)


def result_panel(result: ToolResult) -> Panel:
    """Return the beginning of what the model read, framed by the status of the call."""
    items = result.model_facing_content or result.content or ()
    texts = (compact_json(to_json(each)) if each.text is None else printable_lines(each.text) for each in items)
    shown = "\n".join(texts)
    text = "\n".join(shown.split("\n")[:PREVIEW_LINES])[:PREVIEW_CHARS]
    body = Text(text or "nothing", style="" if text else "dim")
    if omitted := len(shown) - len(text):
        body.append(f"\n… {omitted:,} more characters", style="dim")
    return Panel(
        body,
        title=Text(result.status.value, style=f"bold {status_style(result.status)}"),
        subtitle="what the model read",
        title_align="left",
        subtitle_align="left",
        border_style=status_style(result.status),
    )


def result_fields(result: ToolResult) -> Iterator[tuple[str, str | None]]:
    """Yield the error of a result, and whether values were redacted, by name."""
    if (error := result.error) is not None:
        code = f" ({error.error_code})" if error.error_code not in (None, error.error_class) else ""
        yield "error", error.error_class.value + code
        yield "in phase", error.phase
        yield "what helps", error.recoverability.value if error.recoverability else None
        if error.retry is not None:
            yield "retry", _retry_text(to_json(error.retry))
    if result.redaction_state and result.redaction_state != "none":
        yield "redaction", result.redaction_state.value
    yield "stopped by", result.abort_reason.value if result.abort_reason else None


def _retry_text(facts: JsonObject) -> str:
    """Return whether a call may be repeated, and what has to change before."""
    needed = [name.replace("_", " ") for name, value in facts.items() if value is True and name != "safe"]
    safe = facts.get("safe")
    return ", ".join(["safe" if safe is True else "not safe" if safe is False else "not known", *needed])


def persistence_fields(decision: ResultPersistence) -> Iterator[tuple[str, str | None]]:
    """Yield where the bytes of the result were stored, and why, by name."""
    ref, whole, preview = decision.persisted_ref, decision.original_size_bytes, decision.preview_size_bytes
    yield "strategy", decision.strategy.value
    yield "because", decision.reason
    yield "limit", compact_json(decision.threshold) if decision.threshold else None
    yield "whole", None if whole is None else f"{whole:,} bytes"
    yield "preview", None if preview is None else f"{preview:,} bytes"
    if ref is not None:
        yield "payload", ref.uri or ref.id
        yield "digest", None if (ref.uri or "").endswith(ref.digest or "?") else ref.digest
        yield "expires", ref.expires_at
