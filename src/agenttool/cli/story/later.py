"""A tool that takes its time: a RAP server in a process of its own, a person who is asked, and a restart in between."""

import asyncio
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agenttool.adapters.rap.listen import Listener
from agenttool.adapters.rap.settings import RapSource
from agenttool.assemble import Runtime
from agenttool.cli.story.teller import Teller
from agenttool.policy.rules import Rule
from agenttool.ports.later import Prompt
from agenttool.records import Behavior, RuleSource

WAIT_S = 120.0
"""After so long the story has gone wrong."""

STOP_S = 10.0

PROGRAM = """
import asyncio, sys
import uvicorn
from agenttool.rap import Call, Provider

provider = Provider("greenhouse", store=sys.argv[1] + "/greenhouse.rap.db", allow=["127.0.0.0/8"])

@provider.tool
async def open_valve(valve: int, call: Call) -> str:
    \"\"\"Open a valve, if the gardener agrees.\"\"\"
    picked = await call.choose(f"Open valve {valve}?", ["open it", "leave it closed"], default=1)
    await asyncio.sleep(0.5)
    return f"valve {valve}: {picked}"

@provider.subscription
async def watch_bed(bed: int):
    \"\"\"Tell whenever a bed is dry.\"\"\"
    yield f"watching bed {bed}"
    for reading in ("moist", "dry"):
        await asyncio.sleep(0.1)
        yield f"bed {bed} is {reading}"

uvicorn.run(provider.app, port=int(sys.argv[2]), log_level="critical")
"""

_ALLOW = [Rule(ref="demo", behavior=Behavior.ALLOW, source=RuleSource.SESSION, tools=("greenhouse.*",))]


def tell(teller: Teller) -> None:
    """Call slow tools, be asked, restart, and hear what came of it."""
    teller.chapter("A tool that answers later")
    server, callbacks = _free_port(), _free_port()
    with tempfile.TemporaryDirectory() as folder, _serving(folder, server):
        asyncio.run(_tell(teller, Path(folder), server, callbacks))


async def _tell(teller: Teller, folder: Path, server: int, callbacks: int) -> None:
    async with asyncio.timeout(WAIT_S):
        await _listens(server)
        async with _Served(folder, server, callbacks) as rt:
            surface = await rt.surface()
            valve = await rt.start("open_valve", {"valve": 4}, surface=surface)
            bed = await rt.start("watch_bed", {"bed": 3}, surface=surface)
            prompt = await _prompt(rt)
            teller.say(f"A server in another process took both calls on, and asks: {prompt.message}")
            teller.claim(
                "nobody stands by, and a call that waits is no task", holds=valve.invocation_id not in rt.under_way()
            )
        teller.say("This runtime is closed, and another one opened on the same file, as after a restart.")
        async with _Served(folder, server, callbacks) as rt:
            found = await rt.prompts()
            teller.claim("the question is still open", holds=[each.prompt_id for each in found] == [prompt.prompt_id])
            chosen = await rt.choose(prompt.prompt_id, 0)
            teller.claim("the answer went to the tool, once", holds=chosen.is_taken and chosen.is_heard)
            result = await rt.wait(valve.invocation_id)
            text = result.content[0].text if result is not None and result.content else None
            teller.claim("the same call ended with what was chosen", holds=text == "valve 4: open it")
            confirmed = await rt.wait(bed.invocation_id)
            teller.claim("the other one opened a subscription", holds=confirmed is not None and not confirmed.is_error)
            events = await _events(rt, 2)
            teller.table("What came of the subscription", ("thread", "text"), events)
            teller.claim("its events are kept until somebody deals with them", holds=len(events) == 2)  # noqa: PLR2004 -- as many as it sends


class _Served:
    """A runtime with a place for callbacks that is the same after a restart."""

    def __init__(self, folder: Path, server: int, callbacks: int) -> None:
        source = RapSource(name="greenhouse", url=f"http://127.0.0.1:{server}", allow=("127.0.0.0/8",))
        url = f"http://127.0.0.1:{callbacks}"
        place = f"sqlite:{folder / 'calls.db'}"
        self._rt = Runtime.open(store=place, rules=_ALLOW, sources=[source], callback_url=url)
        self._port = callbacks
        self._listener: Listener | None = None

    async def __aenter__(self) -> Runtime:
        await self._rt.__aenter__()
        if self._rt.rap is not None:
            self._listener = Listener(self._rt.rap.app, ("127.0.0.1", self._port))
            self._listener.start()
        return self._rt

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None:
            await self._listener.stop()
        await self._rt.__aexit__(None, None, None)


async def _prompt(rt: Runtime) -> Prompt:
    while True:
        found = await rt.prompts()
        if found:
            return found[0]
        await asyncio.sleep(0.02)


async def _events(rt: Runtime, count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if rt.rap is not None:
        async for event in rt.rap.subscriptions.follow():
            found.append(("the same" if event.is_inline else "a new one", event.text))
            if len(found) == count:
                break
    return found


async def _listens(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


@contextmanager
def _serving(folder: str, port: int) -> Generator[None]:
    """Let a server run, and ask it to stop; it is killed only if it does not."""
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, folder, str(port)])  # noqa: S603 -- our own interpreter
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
