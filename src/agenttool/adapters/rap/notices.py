"""Notices to every tool server: sent once, all at the same time, and never waited for."""

import asyncio
import logging
from collections.abc import Iterable

from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.wire import Message, write

log = logging.getLogger("agenttool.rap")


class Notices:
    """Tells servers that a call is given up or a thread is closed; nothing depends on their hearing it."""

    def __init__(self) -> None:
        """Begin without servers."""
        self._servers: list[tuple[RapSource, Courier]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    def add(self, source: RapSource, courier: Courier) -> None:
        """Tell this server, too, from now on."""
        self._servers.append((source, courier))

    def send(self, path: str, message: Message) -> None:
        """Post a notice to that path of every server; returns at once."""
        body = write(message)
        for source, courier in self._servers:
            task = asyncio.create_task(_post(source, courier, path, body))  # noqa: TID251 -- `close` is its parent
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Give notices that are under way a moment, and end them."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=1.0)
            _cancel(late)


async def _post(source: RapSource, courier: Courier, path: str, body: bytes) -> None:
    url = source.base + path
    reply = await courier.post(url, body, source.headers("POST", url, body))
    if not reply.is_accepted:
        log.info("the server %r did not take the notice %s: %s", source.name, path, reply.fault or reply.status)


def _cancel(tasks: Iterable["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
