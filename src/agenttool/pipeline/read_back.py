"""The built-in tool that reads stored output, a range at a time."""

from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from agenttool.errors import StoreError, ToolFailure
from agenttool.pipeline.builtin_tools import BuiltinTool, builtin_id
from agenttool.pipeline.call import Call
from agenttool.pipeline.services import PayloadReader
from agenttool.ports.executor import Job
from agenttool.ports.stores import PayloadStore
from agenttool.ports.tool import DeclaredTool
from agenttool.records import PAYLOAD_SCHEME, Digest, ErrorClass, JsonObject, Phase, Ref, ToolError, ToolKind
from agenttool.results.failure import guided
from agenttool.results.preview import CHARS_AT_ONCE, LINES_AT_ONCE, MAX_CHARS, READ_RESULT, TextRange

READ_BACK_ID = builtin_id(READ_RESULT)

_DESCRIPTION = (
    "Read more of a tool's output that was too large to be shown: the preview names its payload_id. "
    "Give start_line and end_line, or offset and limit in characters. Not for files or pages."
)
_LINES = ("start_line", "end_line")
_CHARS = ("offset", "limit")
_COUNT: JsonObject = {"type": "integer", "minimum": 1}
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "payload_id": {"type": "string", "description": "As the preview names it, such as payload:sha256:…"},
        "start_line": {**_COUNT, "description": "The first line, counted from 1"},
        "end_line": {**_COUNT, "description": f"The last line; {LINES_AT_ONCE} lines if left out"},
        "offset": {"type": "integer", "minimum": 0, "description": "The first character, counted from 0"},
        "limit": {**_COUNT, "maximum": MAX_CHARS, "description": f"How many; {CHARS_AT_ONCE} if left out"},
    },
    "required": ["payload_id"],
    "additionalProperties": False,
}


_TOOL = BuiltinTool(
    name=READ_RESULT,
    kind=ToolKind.FUNCTION,
    description=_DESCRIPTION,
    schema=_SCHEMA,
    is_self_bounding=True,
    is_repeatable=True,
)


def read_back_tool(payloads: PayloadStore) -> DeclaredTool:
    """Return the declaration of the tool; its output is bounded, so it is never stored again."""
    return _TOOL.declare(ReadBack(payloads), _check)


def read_tool_of(call: Call) -> str:
    """Return the name of the read tool on the surface of a call."""
    return READ_RESULT if call.surface is None else call.surface.builtin_name(READ_RESULT, call.shown.known_as)


def digest_in(payload: str | Ref) -> Digest | None:
    """Return the digest in a payload id, a digest or a ref; none if there is none."""
    if isinstance(payload, Ref):
        return payload.digest
    digest = payload.removeprefix(PAYLOAD_SCHEME)
    return Digest(digest) if digest.startswith("sha256:") else None


class ReadBack:
    """Reads stored output as a stream, so that memory use does not depend on its size."""

    def __init__(self, payloads: PayloadStore) -> None:
        self._payloads = payloads

    async def start(self, job: Job, /) -> str:
        """Return one range of the output.

        Raises:
            ToolFailure: execution_failed: the output does not exist or is not text; dependency_unavailable.
        """
        arguments = job.call_input
        payload_id = cast("str", arguments["payload_id"])
        digest = digest_in(payload_id)
        try:
            # The error is the same for unknown output, so that other actors and conversations cannot probe for it.
            reader = PayloadReader(job.thread, job.actor_ref)
            if digest is None or not await cast("Call", job).core.payloads.may_read(reader, digest):
                raise ToolFailure(_gone(payload_id))
            if await self._payloads.get(digest, length=1) is None:
                raise ToolFailure(_gone(payload_id))
            text_range = _range_of(arguments)
            await self._read(digest, text_range)
        except UnicodeDecodeError as error:
            raise ToolFailure(_no_text()) from error
        except StoreError as error:
            message = f"the stored output cannot be read now: {error}"
            raise ToolFailure(
                guided(ErrorClass.DEPENDENCY_UNAVAILABLE, phase=Phase.EXECUTE, message=message)
            ) from error
        return text_range.render(payload_id, read_tool_of(cast("Call", job)))

    async def _read(self, digest: Digest, text_range: TextRange) -> None:
        decoder = getincrementaldecoder("utf-8")()
        async with aclosing(cast("AsyncGenerator[bytes]", self._payloads.stream(digest))) as pieces:
            async for piece in pieces:
                if not text_range.feed(decoder.decode(piece)):
                    return
        text_range.feed(decoder.decode(b"", final=True))


def _range_of(arguments: JsonObject) -> TextRange:
    given = cast("dict[str, int]", arguments)
    if "start_line" in given or "end_line" in given:
        first = given.get("start_line", 1)
        last = given.get("end_line", first + LINES_AT_ONCE - 1)
        return TextRange(first=first, count=last - first + 1, in_lines=True)
    return TextRange(first=given.get("offset", 0), count=given.get("limit", CHARS_AT_ONCE), in_lines=False)


def _check(arguments: JsonObject) -> None:
    """Reject arguments that select no range.

    Raises:
        ToolFailure: invalid_arguments.
    """
    if arguments.keys() & set(_LINES) and arguments.keys() & set(_CHARS):
        raise ToolFailure(_wrong("lines and characters cannot be mixed; give start_line and end_line, or offset"))
    start, end = arguments.get("start_line", 1), arguments.get("end_line")
    if isinstance(start, int) and isinstance(end, int) and end < start:
        raise ToolFailure(_wrong(f"end_line {end} lies before start_line {start}; swap them"))


def _wrong(message: str) -> ToolError:
    return guided(ErrorClass.INVALID_ARGUMENTS, phase=Phase.VALIDATE_VALUES, message=message)


def _gone(payload_id: str) -> ToolError:
    message = (
        f"there is no stored output under {payload_id[:100]!r}: it has expired, or is of another actor or"
        " conversation; copy the payload_id from a preview, or call the tool again that gave it"
    )
    return guided(ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="payload_gone", effects=False)


def _no_text() -> ToolError:
    message = "the stored output is no text, so no stretch of it can be read; a program can fetch it by its digest"
    return guided(ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="not_text", effects=False)
