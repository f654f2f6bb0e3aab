"""A runtime for a test that kills it: it starts calls of a provider, answers what they ask, and says when it rests.

Prints the id of each call once it is started, and `idle` when no call is open any more and every subscription ended.
What came of calls that an earlier process started is for the store to say.
"""

import asyncio
from contextlib import suppress

from agenttool import RapServer, Runtime
from agenttool.adapters.rap import discovery, execute
from agenttool.adapters.rap.listener import Listener
from agenttool.durable import deferred_results, recovery
from agenttool.errors import StoreError
from agenttool.http import client as http_client
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

RULES = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
KINDS = ("append", "note", "ask", "watch")


def opened(folder, server_url, callback_url):
    source = RapServer(name="far", url=server_url, allow=("127.0.0.0/8",), attempts=10_000)
    store = f"sqlite:{folder}/state.db"
    return Runtime.open(store=store, rules=RULES, sources=[source], callback_url=callback_url, lease_s=1.0)


def hurry():
    """Be impatient, so that hundreds of faults take no time."""
    execute.FIRST_DELAY_S, execute.MAX_DELAY_S = 0.01, 0.05
    discovery.FIRST_DELAY_S, discovery.MAX_DELAY_S = 0.02, 0.1
    recovery.POLL_S, recovery.RECOVER_EVERY_S = 0.02, 0.1
    deferred_results.REDELIVER_EVERY_S = 0.1
    http_client.HttpClient.__init__.__kwdefaults__["timeout_s"] = 2.0


async def answer(rt):
    """Answer whatever is asked by the first choice, as long as there are questions."""
    while True:
        with suppress(StoreError):  # on a busy machine a process may be taken for dead; it continues under another name
            for prompt in await rt.prompts.list():
                await rt.prompts.choose(prompt.prompt_id, 0)
        await asyncio.sleep(0.02)


async def offered(rt):
    """Wait until the server has said what it offers, which may be dead or not yet born; give a surface with it."""
    surface = await rt.surface()
    while "tool_far.append" not in {*surface.tool_refs} - {each.tool_id for each in surface.deferred_tools}:
        await asyncio.sleep(0.02)
        surface = rt.surfaces.current(surface)
    return surface


async def run(rt, port, numbers):
    listener = Listener(rt.sources.get("rap").app, ("127.0.0.1", port))
    listener.start()

    async def start(kind, number, surface):
        call = await (await rt.start(kind, {"number": number}, surface=surface)).idle()
        print(call.id, flush=True)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(answer(rt))
        surface = await offered(rt) if numbers else None
        for number in numbers:
            tasks.create_task(start(KINDS[number % len(KINDS)], number, surface))
        while not numbers and (
            await rt._core.durability.checkpoints.page(limit=1) or await rt.sources.get("rap").subscriptions.of(limit=1)
        ):
            await asyncio.sleep(0.02)
        print("idle" if not numbers else "busy", flush=True)


def live(folder, server_url, callback_url, port, first, count):
    """Make so many calls, or none and wait for those of others."""
    hurry()

    async def lived():
        async with opened(folder, server_url, callback_url) as rt:
            await run(rt, int(port), range(int(first), int(first) + int(count)))

    asyncio.run(lived())
