"""What a call came to: hooks that were asked, a cancellation, the result, and where its bytes went."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.words import compact, duration, lines, plain_table, size, style_of
from agenttool.codec import to_json
from agenttool.records import (
    Cancellation,
    ContentItem,
    HookOutputKind,
    ResultPersistence,
    ToolHook,
    ToolResult,
)

PREVIEW_LINES = 12
PREVIEW_CHARS = 1200


def hooks_table(hooks: Sequence[ToolHook]) -> Table:
    """Draw every run of a hook: where it stood, how long it took, what it said."""
    table = plain_table("hook", "at", "took", "said", header=True)
    for hook in hooks:
        table.add_row(
            Text(printable(hook.name or hook.hook_id), style="cyan"), hook.hook_event.value, _took(hook), _said(hook)
        )
    return table


def _took(hook: ToolHook) -> str:
    if hook.started_at is None or hook.ended_at is None:
        return ""
    taken = datetime.fromisoformat(hook.ended_at) - datetime.fromisoformat(hook.started_at)
    return duration(round(taken.total_seconds() * 1e9))


def _said(hook: ToolHook) -> Text:
    said: list[str] = []
    for output in hook.outputs or ():
        word = output.type.value.replace("_", " ")
        said.append(f"{word}: {output.message}" if output.message else word)
    if not said:
        return Text("nothing", style="dim")
    stopped = any(output.type is HookOutputKind.STOP for output in hook.outputs or ())
    return Text(printable("; ".join(said)), style="red" if stopped else "")


def cancellation_table(cancellation: Cancellation) -> Table:
    """Draw the four facts of a cancellation."""
    table = plain_table()
    for name, value in to_json(cancellation).items():
        table.add_row(Text(name, style="dim"), Text(printable(str(value))))
    return table


def result_panel(result: ToolResult) -> Panel:
    """Draw what the model read, as far as fits a glance, framed by how the call ended."""
    shown = "\n".join(_content(item) for item in result.model_facing_content or result.content or ())
    text, left = _preview(shown)
    body = Text(text or "nothing", style="" if text else "dim")
    if left:
        body.append(f"\n… {left:,} more characters", style="dim")
    return Panel(
        body,
        title=Text(result.status.value, style=f"bold {style_of(result.status)}"),
        subtitle="what the model read",
        title_align="left",
        subtitle_align="left",
        border_style=style_of(result.status),
    )


def result_table(result: ToolResult) -> Table | None:
    """Draw what a program is told of a failure, and whether anything was taken out."""
    table = plain_table()
    for name, value in _result_facts(result):
        table.add_row(Text(name, style="dim"), Text(printable(value)))
    return table if table.rows else None


def _result_facts(result: ToolResult) -> Iterator[tuple[str, str]]:
    if (error := result.error) is not None:
        yield (
            "error",
            f"{error.error_class.value} ({error.error_code})" if error.error_code else error.error_class.value,
        )
        if error.phase:
            yield "in phase", error.phase
        if error.recoverability:
            yield "what helps", error.recoverability.value
        if error.retry is not None:
            yield "retry", ", ".join(f"{name} {_yes(value)}" for name, value in to_json(error.retry).items())
    if result.redaction_state and result.redaction_state != "none":
        yield "redaction", result.redaction_state.value
    if result.abort_reason:
        yield "stopped by", result.abort_reason.value


def _yes(value: object) -> str:
    return "yes" if value is True else "no" if value is False else str(value)


def persistence_table(decisions: Sequence[ResultPersistence]) -> Table:
    """Draw where the bytes of the result went, and why."""
    table = plain_table()
    for decision in decisions:
        ref = decision.persisted_ref
        facts = {
            "strategy": decision.strategy.value,
            "because": decision.reason,
            "limit": compact(decision.threshold) if decision.threshold else None,
            "whole": None if decision.original_size_bytes is None else size(decision.original_size_bytes),
            "preview": None if decision.preview_size_bytes is None else size(decision.preview_size_bytes),
            "payload": None if ref is None else ref.uri or ref.id,
            "digest": None if ref is None or (ref.uri or "").endswith(ref.digest or "?") else ref.digest,
            "kept until": None if ref is None else ref.expires_at,
        }
        for name, value in facts.items():
            if value is not None:
                table.add_row(Text(name, style="dim"), Text(printable(value)))
    return table


def _content(item: ContentItem) -> str:
    return lines(item.text) if item.text is not None else compact(to_json(item))


def _preview(text: str) -> tuple[str, int]:
    """Cut a text to a glance; tell how much is left."""
    cut = "\n".join(text.split("\n")[:PREVIEW_LINES])[:PREVIEW_CHARS]
    return cut, len(text) - len(cut)
