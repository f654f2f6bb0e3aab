"""The stdio transport: JSON-RPC messages as lines on the pipes of a server process.

A line that is no message goes to the server's log: some programs print text there. If it answers a request, which is
then invalid or too long, that request fails. A line that is too long is skipped while it arrives.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

import anyio
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from agenttool.adapters.mcp.processes import ServerLog, ServerProcess
from agenttool.adapters.mcp.session import FAULT, INVALID, TOO_LARGE
from agenttool.codec import parse_object
from agenttool.errors import RecordError

_READ_BYTES = 2**18
_EDGE_BYTES = 4096
"""How much of the beginning and of the end of a skipped line is stored, to find the request that it answers."""

_ID_AT_BEGINNING = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*[,}]')
_ID_AT_END = re.compile(rb'"id"\s*:\s*(\d+)\s*\}\s*$')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_CHARS = 200


class PipeReader:
    """Yields the messages of a server's standard output; ends when the server closes it."""

    def __init__(self, stream: asyncio.StreamReader, log: ServerLog, max_bytes: int) -> None:
        """Take the stream, the log for lines that are no messages, and the longest line that is read."""
        self._stream = stream
        self._log = log
        self._max_bytes = max_bytes
        self._lines: list[bytes] = []
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def __aiter__(self) -> "ReadStream[SessionMessage | Exception]":
        """Return itself."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            StopAsyncIteration: there is no more.
        """
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there is no more.
        """
        while True:
            while self._lines:
                message = self._message(self._lines.pop())
                if message is not None:
                    return message
            data = await self._stream.read(_READ_BYTES)
            if not data:
                raise anyio.EndOfStream
            skipped = self._add(data)
            if skipped is not None:
                return skipped

    def _add(self, data: bytes) -> SessionMessage | None:
        """Split data into lines; return the answer to the request whose response was too long, if one was."""
        first, newline, rest = data.partition(b"\n")
        self._begun.append(first)
        self._begun_bytes += len(first)
        is_long = self._begun_bytes > self._max_bytes
        if is_long and len(self._begun) > 1:  # keep the beginning and the end only
            whole = b"".join(self._begun)
            self._begun = [whole[:_EDGE_BYTES], whole[_EDGE_BYTES:][-_EDGE_BYTES:]]
        if not newline:
            return None
        line, self._begun, count, self._begun_bytes = b"".join(self._begun), [], self._begun_bytes, 0
        if rest:
            *lines, begun = rest.split(b"\n")
            self._lines = lines[::-1]
            self._begun, self._begun_bytes = [begun], len(begun)
        if is_long:
            return self._too_long(line, count)
        self._lines.append(line)
        return None

    def _too_long(self, line: bytes, count: int) -> SessionMessage | None:
        reason = f"a message of {count} bytes was refused; {self._max_bytes} bytes are allowed (max_message_bytes)"
        self._log.add(f"agenttool: {reason}")
        return _failed_request(line, TOO_LARGE, reason)

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        for parse in (parse_object, _parse_invalid_text):
            with suppress(RecordError, ValidationError, ValueError, RecursionError):
                # The adapter would parse JSON once for each kind of message.
                return SessionMessage(jsonrpc_message_adapter.validate_python(parse(line), by_name=False))
        shown = line[: 4 * _SHOWN_CHARS].decode("utf-8", "replace")[:_SHOWN_CHARS]
        self._log.add(f"stdout: {shown}")
        return None if b'"method"' in line else _failed_request(line, INVALID, "its response is no valid message")

    async def aclose(self) -> None:
        """Do nothing; the process closes its pipes when it is stopped."""

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Do nothing."""


def _parse_invalid_text(line: bytes) -> object:
    """Return the value of a JSON line with invalid characters replaced; some servers cut a text within a character.

    Raises:
        ValueError: it is no JSON.
    """
    value: object = json.loads(line.decode("utf-8", "replace"))
    return json.loads(_LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", json.dumps(value, ensure_ascii=False)))


def _failed_request(line: bytes, fault: str, reason: str) -> SessionMessage | None:
    """Return a failure of the request that a line answers; None if that is not known."""
    found = _ID_AT_BEGINNING.search(line[:_EDGE_BYTES]) or _ID_AT_END.search(line[-_EDGE_BYTES:])
    if found is None:
        return None
    error = ErrorData(code=INTERNAL_ERROR, message=reason, data={FAULT: fault})
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))


class PipeWriter:
    """Writes messages to a server's standard input."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        """Take the stream."""
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message, and wait while the server does not read.

        Raises:
            anyio.BrokenResourceError: the server has closed its input.
        """
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            self._stream.write(text.encode() + b"\n")
            await self._stream.drain()
        except (OSError, RuntimeError) as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the server's input."""
        with suppress(OSError, RuntimeError):
            self._stream.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()


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
