import asyncio
import threading

import pytest

from agenttool.scheduler.drive import Drive, Stopped
from agenttool.scheduler.shapes import drain, outlast

LEFT = Stopped(abandoned=True)


def untouched():
    return asyncio.current_task().cancelling() == 0


async def for_ever():
    await asyncio.get_running_loop().create_future()


def test_items_of_a_tool_that_yields_are_handed_on_in_order(play, drive):
    got = []

    async def tool():
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def slowly(item):
        await asyncio.sleep(0)
        got.append(item)

    play(drive.run(drain(tool(), slowly)))
    play(Drive(drive._patience).run(drain(tool(), got.append)))
    assert got == [0, 1, 2, 0, 1, 2]


def test_a_tool_that_yields_is_stopped_where_it_waits(play, drive):
    got = []

    async def tool():
        try:
            yield "begun"
            await for_ever()
        except asyncio.CancelledError:
            got.append("stopped")
            raise

    assert play(drive.run(drain(tool(), got.append)), lambda _: drive.stop()) == Stopped()
    assert got == ["begun", "stopped"]


def test_a_tool_on_a_thread_hears_of_the_stop_and_its_true_end_is_awaited(play, drive):
    asked = threading.Event()

    def work():
        return "stopped early" if asked.wait(5) else "never asked"

    async def caller():
        thread = asyncio.get_running_loop().run_in_executor(None, work)
        return await drive.run(outlast(thread, asked.set)), untouched()

    assert play(caller(), lambda _: drive.stop()) == ("stopped early", True)


def test_a_thread_that_takes_no_notice_is_left_behind_and_not_called_stopped(play, drive, glass):
    let_go = threading.Event()

    async def caller():
        thread = asyncio.get_running_loop().run_in_executor(None, let_go.wait, 5)
        ended = await drive.run(outlast(thread, lambda: None))
        alive = not thread.done()
        let_go.set()
        await thread
        return ended, alive, untouched()

    assert play(caller(), lambda _: drive.stop(), lambda _: glass.run_out()) == (LEFT, True, True)


def test_a_thread_that_fails_fails_the_tool(play, drive):
    def work():
        raise LookupError

    async def caller():
        await drive.run(outlast(asyncio.get_running_loop().run_in_executor(None, work), lambda: None))

    with pytest.raises(LookupError):
        play(caller())
