"""A program that serves a provider in children, over and over, for a test that kills them.

A child is forked from a parent that has everything imported, so that a life is short. Each effect is one line of a file,
written and on the disk before its tool goes on.
"""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import uvicorn

from agenttool.adapters.rap import courier
from agenttool.rap import Call, Event, Limits, Provider, outbox

EVENTS = 12


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
    async def ask(number: int, call: Call) -> str:
        """Ask first, then act, once at most."""
        picked = await call.choose(f"Do {number}?", ["do it", "leave it"])
        if picked == "do it":
            act("ask", number)
        return f"{picked} {number}"

    @provider.subscription(idempotent=True)
    async def watch(number: int, call: Call):
        """Send some events."""
        yield f"watching {number}"
        for place in range(int(call.bookmark or 0), EVENTS):
            await asyncio.sleep(random.uniform(0, 0.01))
            yield Event(value=f"{number}:{place}", final=place == EVENTS - 1, bookmark=str(place + 1))

    return provider


def live(folder: Path, port: int) -> None:
    """Serve until killed."""
    outbox.FIRST_DELAY_S, outbox.LONGEST_DELAY_S = 0.005, 0.05
    uvicorn.Server(uvicorn.Config(make(folder), port=port, log_config=None, lifespan="on")).run()


def main() -> None:
    """Start a child for each line that comes in, and tell its process."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    courier._tls()
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            random.seed()
            os.close(0)
            live(folder, port)
            os._exit(1)
        print(child, flush=True)


if __name__ == "__main__":
    main()
