"""Serve a runtime to one MCP client over standard input and output."""

import asyncio
import fcntl
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from mcp.server.stdio import stdio_server

from agenttool.adapters.mcp.processes import ServerLog
from agenttool.adapters.mcp.session import MessageStreams
from agenttool.adapters.mcp.stdio import PipeReader, PipeWriter
from agenttool.mcp.profiles import McpOptions
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.runtime import Runtime

MAX_MESSAGE_BYTES = 100_000_000
"""The longest message that is read; a longer one is skipped."""

FLUSH_S = 5.0
"""How long a client may take to read the last messages."""


async def serve_stdio(runtime: Runtime, options: McpOptions | None = None) -> None:
    """Serve until the client closes standard input. What tools print goes to standard error.

    Raises:
        StoreError: the store cannot be used.
    """
    async with RuntimeMcpServer.open(runtime, options) as server, _streams() as (received, sent):
        await server.lowlevel.run(received, sent, server.lowlevel.create_initialization_options())


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
        yield PipeReader(reader, ServerLog(), MAX_MESSAGE_BYTES), PipeWriter(writer)
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
