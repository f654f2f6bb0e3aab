import asyncio
import gc
import weakref
from contextlib import suppress

from agenttool.scheduler.drive import Stopped

LEFT = Stopped(abandoned=True)


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def untouched():
    return asyncio.current_task().cancelling() == 0


async def for_ever():
    await asyncio.get_running_loop().create_future()


def test_a_tool_that_waits_for_a_task_that_will_not_end_is_left_behind(play, drive, glass):
    told = []

    async def deaf(door):
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                told.append("deaf")

    async def caller():
        door = asyncio.Event()
        other = asyncio.create_task(deaf(door))

        async def tool():
            await other

        ended = await drive.run(tool())
        alive = not other.done()
        door.set()
        await other
        return ended, alive, untouched()

    assert play(caller(), lambda _: drive.stop(), lambda _: glass.run_out()) == (LEFT, True, True)
    assert told == ["deaf"]


def test_a_task_that_a_tool_waits_for_is_told_first_and_its_end_is_the_tools(play, drive):
    async def tool():
        other = asyncio.create_task(for_ever())
        try:
            await other
        finally:
            assert other.cancelled()

    assert play(drive.run(tool()), lambda _: drive.stop()) == Stopped()


def test_a_failed_run_leaves_no_circle_of_references(play, drive):
    def bad_news():
        loop = asyncio.get_running_loop()
        news = loop.create_future()
        loop.call_soon(news.set_exception, LookupError())
        return news

    async def tool():
        await bad_news()

    class Witness:
        """Goes with the frame that knows it."""

    async def known_tool(witness):
        await tool()

    async def caller():
        gc.disable()
        witness = Witness()
        gone = weakref.ref(witness)
        with suppress(LookupError):
            await drive.run(known_tool(witness))
        del witness
        await turns()
        gc.enable()
        return gone()

    assert play(caller()) is None, (
        "something still holds the frame of the tool, in a circle that only the collector ends"
    )
