"""A process that makes calls on a store and dies: `living.py FOLDER NAME NUMBER [LEASE_S]`; NAME is a tool, or how it dies.

Prints the id of the open question if it is asked; then it waits to be killed. Tools that change something write a line
into a ledger, `NAME INVOCATION_ID NUMBER`, and on the disk it is before they return. A tool that has written kills its
own process, the hard way, as long as it is in mortal danger. `line` is a call of `pay` that waits for its turn when
the process dies, and `approved` one of `send` that does so after it was approved with the number 9 instead, as does
`unlocked` one of `unlock`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

from agenttool import Context, Role, Runtime, Sensitive, tool
from agenttool.durable import recovery
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, InvocationStatus, RuleSource

LEASE_S = 0.5
"""So soon a process that says nothing is taken for dead."""

LONG_LEASE_S = 6.0
"""For a process that has to be taken for alive, however little of a busy machine it gets."""

danger = {"is_mortal": False, "log": None}


def hurry():
    """Look often, so that no test waits for it."""
    recovery.POLL_S, recovery.RECOVER_EVERY_S = 0.02, 0.1


def tools_of(folder):  # noqa: C901, PLR0915 -- a list, and each tool is two lines
    """Make the tools: `pay` changes something, `put` may be repeated, `look` only reads, and so does `tell`, a lot;
    `send` is asked about, `unlock` too, with a secret, and `relay`, which pays. Others make nested calls."""

    def write(name, call, number):
        file = os.open(Path(folder) / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{name} {call} {number}\n".encode())
        os.fsync(file)
        os.close(file)
        if danger["is_mortal"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"wrote {number}"

    @tool
    async def pay(number: int, context: Context) -> str:
        """Pay."""
        return write("pay", context.invocation_id, number)

    @tool(idempotent=True)
    async def put(number: int, context: Context) -> str:
        """Put."""
        return write("put", context.invocation_id, number)

    @tool(read_only=True)
    async def look(number: int) -> str:
        """Look."""
        if danger["is_mortal"]:
            await asyncio.sleep(0)  # the start of a call that only reads is written at its first wait
            await danger["log"].settle()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"saw {number}"

    @tool(read_only=True)
    async def tell(number: int) -> str:
        """Return so much that it is stored apart."""
        return f"{number} " * 20_000

    @tool
    async def send(number: int, context: Context) -> str:
        """Send."""
        context.progress(f"sending {number}")
        await asyncio.sleep(0)
        return write("send", context.invocation_id, number)

    @tool(idempotent=True)
    async def unlock(number: int, pin: Annotated[int, Sensitive], context: Context) -> str:
        """Unlock."""
        return write("unlock", context.invocation_id, pin)

    @tool
    async def relay(number: int, context: Context) -> str:
        """Relay."""
        return (await context.call("pay", {"number": number})).status

    @tool
    async def mark(number: int, context: Context) -> str:
        """Mark, and live on."""
        was_mortal, danger["is_mortal"] = danger["is_mortal"], False
        try:
            return write("mark", context.invocation_id, number)
        finally:
            danger["is_mortal"] = was_mortal

    @tool(idempotent=True)
    async def twice(number: int, context: Context) -> str:
        """Mark two numbers, and die between them."""
        first = await context.call("mark", {"number": number})
        if danger["is_mortal"]:
            os.kill(os.getpid(), signal.SIGKILL)
        second = await context.call("mark", {"number": number + 1})
        return f"{first.status} {second.status}"

    @tool(idempotent=True)
    async def courier(number: int, context: Context) -> str:
        """Send, which is asked about, and be resumed with the answer."""
        return (await context.call("send", {"number": number})).status

    @tool
    async def errand(number: int, context: Context) -> str:
        """Send, which is asked about; its own code uses what may change, so it is not run again."""
        return (await context.call("send", {"number": number})).status + str(danger["is_mortal"])

    @tool
    async def trip(number: int, context: Context) -> str:
        """Mark two numbers and look between them; not idempotent, and without any effect of its own."""
        first = await context.call("mark", {"number": number})
        await context.call("look", {"number": number})
        second = await context.call("mark", {"number": number + 1})
        return f"{first.status} {second.status}"

    return [pay, put, look, tell, unlock, mark, twice, courier, errand, trip, send, relay]


PIN = 4711

ASKED = ("send", "relay", "unlock")

RULES = [
    Rule(
        ref="send",
        behavior=Behavior.ASK,
        source=RuleSource.PROJECT_SETTINGS,
        tools=tuple(f"local.{name}" for name in ASKED),
        is_optional=True,
    ),
    Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",)),
]


def open_runtime(folder, lease_s=LEASE_S, **options):
    """Open the store in a folder, with all tools and rules unless others are given."""
    given = {"tools": tools_of(folder), "rules": RULES, **options}
    rt = Runtime.open(**{"store": f"sqlite:{folder}/state.db", **given})
    rt._core.durability.lease_s = lease_s
    return rt


def ledger_of(folder):
    """Give what the tools wrote: name, call and number."""
    file = Path(folder) / "ledger"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, call, int(number)) for name, call, number in map(str.split, lines)]


def input_of(name, number):
    """Give what a tool is called with."""
    return {"number": number, "pin": PIN} if name == "unlock" else {"number": number}


async def stand_in_line(folder, name, number):
    async with open_runtime(folder) as rt:
        surface = await rt.surface()
        first = rt._core.tools[rt._agent.catalog.snapshot().entries[0]]
        await rt._core.limiter.acquire(first.safety.static, rt._core.scopes[first.shared_state])
        calling = asyncio.ensure_future(rt.call(name, input_of(name, number), surface=surface))
        while name in ASKED and not (asked := await rt.approvals.list()):
            await asyncio.sleep(0.01)
        if name in ASKED:
            await rt.approvals.decide(asked[0].approval_id, "allow", input={**asked[0].shown, "number": 9})
        while not any(call.status is InvocationStatus.QUEUED for call in rt._core.registry.calls.values()):
            await asyncio.sleep(0.01)
            assert not calling.done()
        await rt._core.journal.log.settle()
        os.kill(os.getpid(), signal.SIGKILL)


async def main(folder, name, number, lease_s):
    async with open_runtime(folder, lease_s) as rt:
        danger.update(is_mortal=name not in (*ASKED, "courier", "errand"), log=rt._core.journal.log)
        surface = await rt.surface(role=Role(name="clerk", without=("local.pay",)) if name == "relay" else None)
        calling = asyncio.ensure_future(rt.call(name, input_of(name, number), surface=surface))
        while not (asked := await rt.approvals.list()) and not calling.done():
            await asyncio.sleep(0.01)
        print(asked[0].approval_id if asked else calling.result(), flush=True)
        danger["is_mortal"] = True
        await calling


if __name__ == "__main__":
    hurry()
    in_line = {"line": "pay", "approved": "send", "unlocked": "unlock"}
    if sys.argv[2] in in_line:
        asyncio.run(stand_in_line(sys.argv[1], in_line[sys.argv[2]], int(sys.argv[3])))
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(*sys.argv[4:]) or LEASE_S))
