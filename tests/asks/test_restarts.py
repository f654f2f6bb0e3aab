"""Asks about processes that end while a call is under way."""

import asyncio
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from starting import begin

from agenttool import RapServer, Runtime, tool
from agenttool.adapters.rap.listener import Listener

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
    async with Runtime.open(store="sqlite:///state.db", tools=[pay], rules=rules, approve="wait") as rt:
        if os.path.exists("mortal"):
            await rt.call("pay", {"amount": 5}, surface=await rt.surface())
        results = []
        while not results:
            await asyncio.sleep(0.1)
            await rt.calls.recover()
            results = [each async for each in rt.journal.export() if type(each).__name__ == "ToolResult"]
        print(results[0].error.error_code, results[0].error.retry.safe)

asyncio.run(main())
"""


async def test_ask_06_a_question_is_still_open_after_a_restart_and_its_answer_counts(tmp_path):
    @tool
    async def pay(amount: int) -> str:
        """Pay. Not for looking."""
        return f"paid {amount}"

    store = f"sqlite:///{tmp_path}/state.db"
    async with Runtime.open(store=store, tools=[pay], approve="wait") as first:
        calling = asyncio.ensure_future(first.call("pay", {"amount": 5}, surface=await first.surface()))
        async for _, event in first.journal.events():
            if event.event_type == "tool.permission.requested":
                break
        (asked,) = await first.approvals.list()
    left = await calling
    async with Runtime.open(store=store, tools=[pay], approve="wait") as second:
        (still,) = await second.approvals.list()
        await second.approvals.decide(still.approval_id, "allow", by="ada")
        async with asyncio.timeout(60):
            async for _, event in second.journal.events():
                if event.event_type == "tool.invocation.succeeded":
                    break
        result = await second.journal.result(left.invocation_id)
    assert (still.approval_id, still.shown) == (asked.approval_id, {"amount": 5})
    assert (result.status, result.content[0].text) == ("succeeded", "paid 5")


@pytest.mark.slow
def test_ask_15_what_may_have_run_is_not_run_again_after_a_crash(tmp_path):
    def process():
        program = [sys.executable, "-c", PROGRAM]
        return subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    (tmp_path / "mortal").touch()
    assert process().returncode == -signal.SIGKILL
    (tmp_path / "mortal").unlink()
    survivor = process()
    assert survivor.stdout.split() == ["unknown_after_crash", "False"], survivor.stderr
    assert (tmp_path / "ledger").read_text() == "5\n"


PROVIDER = """
import asyncio, sys
import uvicorn
from agenttool.rap import Provider

provider = Provider("mill", store=sys.argv[1] + "/mill.rap.db", allow=["127.0.0.0/8"])

@provider.tool
async def grind(sacks: int) -> str:
    '''Grind for hours.'''
    while not __import__("os").path.exists(sys.argv[1] + "/ground"):
        await asyncio.sleep(0.02)
    with open(sys.argv[1] + "/ledger", "a") as ledger:
        ledger.write(f"{sacks}\\n")
    return f"{sacks} sacks of flour"

uvicorn.run(provider.app, port=int(sys.argv[2]), log_level="critical")
"""


@asynccontextmanager
async def milling(folder, port):
    """Serve a slow tool in a process of its own."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", PROVIDER, folder, str(port))
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        yield
    finally:
        child.kill()
        await child.wait()


@asynccontextmanager
async def called_back(folder, mill, callbacks, rules):
    """Open a runtime that can be reached at the same place after a restart."""
    source = RapServer(name="mill", url=f"http://127.0.0.1:{mill}", allow=("127.0.0.0/8",))
    place, url = f"sqlite:{folder}/calls.db", f"http://127.0.0.1:{callbacks}"
    async with Runtime.open(store=place, rules=rules, sources=[source], callback_url=url, approve="wait") as rt:
        listener = Listener(rt.sources.get("rap").app, ("127.0.0.1", callbacks))
        listener.start()
        try:
            yield rt
        finally:
            await listener.stop()


@pytest.mark.slow
async def test_ask_30_a_job_of_hours_is_submitted_left_alone_and_called_back(tmp_path, allow, free_port):
    mill, callbacks = free_port(), free_port()
    async with asyncio.timeout(120), milling(tmp_path, mill):
        async with called_back(tmp_path, mill, callbacks, allow) as first:
            begun = await begin(first, "grind", {"sacks": 3}, surface=await first.surface())
            assert begun.invocation_id not in first.calls.open_ids()
        (tmp_path / "ground").touch()
        async with called_back(tmp_path, mill, callbacks, allow) as second:
            result = await second.calls.get(begun.invocation_id).result()
    assert result.content[0].text == "3 sacks of flour"
    assert (tmp_path / "ledger").read_text() == "3\n"
