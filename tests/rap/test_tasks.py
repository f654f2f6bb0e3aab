"""Work beside requests: each piece on its own, and nothing is left of it."""

import asyncio
import gc

from agenttool.rap.tasks import Tasks


async def test_work_that_is_stopped_before_it_began_is_closed(recwarn):
    done = []

    async def work():
        done.append("began")
        await asyncio.Event().wait()

    async with Tasks() as tasks:
        tasks.start(work())
    gc.collect()
    assert (done, [str(each.message) for each in recwarn]) == ([], [])


async def test_one_piece_that_fails_takes_no_other_down(caplog):
    done = asyncio.Event()

    async def fail():
        raise KeyError("secret")

    async def work():
        await asyncio.sleep(0)
        done.set()

    async with Tasks() as tasks:
        tasks.start(fail())
        tasks.start(work())
        await done.wait()
    assert "work in the background failed: KeyError" in caplog.text
    assert "secret" not in caplog.text


async def test_work_that_does_not_let_itself_be_stopped_is_waited_for_and_told_of(caplog, monkeypatch):
    monkeypatch.setattr("agenttool.rap.tasks.STOPS_WITHIN_S", 0.01)
    canceled = []

    async def work():
        while len(canceled) < 5:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                canceled.append("again")

    async with Tasks() as tasks:
        tasks.start(work())
        await asyncio.sleep(0)
    assert len(canceled) == 5
    assert caplog.text.count("canceled and go on: 1") == 1
