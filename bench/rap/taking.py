"""A program that is the least RAP server there can be: it acknowledges every call at once, and never answers one.

It remembers the first call, and one of every thousand after it; asked for `/calls`, it gives what it remembers.
"""

import asyncio
import json
from typing import cast

import httptools

from bench.rap.program import say

EVERY = 1000
_TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_MANIFEST = {"name": "far", "tools": [{"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}]}


class Taking:
    """What all connections share."""

    def __init__(self) -> None:
        """Begin with no calls."""
        self.port = self.taken = 0
        self.remembered: list[object] = []

    def answer(self, method: bytes, path: bytes, body: bytes) -> bytes:
        """Answer a request."""
        if method == b"POST":
            if not self.taken % EVERY:
                self.remembered.append(json.loads(body))
            self.taken += 1
            return _TAKEN
        if path == b"/calls":
            return _document(self.remembered)
        return _document({**_MANIFEST, "endpoint": f"http://127.0.0.1:{self.port}/invoke"})


def _document(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class _Connection(asyncio.Protocol):
    def __init__(self, taking: Taking) -> None:
        self._taking = taking
        self._parser = httptools.HttpRequestParser(self)
        self._path = self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path, self._body = url, b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._transport.write(self._taking.answer(self._parser.get_method(), self._path, self._body))


async def main() -> None:
    """Serve until killed, and tell the port."""
    taking = Taking()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(taking), "127.0.0.1", 0, backlog=2048)
    taking.port = server.sockets[0].getsockname()[1]
    say(taking.port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
