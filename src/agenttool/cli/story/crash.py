"""A call outlives its process: asked about, killed for real, answered by another, and run once."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from agenttool.adapters.python.declare import tool
from agenttool.assemble import Runtime
from agenttool.cli.story.teller import Teller
from agenttool.journal.steps import STEPS
from agenttool.policy.approvals import Question
from agenttool.ports.tool import DeclaredTool
from agenttool.records import InvocationId, ToolResult
from agenttool.stores.sqlite.store import SqliteStore

LEASE_S = 1.0
"""How soon the calls of a dead process may be taken up; the shortest there is, because somebody is watching."""

WAIT_S = 120.0
"""After so long the story has gone wrong."""


PROGRAM = """
import asyncio, pathlib, sys
from agenttool.cli.story.crash import ask
asyncio.run(ask(pathlib.Path(sys.argv[1])))
"""


def payment_into(ledger: Path) -> DeclaredTool:
    """Make a tool whose effect anybody can count."""

    @tool(namespace="bank", approval_required=True)
    async def pay(to: str, amount: int) -> str:
        """Pay an invoice. Not for refunds."""
        with ledger.open("a", encoding="utf-8") as book:
            book.write(f"{amount} to {to}\n")
        return f"paid {amount} to {to}"

    return pay.declared


async def ask(folder: Path) -> None:
    """Make a call that asks, and wait; this runs in the process that will be killed."""
    place = f"sqlite:{folder / 'calls.db'}"
    async with Runtime.open(store=place, tools=[payment_into(folder / "ledger")], lease_s=LEASE_S) as rt:
        await rt.call("pay", {"to": "ada", "amount": 90}, surface=await rt.surface())


def tell(teller: Teller) -> None:
    """Kill a process that waits for an answer, and answer from another."""
    teller.chapter("A call outlives its process")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_tell(teller, Path(folder)))


async def _tell(teller: Teller, folder: Path) -> None:
    place, ledger = f"sqlite:{folder / 'calls.db'}", folder / "ledger"
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)])  # noqa: S603, ASYNC220 -- our own interpreter
    try:
        async with asyncio.timeout(WAIT_S), Runtime.open(store=place) as rt:
            question = await _question(rt)
    finally:
        child.kill()
        status = child.wait()
    teller.say(f"Another process asked whether it may run {question.tool_name}, and waits. It is killed with kill -9.")
    teller.claim("the process is dead", holds=status < 0)
    async with asyncio.timeout(WAIT_S), Runtime.open(store=place, tools=[payment_into(ledger)]) as rt:
        waiting = await rt.approvals()
        teller.claim(
            "its question is still there", holds=[each.approval_id for each in waiting] == [question.approval_id]
        )
        teller.say("A new process, which knows the tool, takes the answer and goes on with the call.")
        await rt.decide(question.approval_id, "allow", by="pat")
        result = await _result(rt, question.invocation_id)
        again = await rt.decide(question.approval_id, "allow", by="mallory")
    teller.claim("the same call has its result", holds=not result.is_error)
    teller.claim("the effect happened once", holds=ledger.read_text(encoding="utf-8") == "90 to ada\n")
    teller.claim("a second answer changes nothing", holds=not hasattr(again, "answer"))
    store = SqliteStore.open(folder / "calls.db", steps=STEPS)
    teller.claim("no link of the log's chain is broken", holds=not list(store.log.verify()))
    await store.close()


async def _question(rt: Runtime) -> Question:
    while True:
        waiting = await rt.approvals()
        if waiting:
            return waiting[0]
        await asyncio.sleep(0.02)


async def _result(rt: Runtime, invocation_id: InvocationId) -> ToolResult:
    while (result := await rt.result(invocation_id)) is None:
        await rt.resume()
        await asyncio.sleep(0.05)
    return result
