"""A served runtime on loopback in a thread of this process, for tests of its clients."""

import asyncio
import threading
from functools import partial

from agenttool import Media, Runtime, tool
from agenttool.ports.identity import AccessRole
from agenttool.server.app import serve_runtime
from agenttool.server.grants import GrantKind
from agenttool.server.state import ServerOptions

BOUND_S = 60
SCAN = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


@tool(namespace="math", read_only=True, open_world=False)
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(namespace="files", read_only=True, open_world=False)
def scan() -> Media:
    """Return a scan."""
    return Media(SCAN, "image/png")


class Served:
    """A runtime on a port of loopback, in a thread of its own."""

    def __init__(self, serve_app, file=None, port=0):
        self._file, self._port = file, port
        self._serve_app, self._is_ready = serve_app, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self):
        self._thread.start()
        assert self._is_ready.wait(BOUND_S)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join(BOUND_S)

    async def _serve(self):
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        store = "memory:" if self._file is None else f"sqlite:{self._file}"
        opened = Runtime.open(store=store, tools=[add, send, scan], approve="wait")
        async with (
            opened as rt,
            serve_runtime(rt, ServerOptions(), file=self._file) as self._app,
            self._serve_app(self._app, self._port, lifespan="off") as self.url,
        ):
            self._is_ready.set()
            await self._is_over.wait()

    def key(self, subject, *roles):
        add_key = partial(
            self._app.grants.add,
            GrantKind.KEY,
            subject=subject,
            roles=[AccessRole(each) for each in roles],
            created_by="test",
        )
        return asyncio.run_coroutine_threadsafe(add_key(), self._loop).result(BOUND_S)[0]
