"""Let uvicorn notice within milliseconds that it is to stop; it looks ten times a second, and hundreds of tests stop one."""

import asyncio
from types import SimpleNamespace

import uvicorn.server


def install() -> None:
    """Shorten the pauses of all servers in this process."""
    uvicorn.server.asyncio = SimpleNamespace(**vars(asyncio) | {"sleep": lambda delay_s: asyncio.sleep(delay_s / 20)})
