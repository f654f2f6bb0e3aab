"""A proxy that harms what passes through it, by chance and by a seed: one request per connection."""

import asyncio
import random
from contextlib import suppress

FAULTS = ("pass", "delay", "unheard", "lost reply", "twice", "5xx", "heard, then 5xx", "garbage", "stall", "half")


class FaultyProxy:
    """Passes requests on to a port of this machine, and counts what it did to them."""

    def __init__(self, target, seed, *, harm=0.5):
        self.target, self.harm = target, harm
        self.done = dict.fromkeys(FAULTS, 0)
        self._random = random.Random(seed)
        self._server = None

    @property
    def port(self):
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
            async with asyncio.timeout(20):
                request = await _message(reader)
                fault = self._random.choice(FAULTS[1:]) if self._random.random() < self.harm else "pass"
                self.done[fault] += 1
                writer.write(await self._harmed(request, fault))
                await writer.drain()
        writer.close()

    async def _harmed(self, request, fault):  # noqa: PLR0911 -- a return for each fault
        match fault:
            case "delay":
                await asyncio.sleep(self._random.uniform(0, 0.3))
            case "unheard":
                return b""
            case "lost reply":
                await self._pass_on(request)
                return b""
            case "twice":
                await self._pass_on(request)
            case "5xx":
                return b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            case "heard, then 5xx":
                await self._pass_on(request)
                return b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            case "garbage":
                await self._pass_on(request)
                return self._random.randbytes(100)
            case "stall":
                await asyncio.sleep(0.5)
                return b""
            case "half":
                return (await self._pass_on(request))[:20]
        return await self._pass_on(request)

    async def _pass_on(self, request):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        writer.write(request)
        await writer.drain()
        reply = await reader.read(-1)
        writer.close()
        return reply


async def _message(reader):
    """Read one request, and have it answered with a closed connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head[:-4].split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"connection: close", b"", b""]) + await reader.readexactly(length)
