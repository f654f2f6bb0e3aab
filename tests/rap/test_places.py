"""Places to run in are shared: slow functions of one caller hold up nobody else."""

import asyncio

import pytest

from agenttool.errors import ConfigError
from agenttool.rap import Bearer, Call, Limits
from agenttool.rap.places import Places

ADA, BOB = "token-of-runtime-ada", "token-of-runtime-bob"


@pytest.fixture
def slow(make):
    def slow(**limits):
        provider, ran = make(auth=Bearer({ADA: "ada", BOB: "bob"}), limits=Limits(**limits)), []

        @provider.tool(read_only=True)
        async def work(name: str) -> str:
            """Work until somebody stops it, unless there is nothing to do."""
            ran.append(name)
            if name != "quick":
                await asyncio.Event().wait()
            return name

        return provider, ran

    return slow


async def test_slow_functions_of_one_caller_leave_room_for_another(slow, serving):
    provider, ran = slow(max_running=3, max_running_per_caller=2)
    async with serving(provider) as client:
        client.headers = {"Authorization": f"Bearer {ADA}"}
        for each in range(5):
            assert await client.invoke("work", {"name": f"slow {each}"}, id=f"slow-{each}") == 200
        client.headers = {"Authorization": f"Bearer {BOB}"}
        await client.invoke("work", {"name": "quick"}, id="quick")
        assert (await client.result())["text"] == "quick"
    assert ran == ["slow 0", "slow 1", "quick"]


async def test_a_call_that_asks_is_stopped_also_while_all_places_are_taken(make, serving):
    provider = make(limits=Limits(max_running=1))

    @provider.tool
    async def ask(call: Call) -> str:
        """Ask."""
        return await call.choose("Go on?", ["yes", "no"])

    @provider.tool
    async def work() -> str:
        """Work for ever."""
        await asyncio.Event().wait()
        return "done"

    async with serving(provider) as client:
        await client.invoke("ask", id="asking")
        await client.inbox.wait(1, "user_choice")
        await client.invoke("work", id="working")
        await client.post("/cancel_tool_call", {"thread_id": "thread-1", "tool_call_id": "asking"})
        assert (await client.result())["text"].startswith("Error: the call was canceled")


async def test_the_next_place_goes_to_whoever_has_the_fewest_and_none_is_lost():
    places, order = Places(2, 2), []
    held = [places.of("ada"), places.of("ada")]
    for each in held:
        await each.enter()

    async def enter(caller):
        async with places.of(caller):
            order.append(caller)

    waiting = [asyncio.ensure_future(enter(caller)) for caller in ("ada", "ada", "bob")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    held[0].leave()
    held[0].leave()
    await asyncio.wait(waiting)
    assert order == ["bob", "ada"]
    async with asyncio.timeout(60):
        await held[0].enter()


@pytest.mark.parametrize("name", ["max_running", "max_running_per_caller"])
def test_limits_by_which_nothing_runs_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must be more than 0"):
        Limits(**{name: 0})
