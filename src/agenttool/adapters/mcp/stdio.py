"""The stdio transport: JSON-RPC messages as lines on the pipes of a server process.

A line that is no message goes to the server's log: some programs print text there. If it answers a request, which is
then invalid or too long, that request fails. A line that is too long is skipped while it arrives.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from agenttool.adapters.mcp.processes import ServerLog, ServerProcess
from agenttool.adapters.mcp.session import FAULT, INVALID, TOO_LARGE, MessageReader, MessageStream
from agenttool.codec import parse_object
from agenttool.errors import RecordError

_EDGE_BYTES = 4096
"""How much of the beginning and of the end of a skipped line is stored, to find the request that it answers."""

_ID_AT_BEGINNING = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*[,}]')
_ID_AT_END = re.compile(rb'"id"\s*:\s*(\d+)\s*\}\s*$')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_CHARS = 200
_NO_MESSAGE = "its response is no valid message"


@dataclass(slots=True, eq=False)
class PipeReader(MessageReader):
    """Yields the messages of a server's standard output; ends when the server closes it.

    Attributes:
        stream: the output.
        log: for lines that are no messages.
        max_bytes: the longest line that is read.
    """

    stream: asyncio.StreamReader
    log: ServerLog
    max_bytes: int

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there is no more.
        """
        while True:
            line, size = await self._line()
            message, reason, fault = None, _NO_MESSAGE, INVALID
            if size > self.max_bytes:
                limit = f"{self.max_bytes} bytes are allowed (max_message_bytes)"
                reason, fault = f"a message of {size} bytes was refused; {limit}", TOO_LARGE
                self.log.add(f"agenttool: {reason}")
            elif line.strip():
                message = self._message(line)
            else:
                continue
            if message := message or await self.reject(line, reason, fault):
                return message
            await asyncio.sleep(0)  # many lines that are no messages must not block the event loop

    async def _line(self) -> tuple[bytes, int]:
        """Return the next line and its length; of a line that is too long, the beginning and the end only.

        Raises:
            anyio.EndOfStream: there is no more.
        """
        line, size, is_whole = bytearray(), 0, False
        while not is_whole:
            try:
                part, is_whole = await self.stream.readuntil(), True
            except asyncio.LimitOverrunError as error:
                part = await self.stream.readexactly(error.consumed)
            except asyncio.IncompleteReadError:
                raise anyio.EndOfStream from None
            line += part
            size += len(part)
            if size > self.max_bytes + 1:
                del line[_EDGE_BYTES:-_EDGE_BYTES]
        return bytes(line[:-1]), size - 1

    async def reject(self, line: bytes, reason: str, fault: str) -> SessionMessage | None:
        """Return a failure of the request that a line answers, which is no message; None if that is not known."""
        number = None if fault == INVALID and b'"method"' in line else find_id(line)
        if number is None:
            return None
        error = ErrorData(code=INTERNAL_ERROR, message=reason, data={FAULT: fault})
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))

    def _message(self, line: bytes) -> SessionMessage | None:
        for parse in (parse_object, _parse_invalid_text):
            with suppress(RecordError, ValidationError, ValueError, RecursionError):
                # The adapter would parse JSON once for each kind of message.
                return SessionMessage(jsonrpc_message_adapter.validate_python(parse(line), by_name=False))
        shown = line[: 4 * _SHOWN_CHARS].decode("utf-8", "replace")[:_SHOWN_CHARS]
        self.log.add(f"stdout: {shown}")
        return None


def _parse_invalid_text(line: bytes) -> object:
    """Return the value of a JSON line with invalid characters replaced; some servers cut a text within a character.

    Raises:
        ValueError: it is no JSON.
    """
    value: object = json.loads(line.decode("utf-8", "replace"))
    return json.loads(_LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False)))


def find_id(line: bytes) -> int | None:
    """Return the number that is the id of a line, also of one that cannot be parsed; None if it is not known."""
    found = _ID_AT_BEGINNING.search(line[:_EDGE_BYTES]) or _ID_AT_END.search(line[-_EDGE_BYTES:])
    return None if found is None else int(found[1])


@dataclass(slots=True, eq=False)
class PipeWriter(MessageStream):
    """Writes messages to a server's standard input."""

    stream: asyncio.StreamWriter

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message, and wait while the server does not read.

        Raises:
            anyio.BrokenResourceError: the server has closed its input.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self.stream.write(text.encode() + b"\n")
            await self.stream.drain()
        except (OSError, RuntimeError) as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the server's input."""
        with suppress(OSError, RuntimeError):
            self.stream.close()


@asynccontextmanager
async def open_pipes(
    process: ServerProcess, log: ServerLog, max_bytes: int
) -> AsyncGenerator[tuple[PipeReader, PipeWriter]]:
    """Return the streams of a server process, and stop it at the end, also if the caller is canceled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.copy_errors)
        try:
            yield PipeReader(process.output, log, max_bytes), PipeWriter(process.input)
        finally:
            with anyio.CancelScope(shield=True):
                await process.stop()
                log.add(f"agenttool: the process ended with exit code {process.exit_code}")
            tasks.cancel_scope.cancel()
