"""A runtime that starts calls of a RAP server and dies: `living_runtime.py FOLDER SERVER_URL CALLBACK_URL PORT COUNT`.

Prints the id of each call once it is started, then `idle` when no call is open any more. What came of calls that an
earlier process started is for the store to say.
"""

import asyncio
import sys

from agenttool import RapSource, Runtime
from agenttool.adapters.rap import courier, execute
from agenttool.adapters.rap.listen import Listener
from agenttool.pipeline import keeper
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

RULES = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


def opened(folder, server_url, callback_url):
    source = RapSource(name="far", url=server_url, allow=("127.0.0.0/8",), attempts=1000)
    rt = Runtime.open(
        store=f"sqlite:{folder}/state.db", rules=RULES, sources=[source], callback_url=callback_url, lease_s=1.0
    )
    rt._core.lease_s = 0.5
    return rt


def hurry():
    """Be impatient, so that hundreds of faults take no time."""
    execute.FIRST_DELAY_S, execute.LONGEST_DELAY_S = 0.01, 0.05
    keeper.LOOK_EVERY_S, keeper.TAKE_UP_EVERY_S = 0.02, 0.1
    courier.Courier.__init__.__kwdefaults__["timeout_s"] = 2.0


async def found(folder, server_url, callback_url):
    """Open the runtime, as often as it takes to hear what its server offers."""
    while True:
        rt = opened(folder, server_url, callback_url)
        await rt.__aenter__()
        if not rt.rap.faults:
            return rt
        await rt.__aexit__(None, None, None)


async def main(folder, server_url, callback_url, port, count):
    rt = await found(folder, server_url, callback_url)
    listener = Listener(rt.rap.app, ("127.0.0.1", port))
    listener.start()
    surface = await rt.surface()

    async def start(number):
        call = await rt.start("work", {"number": number}, surface=surface)
        print(call.invocation_id, flush=True)

    await asyncio.gather(*map(start, range(count)))
    while await rt._core.open_calls.page(limit=1):
        await asyncio.sleep(0.02)
    print("idle", flush=True)
    await asyncio.sleep(60)


if __name__ == "__main__":
    hurry()
    asyncio.run(main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])))
