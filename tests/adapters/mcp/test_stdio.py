"""The reader of a server's standard output, on messages that arrive in pieces."""

import asyncio

import pytest

from agenttool.adapters.mcp.processes import ServerLog
from agenttool.adapters.mcp.session import FAULT, TOO_LARGE
from agenttool.adapters.mcp.stdio import PipeReader


@pytest.mark.parametrize("cut", [1, 4, 16, 25, 40])
async def test_the_request_of_a_long_response_fails_wherever_the_first_piece_ends(cut):
    stream, first = asyncio.StreamReader(), b'{"jsonrpc":"2.0","method":"notifications/x"}\n'
    long = b'{"jsonrpc":"2.0","id":7,"result":{"text":"' + b"x" * 50_000 + b'"}}\n'
    reader = PipeReader(stream, ServerLog(), 10_000)
    stream.feed_data(first + long[:cut])
    await reader.receive()
    for begin in range(cut, len(long), 9_000):
        asyncio.get_running_loop().call_soon(stream.feed_data, long[begin : begin + 9_000])
    async with asyncio.timeout(30):
        refused = (await reader.receive()).message
    assert (refused.id, refused.error.data) == (7, {FAULT: TOO_LARGE})
