"""The page of what waits says so if it does not list everything."""

import asyncio

import pytest

from agenttool import Runtime, tool
from agenttool.server import status
from agenttool.server.status import status_of

BOUND_S = 60


@tool(read_only=False)
def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


@pytest.mark.parametrize(("asked", "more"), [(2, []), (3, ["approvals"])])
async def test_a_list_that_was_cut_is_named(monkeypatch, asked, more):
    monkeypatch.setattr(status, "MOST", 2)
    async with Runtime.open(tools=[pay]) as rt:
        surface = await rt.surface()
        calls = [asyncio.ensure_future(rt.call("pay", {"amount": amount}, surface=surface)) for amount in range(asked)]
        async with asyncio.timeout(BOUND_S):
            while len(await rt.approvals()) < asked:  # noqa: ASYNC110 -- there is nothing to wait on
                await asyncio.sleep(0.01)
        told = await status_of(rt)
        for question in await rt.approvals():
            await rt.decide(question.approval_id, "deny")
        await asyncio.gather(*calls)
    assert (told["approvals"], told["more"]) == (2, more)
