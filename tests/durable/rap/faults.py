"""A line between two processes that harms what passes, by chance and by a seed: one request per connection."""

import asyncio
import random
from contextlib import suppress

FAULTS = (
    "pass",
    "delay",
    "unheard",
    "lost reply",
    "twice",
    "again later",
    "overtaken",
    "5xx",
    "received, then 5xx",
    "garbage",
    "stall",
    "half",
)
BUSY = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class FaultyLine:
    """Passes requests on to a port of this machine, and counts what it did to them."""

    def __init__(self, target, seed, *, harm=0.3):
        self.target, self.harm = target, harm
        self.is_stormy = False
        self.done = dict.fromkeys((*FAULTS, "storm"), 0)
        self._random = random.Random(seed)
        self._server = None
        self._strays = set()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for stray in self._strays:
            stray.cancel()
        await asyncio.gather(*self._strays, return_exceptions=True)

    async def _serve(self, reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
            async with asyncio.timeout(20):
                request = await _message(reader)
                fault = self._random.choice(FAULTS[1:]) if self._random.random() < self.harm else "pass"
                fault = "storm" if self.is_stormy else fault
                self.done[fault] += 1
                writer.write(await self._harmed(request, fault))
                await writer.drain()
        writer.close()

    async def _harmed(self, request, fault):
        """Pass a request on, unless it gets lost, and give the reply that its sender sees."""
        if fault in ("again later", "overtaken"):
            self._stray(request)
        if fault in ("delay", "stall"):
            await asyncio.sleep(self._random.uniform(0, 0.3))
        if fault in ("unheard", "stall"):
            return b""
        if fault in ("5xx", "storm", "overtaken"):
            return BUSY
        if fault == "twice":
            await self._pass_on(request)
        reply = await self._pass_on(request)
        seen = {
            "lost reply": b"",
            "received, then 5xx": BUSY,
            "half": reply[:20],
            "garbage": self._random.randbytes(100),
        }
        return seen.get(fault, reply)

    def _stray(self, request):
        """Let a request arrive when others have gone before it."""
        stray = asyncio.ensure_future(self._later(request))
        self._strays.add(stray)
        stray.add_done_callback(self._strays.discard)

    async def _later(self, request):
        await asyncio.sleep(self._random.uniform(0, 0.4))
        with suppress(OSError):
            await self._pass_on(request)

    async def _pass_on(self, request):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            writer.write(request)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


async def _message(reader):
    """Read one request, and have it answered with a closed connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head[:-4].split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    stored = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*stored, b"connection: close", b"", b""]) + await reader.readexactly(length)
