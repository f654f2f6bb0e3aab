"""Bodies of requests: the memory for those that arrive slowly is bounded."""

import asyncio

import pytest

from agenttool.adapters.rap import request_body
from agenttool.adapters.rap.request_body import UNCOUNTED_BYTES, BodyBudget


def test_what_is_held_is_given_back_and_short_messages_always_have_room(monkeypatch):
    monkeypatch.setattr(request_body, "MAX_BUFFERED_BYTES", 100)
    held = BodyBudget()
    with held.reserve() as first, held.reserve() as second, held.reserve() as third:
        assert first(UNCOUNTED_BYTES + 60)
        assert second(UNCOUNTED_BYTES + 40)
        assert not third(UNCOUNTED_BYTES + 1)
        assert third(UNCOUNTED_BYTES)
    with held.reserve() as again:
        assert again(UNCOUNTED_BYTES + 100)
        assert not again(UNCOUNTED_BYTES + 101)


@pytest.mark.requirement("RAP-410", "RAP-100")
async def test_long_messages_that_come_in_slowly_do_not_take_all_the_memory(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(request_body, "MAX_BUFFERED_BYTES", 2 * UNCOUNTED_BYTES)
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        host, _, path = invocation["callback_url"].removeprefix("http://").partition("/")
        head = f"POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {9 * UNCOUNTED_BYTES}\r\n\r\n"
        name, _, port = host.partition(":")
        async with asyncio.timeout(60):
            slow = [await asyncio.open_connection(name, int(port)) for _ in range(3)]
            for _, writer in slow:
                writer.write(head.encode() + b" " * (2 * UNCOUNTED_BYTES))
            answers = [asyncio.ensure_future(reader.readline()) for reader, _ in slow]
            done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result().split()[1] for each in done} == {b"503"}
            assert await server.settle(invocation) == 200
            assert not (await rt.wait(call.invocation_id)).is_error
            for answer, (_, writer) in zip(answers, slow, strict=True):
                answer.cancel()
                writer.close()
