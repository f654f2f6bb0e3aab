"""What the handlers of a server share: its tenants, its identities, its options, and whether it stops."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agenttool.records import JsonObject
from agenttool.server.access_messages import (
    ServerInfo,
)
from agenttool.server.authentication import Authenticator
from agenttool.server.tenants import Tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """The settings of a server.

    Attributes:
        origins: the origins of web pages that may send requests, besides the console.
        max_requests_per_s: how many requests of one identity are accepted; None for no limit.
    """

    info: ServerInfo
    origins: frozenset[str] = frozenset()
    max_requests_per_s: float | None = None


@dataclass(slots=True)
class SettingsState:
    """Whether the settings files, as they are now, are in force.

    Attributes:
        fault: why the changed settings are not applied; None if they are in force.
        needs_restart: the changed settings that only a new process applies.
    """

    fault: str | None = None
    needs_restart: tuple[str, ...] = ()

    @property
    def notice(self) -> str | None:
        """What an operator has to do about the settings; None if all of them are in force."""
        if self.fault is not None:
            return f"the changed settings are not applied, and those before stay in force: {self.fault}"
        if self.needs_restart:
            return f"some changed settings need a restart of the server: {', '.join(self.needs_restart)}"
        return None


DRAIN_S = 3.0
"""So long a server that stops waits for the calls of its open requests."""


class ServerState:
    """The state of a server.

    Attributes:
        settings: whether the settings files are in force.
        document: the OpenAPI document.
        draining: set once the server stops; handlers that wait return then.
        counts: how many responses had each status.
        streams: how many event streams each identity has.
    """

    def __init__(
        self,
        tenants: Tenants,
        authenticator: Authenticator,
        options: GatewayOptions,
        document: JsonObject,
        settings: SettingsState | None = None,
    ) -> None:
        """Take the open tenants."""
        self.settings = settings or SettingsState()
        self.tenants = tenants
        self.authenticator = authenticator
        self.options = options
        self.document = document
        self.draining = asyncio.Event()
        self.counts: Counter[int] = Counter()
        self.streams: Counter[str] = Counter()
        self._timers: set[asyncio.Timeout] = set()

    def drain(self) -> None:
        """End all event streams, and after `DRAIN_S` the requests that wait for a call."""
        self.draining.set()
        latest = asyncio.get_running_loop().time() + DRAIN_S
        for timer in self._timers:
            timer.reschedule(min(latest, timer.when() or latest))
        for space in self.tenants.opened():
            space.events.close("draining")

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncGenerator[None]:
        """Wait for what happens in this context, but not longer than some seconds, or `DRAIN_S` once the server stops.

        Raises:
            TimeoutError: it was not done by then.
        """
        async with asyncio.timeout(0 if self.draining.is_set() else seconds) as timer:
            self._timers.add(timer)
            try:
                yield
            finally:
                self._timers.discard(timer)
