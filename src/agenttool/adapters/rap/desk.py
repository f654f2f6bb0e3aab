"""A desk on this machine where results of a few calls come in: for whoever looks at a provider from outside."""

import asyncio
from contextlib import suppress
from urllib.parse import parse_qs

from agenttool.adapters.rap.listen import Listener, Receive, Scope, Send, body_of
from agenttool.adapters.rap.wire import Callback, read_callback
from agenttool.errors import RecordError

_MOST = 1_000_000
_HERE = "127.0.0.1"


class Desk:
    """Takes in whatever is posted, by the name that stands in the query of the URL."""

    def __init__(self) -> None:
        """Take a port."""
        self._came: dict[str, list[Callback | str]] = {}
        self._news = asyncio.Event()
        self._listener = Listener(self, (_HERE, 0))

    @property
    def url(self) -> str:
        """Where it is."""
        return self._listener.url

    def open(self) -> None:
        """Begin to take messages in."""
        self._listener.start()

    async def close(self) -> None:
        """Take no more."""
        await self._listener.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one message in."""
        body = await body_of(receive, _MOST) or b""
        query = scope["query_string"]
        [name] = parse_qs(query.decode() if isinstance(query, bytes) else "").get("check", [""])
        try:
            message: Callback | str = read_callback(body)
        except RecordError as error:
            message = str(error)
        self._came.setdefault(name, []).append(message)
        self._news.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def about(self, name: str) -> tuple[Callback | str, ...]:
        """Give what has come by a name: messages, and of what is none, why not."""
        return tuple(self._came.get(name, ()))

    async def first(self, name: str, within_s: float) -> Callback | str | None:
        """Wait for the first message by a name; none if none came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not self.about(name):
                    self._news.clear()
                    await self._news.wait()
        return next(iter(self.about(name)), None)
