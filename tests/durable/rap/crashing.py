"""A provider for a test that kills it. Each effect is a line of a file, on the disk before its tool continues."""

import asyncio
import os
import random
from pathlib import Path

import uvicorn

from agenttool.rap import Event, Limits, Provider, RapCall, outbox

EVENTS = 6


def make(folder: Path) -> Provider:
    """Make the provider whose children die."""
    provider = Provider(
        "crashing", store=folder / "calls.db", allow=["127.0.0.1"], limits=Limits(events_per_second=1000, keep_s=3600)
    )

    def act(what: str, number: int) -> None:
        file = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{what} {number}\n".encode())
        os.fsync(file)
        os.close(file)

    @provider.tool
    async def append(number: int) -> str:
        """Act, once at most."""
        await asyncio.sleep(random.uniform(0, 0.01))
        act("append", number)
        await asyncio.sleep(random.uniform(0, 0.01))
        return f"appended {number}"

    @provider.tool(idempotent=True)
    async def note(number: int) -> str:
        """Act, as often as need be."""
        await asyncio.sleep(random.uniform(0, 0.01))
        act("note", number)
        await asyncio.sleep(random.uniform(0, 0.01))
        return f"noted {number}"

    @provider.tool
    async def ask(number: int, call: RapCall) -> str:
        """Ask first, then act, once at most."""
        picked = await call.choose(f"Do {number}?", ["do it", "leave it"])
        if picked == "do it":
            act("ask", number)
        return f"{picked} {number}"

    @provider.subscription(idempotent=True)
    async def watch(number: int, call: RapCall):
        """Send some events."""
        yield f"watching {number}"
        for place in range(int(call.bookmark or 0), EVENTS):
            await asyncio.sleep(random.uniform(0, 0.01))
            yield Event(value=f"{number}:{place}", final=place == EVENTS - 1, bookmark=str(place + 1))

    return provider


def live(folder: str, port: str) -> None:
    """Serve until killed."""
    outbox.FIRST_DELAY_S, outbox.MAX_DELAY_S = 0.005, 0.05
    uvicorn.Server(uvicorn.Config(make(Path(folder)), port=int(port), log_config=None, lifespan="on")).run()
