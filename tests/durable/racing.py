"""A process that starts calls under given ids, beside others that do the same: `racing.py FOLDER ID...`.

With `racing.py FOLDER 1 reserve` it dies after it has reserved the idempotency key `0` and before the call is recorded,
and with `racing.py FOLDER ID look` in a tool that only reads; with `look_by_key` its call has that key.
Each call writes its id into a ledger.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agenttool import Context, Runtime, ToolCall, tool
from agenttool.durable import background
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
        await asyncio.sleep(0.2)  # until the call is recorded
        os.kill(os.getpid(), signal.SIGKILL)

    rt = Runtime.open(tools=[note, pay, look], rules=[ALL], store=f"sqlite:{folder}/state.db")
    if names[1:] in (["reserve"], ["look"], ["look_by_key"]):
        rt._core.durability.lease_s = 0.5
    async with rt:
        surface = await rt.surface()
        if names[1:] == ["reserve"]:
            background.run_call = lambda _: os.kill(os.getpid(), signal.SIGKILL)
            await rt.call("pay", {"number": 1}, surface=surface, idempotency_key="0")
        if names[1:] == ["look_by_key"]:
            await rt.call("look", {"number": 1}, surface=surface, idempotency_key="0")
        if names[1:] == ["look"]:
            look = ToolCall("look", {"number": 1}, invocation_id=names[0])
            await (await rt.calls.start(look, surface=surface)).idle()
        calls = [ToolCall("note", {"number": 1}, invocation_id=name) for name in names]
        for started in await asyncio.gather(*(rt.calls.start(each, surface=surface) for each in calls)):
            assert (await started.result()).status == "succeeded"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
