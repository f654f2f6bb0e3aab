"""Background tasks end with the provider, and errors are logged without secrets."""

import asyncio
import gc
import re

import pytest

from agenttool.rap import RapCall
from agenttool.rap.background import BackgroundTasks


async def test_work_that_is_stopped_before_it_began_is_closed(recwarn):
    done = []

    async def work():
        done.append("began")
        await asyncio.Event().wait()

    tasks = BackgroundTasks()
    tasks.start(work())
    await tasks.stop()
    gc.collect()
    assert (done, [str(each.message) for each in recwarn]) == ([], [])


async def test_one_piece_that_fails_takes_no_other_down(caplog):
    done = asyncio.Event()

    async def fail():
        raise KeyError("secret")

    async def work():
        await asyncio.sleep(0)
        done.set()

    tasks = BackgroundTasks()
    tasks.start(fail())
    tasks.start(work())
    await done.wait()
    await tasks.stop()
    assert "a background task failed: KeyError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_task_that_ignores_cancellation_is_awaited_and_logged(caplog, monkeypatch):
    monkeypatch.setattr("agenttool.rap.background.STOP_TIMEOUT_S", 0.01)
    canceled = []

    async def work():
        while len(canceled) < 5:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                canceled.append("again")

    tasks = BackgroundTasks()
    tasks.start(work())
    await asyncio.sleep(0)
    await tasks.stop()
    assert len(canceled) == 5
    assert caplog.text.count("1 canceled functions are still running") == 1


def _bad(secret):
    raise KeyError(secret)


@pytest.mark.requirement("RAP-085", "RAP-057")
async def test_the_log_says_where_a_function_failed_and_nothing_of_its_arguments(make, serving, caplog):
    provider = make()

    @provider.tool
    async def unlock(code: str) -> str:
        """Unlock."""
        return _bad(code)

    @provider.tool
    def ask(call: RapCall, code: str) -> str:
        """Fail in a thread."""
        return _bad(code)

    async with serving(provider) as client:
        for count, name in enumerate(("unlock", "ask"), 1):
            await client.invoke(name, {"code": "hunter2"}, id=name)
            text = (await client.result(count))["text"]
            reference = re.search(r"reference (\w+)", text)[1]
            (line,) = [each for each in caplog.messages if reference in each]
            assert re.search(
                rf"KeyError at .*test_background\.py:\d+ in {name}, test_background\.py:\d+ in _bad$", line
            )
            assert "test_background" not in text
    assert "hunter2" not in caplog.text


@pytest.mark.requirement("RAP-085")
async def test_the_log_says_where_a_subscription_failed(make, serving, caplog):
    provider = make()

    @provider.subscription
    async def watch():
        """Watch."""
        yield "Watching."
        _bad("hunter2")

    async with serving(provider) as client:
        await client.invoke("watch")
        await client.inbox.wait(1, "subscription_event")
    assert "in watch, test_background.py:" in caplog.text
    assert "hunter2" not in caplog.text
