"""Whoever wrote a tool finds in the log where it failed, and nobody finds there what it was called with."""

import re

import pytest

from agenttool.rap import Call


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
    def ask(call: Call, code: str) -> str:
        """Fail in a thread."""
        return _bad(code)

    async with serving(provider) as client:
        for count, name in enumerate(("unlock", "ask"), 1):
            await client.invoke(name, {"code": "hunter2"}, id=name)
            text = (await client.result(count))["text"]
            reference = re.search(r"reference (\w+)", text)[1]
            (line,) = [each for each in caplog.messages if reference in each]
            assert re.search(rf"KeyError at .*test_faults\.py:\d+ in {name}, test_faults\.py:\d+ in _bad$", line)
            assert "test_faults" not in text
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
    assert "in watch, test_faults.py:" in caplog.text
    assert "hunter2" not in caplog.text
