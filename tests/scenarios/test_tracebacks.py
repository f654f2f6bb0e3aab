"""The traceback of a tool is for people: in the journal and in the log, without secrets, and never for a model."""

import asyncio
import json
import logging
from typing import Annotated

import pytest
from typer.testing import CliRunner

from agenttool import Runtime, Sensitive, tool
from agenttool.cli.main import app
from agenttool.codec import write

FACTS = {"namespace": "shop", "read_only": True, "open_world": False, "risk": "low", "approval_required": False}


def look_up(prices, name):
    return prices[name]


@tool(**FACTS)
async def price(name: str) -> int:
    """Look up a price. Not for stock."""
    return look_up({}, name)


@tool(**FACTS)
def blocking_price(name: str) -> int:
    """Look up a price in a thread. Not for stock."""
    try:
        return look_up({}, name)
    except KeyError as error:
        raise ValueError(f"no price of {name}") from error


@tool(**FACTS)
async def unlock(code: Annotated[str, Sensitive]) -> str:
    """Open the till. Not for customers."""
    raise ValueError(f"the code {code} is wrong, not {code.encode().hex()}")


@tool(**FACTS)
async def endless(name: str) -> int:
    """Count without an end. Not for prices."""
    raise ValueError(name * 100_000)


TOOLS = [price, blocking_price, unlock, endless]


async def command(*words):
    """Run the command line in a thread: some commands start an event loop."""
    return await asyncio.to_thread(CliRunner().invoke, app, words, env={"COLUMNS": "200"})


@pytest.fixture
def failed(tmp_path, monkeypatch, caplog):
    """Call a tool that fails; return its result, what `show` prints, and what was logged."""
    monkeypatch.chdir(tmp_path)

    async def call(name, arguments):
        async with Runtime.open(store="sqlite:agenttool.db", tools=TOOLS) as rt:
            with caplog.at_level(logging.WARNING, "agenttool.calls"):
                result = await rt.call(name, arguments, surface=await rt.surface())
            records = [write(record).decode() async for record in rt.journal.export()]
        assert result.error.error_class == "execution_failed"
        assert "Traceback" not in write(result).decode() + "".join(records), "no record has it"
        assert "Traceback" not in (await command("export")).stdout
        assert (await command("verify")).exit_code == 0
        shown = (await command("show")).stdout
        document = json.loads((await command("show", "--json")).stdout)
        return result, shown, document["traceback"], caplog.text

    return call


async def test_show_and_the_log_have_the_traceback_of_a_failed_tool(failed):
    result, shown, traceback, logged = await failed("price", {"name": "bread"})
    assert result.error.message == "KeyError: 'bread'"
    lines = traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "KeyError: 'bread'"
    assert [line.split(", in ")[1] for line in lines if line.startswith("  File")] == ["price", "look_up"]
    for line in lines:
        assert line.strip() in shown
        assert line in logged
    assert str(result.invocation_id) in logged


async def test_the_causes_of_an_exception_in_a_thread_are_in_its_traceback(failed):
    _, _, traceback, _ = await failed("blocking_price", {"name": "tea"})
    assert "KeyError: 'tea'" in traceback
    assert "The above exception was the direct cause" in traceback
    assert traceback.endswith("ValueError: no price of tea")


async def test_a_traceback_has_no_sensitive_value(failed):
    _, shown, traceback, logged = await failed("unlock", {"code": "open-sesame"})
    assert "the code [redacted] is wrong" in traceback
    assert "open-sesame" not in shown + traceback + logged


async def test_a_traceback_is_bounded(failed):
    _, _, traceback, logged = await failed("endless", {"name": "ham "})
    assert len(traceback) <= 8000
    assert len(logged) <= 9000
    assert traceback.startswith("Traceback")
