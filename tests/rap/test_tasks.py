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
