"""What a command is told on its stdin, and how what it wrote is read."""

import signal
from collections.abc import Callable

from agenttool.adapters.hook_commands.process import Ended
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.ports.hooks import HookQuestion
from agenttool.records import JsonObject


def told(question: HookQuestion) -> bytes:
    """Write a question as one JSON object; `output` and `details` are there only where the event has them."""
    members: JsonObject = {
        "hook_event": question.hook_event.value,
        "invocation_id": question.invocation_id,
        "tool_id": question.tool_id,
        "tool_name": question.tool_name,
        "input": question.input,
    }
    if question.output is not None:
        members["output"] = question.output
    if question.details is not None:
        members["details"] = question.details
    return json_bytes(members)


def answer_of(ended: Ended, clean: Callable[[str], str]) -> JsonObject | None:
    """Read the answer of a command that ended well; nothing on stdout is no opinion.

    Args:
        ended: how it ended, and what it wrote.
        clean: takes out of its stderr what nobody should read.

    Raises:
        ChildProcessError: it did not end well, whatever it wrote; the message is what it said on stderr.
        RecordError: what it wrote is no JSON object.
    """
    if ended.code:
        said = clean(ended.err.decode(errors="replace")).strip() or "it said nothing on stderr"
        raise ChildProcessError(f"{_end(ended.code)}: {said}")
    if not ended.out.strip():
        return None
    try:
        return parse_object(ended.out, what="it")
    except RecordError as error:
        raise RecordError(f"stdout must hold one JSON object or nothing: {error}") from error


def _end(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
