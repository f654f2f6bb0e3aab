"""Our runtime as a process that can be killed: `python killable.py PROVIDER_URL STORE PORT`.

It serves its callbacks on loopback at that port, 0 for any, and prints it; then it takes JSON lines on stdin:
`start` a call, `wait` for its result, `choose` for its open question, and prints the outcome of each.
"""

import asyncio
import json
import socket
import sys

import uvicorn

from agenttool import Runtime
from agenttool.adapters.rap.settings import RapServer
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

EVERYTHING = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))


def tell(**members):
    print(json.dumps(members), flush=True)


async def carry_out(runtime, do, **members):
    match do:
        case "start":
            call = await runtime.start(members["tool"], members["arguments"], surface=await runtime.surface())
            await call.idle()
            tell(event="started", tool=members["tool"], id=call.id)
        case "wait":
            result = await runtime.calls.get(members["id"]).result()
            text = "".join(item.text for item in result.content)
            tell(event="result", id=members["id"], text=text, error=result.error and result.error.message)
        case "choose":
            while not (prompts := await runtime.prompts.list()):  # noqa: ASYNC110 -- they come from another process
                await asyncio.sleep(0.01)
            chosen = await runtime.prompts.choose(prompts[0].prompt_id, members["selected"])
            tell(event="chosen", received=chosen.is_delivered)
        case "events":
            found = await runtime.sources.get("rap").subscriptions.events()
            tell(event="events", texts=[each.text for each in found])


async def main(provider_url, store, port):
    listener = socket.create_server(("127.0.0.1", int(port)))
    port = listener.getsockname()[1]
    source = RapServer(name="greenhouse", url=provider_url, allow=("127.0.0.0/8",), attempts=50)
    here = f"http://127.0.0.1:{port}"
    async with Runtime.open(
        store=store, rules=[EVERYTHING], sources=[source], thread="s", callback_url=here, lease_s=1.0
    ) as runtime:
        server = uvicorn.Server(uvicorn.Config(runtime.sources.get("rap").app, log_level="warning", lifespan="off"))
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        tell(event="ready", port=port)
        while line := await asyncio.to_thread(sys.stdin.readline):
            await carry_out(runtime, **json.loads(line))
        server.should_exit = True
        await serving


asyncio.run(main(*sys.argv[1:]))
