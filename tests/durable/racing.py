"""A process that starts calls under given ids, beside others that do the same: `racing.py FOLDER ID...`.

With `racing.py FOLDER 1 reserve` it dies after it has reserved the idempotency key `0` and before the call is recorded,
and with `racing.py FOLDER ID look` in a tool that only reads.
Each call writes its id into a ledger.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agenttool import Context, Runtime, tool
from agenttool.pipeline import background
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

ALL = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))


async def main(folder, names):
    @tool
    async def note(number: int, context: Context) -> str:
        """Note."""
        with (Path(folder) / "ledger").open("a") as file:
            file.write(f"{context.invocation_id}\n")
        return "noted"

    @tool
    async def pay(number: int) -> str:
        """Pay."""
        return f"paid {number}"

    @tool(read_only=True)
    async def look(number: int) -> str:
        """Look."""
        os.kill(os.getpid(), signal.SIGKILL)

    rt = Runtime.open(tools=[note, pay, look], rules=[ALL], store=f"sqlite:{folder}/state.db")
    if names[1:] in (["reserve"], ["look"]):
        rt._core.durability.lease_s = 0.5
    async with rt:
        surface = await rt.surface()
        if names[1:] == ["reserve"]:
            background.run_call = lambda _: os.kill(os.getpid(), signal.SIGKILL)
            await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="0")
        if names[1:] == ["look"]:
            await rt.start("look", {"number": 1}, surface=surface, invocation_id=names[0])
        starts = (rt.start("note", {"number": 1}, surface=surface, invocation_id=name) for name in names)
        for started in await asyncio.gather(*starts):
            assert (await rt.wait(started.invocation_id)).status == "succeeded"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
