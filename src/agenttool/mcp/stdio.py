"""Serve a runtime to one MCP client over standard input and output."""

import asyncio
import fcntl
import json
import os
import stat
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

from agenttool.adapters.mcp.processes import ServerLog
from agenttool.adapters.mcp.session import TOO_LARGE, MessageStreams
from agenttool.adapters.mcp.stdio import PipeReader, PipeWriter, find_id
from agenttool.mcp.profiles import McpOptions
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.records import JsonObject
from agenttool.runtime import Runtime

MAX_MESSAGE_BYTES = 100_000_000
"""The longest message that is read; a longer one is skipped."""

FLUSH_S = 5.0
"""How long a client may take to read the last messages."""


@dataclass(eq=False)
class RequestReader(PipeReader):
    """Yields the messages of a client; a line that is no message is answered with an error.

    Attributes:
        writer: for the errors.
    """

    writer: PipeWriter

    async def reject(self, line: bytes, reason: str, fault: str) -> SessionMessage | None:
        """Answer a line that is no message; return a failure if it responds to a request of this server."""
        responded = None if b'"method"' in line else await super().reject(line, reason, fault)
        if responded is None:
            with suppress(anyio.BrokenResourceError):  # the client has gone
                await self.writer.send(SessionMessage(_error_of(line, reason if fault == TOO_LARGE else None)))
        return responded


def _error_of(line: bytes, reason: str | None) -> JSONRPCError:
    """Return the error of a line that is too long, for this reason, or that is no message."""
    number: str | int | None = find_id(line)
    if reason is not None:
        return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=INVALID_REQUEST, message=reason))
    code, message = INVALID_REQUEST, "this is no valid JSON-RPC message; send an object with jsonrpc, method and id"
    try:
        value: object = json.loads(line)
    except RecursionError:
        message = "the message is nested too deeply; send a flatter one"
    except ValueError as error:
        code, message = PARSE_ERROR, f"this is no JSON: {error}; send one message on each line"
    else:
        if isinstance(value, list):
            number, message = None, "batches are not supported; send one message on each line"
        elif isinstance(value, dict) and isinstance(given := cast("JsonObject", value).get("id"), str | int):
            number = given
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))


async def serve_stdio(
    runtime: Runtime, options: McpOptions | None, start: Callable[[], Coroutine[object, object, None]]
) -> None:
    """Serve until the client closes standard input. What tools print goes to standard error.

    Args:
        runtime: the runtime to serve.
        options: what is served.
        start: enters the runtime. The client can connect meanwhile; its other requests wait.

    Raises:
        StoreError: the store cannot be used.
        ConfigError: the runtime cannot be entered.
    """
    starting = asyncio.create_task(start())  # noqa: TID251 -- it ends here
    try:
        async with (
            RuntimeMcpServer.open(runtime, options, starting) as server,
            _streams() as (received, sent),
            asyncio.TaskGroup() as group,
        ):
            handshake = server.lowlevel.create_initialization_options()
            serving = group.create_task(server.lowlevel.run(received, sent, handshake))
            await asyncio.wait([starting, serving], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and starting.exception() is not None:
                serving.cancel()
    finally:
        starting.cancel()
        await asyncio.wait([starting])
    if not starting.cancelled():
        starting.result()


def _streams() -> AbstractAsyncContextManager[MessageStreams]:
    """Return the streams to the client. The SDK reads and writes in threads, which files and terminals need."""
    return _pipes() if _is_pipe(0) and _is_pipe(1) else stdio_server()


def _is_pipe(number: int) -> bool:
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


@asynccontextmanager
async def _pipes() -> AsyncGenerator[MessageStreams]:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=2**20)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 -- a device
        received, sent = _divert(0, nothing.fileno()), _divert(1, 2)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(received, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(sent, "wb", 0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        sending = PipeWriter(writer)
        yield RequestReader(reader, ServerLog(), MAX_MESSAGE_BYTES, sending), sending
    finally:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                writer.close()
                await writer.wait_closed()


def _divert(number: int, target: int) -> int:
    """Return a new descriptor of a standard stream, whose number leads to another file from now on."""
    private = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(target, number)
    return private
