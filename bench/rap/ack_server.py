"""A minimal RAP server as a program: it acknowledges every call at once and never sends a result.

It stores the first call and every thousandth after it, and returns them at `/calls`.
"""

import asyncio
import json
from typing import cast

import httptools

from bench.rap.child_process import reply

EVERY = 1000
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_MANIFEST = {"name": "far", "tools": [{"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}]}


class AckServer:
    """State shared by all connections."""

    def __init__(self) -> None:
        """Start without calls."""
        self.port = self.received = 0
        self.stored: list[object] = []

    def answer(self, method: bytes, path: bytes, body: bytes) -> bytes:
        """Answer a request."""
        if method == b"POST":
            if not self.received % EVERY:
                self.stored.append(json.loads(body))
            self.received += 1
            return _OK
        if path == b"/calls":
            return _document(self.stored)
        return _document({**_MANIFEST, "endpoint": f"http://127.0.0.1:{self.port}/invoke"})


def _document(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class _Connection(asyncio.Protocol):
    def __init__(self, state: AckServer) -> None:
        self._state = state
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
        self._transport.write(self._state.answer(self._parser.get_method(), self._path, self._body))


async def main() -> None:
    """Print the port, and serve until killed."""
    state = AckServer()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(state), "127.0.0.1", 0, backlog=2048)
    state.port = server.sockets[0].getsockname()[1]
    reply(state.port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
