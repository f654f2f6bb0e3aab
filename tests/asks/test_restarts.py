"""Asks about processes that end while a call is under way."""

import asyncio
import dataclasses
import signal
import subprocess
import sys

import pytest

from agenttool import Runtime, tool
from agenttool.ports.later import LATER
from agenttool.testing.fakes import scripted_tool

BOUND_S = 60

PROGRAM = """
import asyncio, os, signal
from agenttool import Runtime, tool
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

@tool
async def pay(amount: int) -> str:
    '''Pay. Not for looking.'''
    with open("ledger", "a") as ledger:
        ledger.write(f"{amount}\\n")
    if os.path.exists("mortal"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

async def main():
    rules = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
    async with Runtime.open(store="sqlite:///state.db", tools=[pay], rules=rules) as rt:
        if os.path.exists("mortal"):
            await rt.call("pay", {"amount": 5}, surface=await rt.surface())
        results = []
        while not results:
            await asyncio.sleep(0.1)
            await rt.resume()
            results = [each async for each in rt.export() if type(each).__name__ == "ToolResult"]
        print(results[0].error.error_code, results[0].error.retry.safe)

asyncio.run(main())
"""


async def test_ask_06_a_question_is_still_open_after_a_restart_and_its_answer_counts(tmp_path):
    @tool
    async def pay(amount: int) -> str:
        """Pay. Not for looking."""
        return f"paid {amount}"

    store = f"sqlite:///{tmp_path}/state.db"
    async with Runtime.open(store=store, tools=[pay]) as first:
        calling = asyncio.ensure_future(first.call("pay", {"amount": 5}, surface=await first.surface()))
        async for _, event in first.events():
            if event.event_type == "tool.permission.requested":
                break
        (asked,) = await first.approvals()
    left = await calling
    async with Runtime.open(store=store, tools=[pay]) as second:
        (still,) = await second.approvals()
        await second.decide(still.approval_id, "allow", by="ada")
        async with asyncio.timeout(30):
            async for _, event in second.events():
                if event.event_type == "tool.invocation.succeeded":
                    break
        result = await second.result(left.invocation_id)
    assert (still.approval_id, still.shown) == (asked.approval_id, {"amount": 5})
    assert (result.status, result.content[0].text) == ("succeeded", "paid 5")


@pytest.mark.slow
def test_ask_15_what_may_have_run_is_not_run_again_after_a_crash(tmp_path):
    def process():
        program = [sys.executable, "-c", PROGRAM]
        return subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)

    (tmp_path / "mortal").touch()
    assert process().returncode == -signal.SIGKILL
    (tmp_path / "mortal").unlink()
    survivor = process()
    assert survivor.stdout.split() == ["unknown_after_crash", "False"], survivor.stderr
    assert (tmp_path / "ledger").read_text() == "5\n"


class Mill:
    """A job that takes hours: it is handed over, and whoever grinds brings the flour by another way."""

    within_s = None

    def __init__(self):
        self.sent = []

    async def send(self, job):
        self.sent.append(job.invocation_id)
        return LATER

    def read(self, body):
        return body.decode()

    def tool(self):
        return dataclasses.replace(scripted_tool("grind", self.send, namespace="mill"), later=self)


async def test_ask_30_a_job_of_hours_is_submitted_left_alone_and_answered_in_another_process(tmp_path, allow):
    mill, store = Mill(), f"sqlite:{tmp_path}/state.db"
    async with Runtime.open(store=store, tools=[mill.tool()], rules=allow) as rt:
        submitted = await rt.start("grind", {}, surface=await rt.surface())
    async with Runtime.open(store=store, tools=[mill.tool()], rules=allow) as rt:
        assert [each.invocation_id for each in await rt.waiting()] == [submitted.invocation_id]
        await rt.answer_later(submitted.invocation_id, b"flour")
        async with asyncio.timeout(BOUND_S):
            result = await rt.wait(submitted.invocation_id)
    assert (result.status, result.content[0].text) == ("succeeded", "flour")
    assert mill.sent == [submitted.invocation_id]
