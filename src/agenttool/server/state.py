"""What the handlers of a server share: its tenants, its identities, its options, and whether it stops."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from agenttool.errors import StoreError
from agenttool.records import JsonObject
from agenttool.scheduler.timeouts import Deadlines
from agenttool.server.access_messages import (
    ServerInfo,
)
from agenttool.server.authentication import Authenticator, Identified, unauthorized
from agenttool.server.event_hub import CHECK_S
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
        self._deadlines = Deadlines(asyncio.get_running_loop())
        self._limits: set[_TimeLimited] = set()

    def drain(self) -> None:
        """End all event streams, and after `DRAIN_S` the requests that wait for a call."""
        self.draining.set()
        latest = self._deadlines.now() + DRAIN_S
        for each in self._limits:
            each.end_before(latest)
        for space in self.tenants.opened():
            space.events.close("draining")

    def within(self, seconds: float, identified: Identified) -> "_TimeLimited":
        """Wait for what happens in this context; leave it after some seconds, or `DRAIN_S` once the server stops.

        It raises a `Problem` with the status 401 if the credentials of the request were revoked meanwhile.
        """
        return _TimeLimited(self._deadlines, self._limits, 0 if self.draining.is_set() else seconds, identified)

    async def end_revoked_waits(self) -> None:
        """End the requests that wait once their credentials are revoked or expire, until this is canceled."""
        while True:
            await asyncio.sleep(CHECK_S)
            # Requests of one key share its identity while it is cached.
            for identified in {id(each.identified): each.identified for each in self._limits}.values():
                with suppress(StoreError):
                    if not await self.authenticator.is_still_valid(identified):
                        for each in [each for each in self._limits if each.identified is identified]:
                            each.revoke()


class _TimeLimited:
    """The context of `ServerState.within`. It works as `asyncio.timeout`, but all share one timer of the event loop."""

    __slots__ = (
        "_canceled_before",
        "_deadline",
        "_deadlines",
        "_is_expired",
        "_is_revoked",
        "_limits",
        "_seconds",
        "_task",
        "identified",
    )

    def __init__(
        self, deadlines: Deadlines, limits: "set[_TimeLimited]", seconds: float, identified: Identified
    ) -> None:
        self._deadlines, self._limits, self._seconds = deadlines, limits, seconds
        self.identified = identified
        self._is_expired = self._is_revoked = False

    def __enter__(self) -> None:
        """Start the time."""
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._canceled_before = self._task.cancelling()
        self._deadline = self._deadlines.arm(self._deadlines.now() + self._seconds, self._expire)
        self._limits.add(self)

    def end_before(self, latest: float) -> None:
        """Shorten the time."""
        self._deadlines.move(self._deadline, min(self._deadline.at, latest))

    def revoke(self) -> None:
        """End it now, with status 401."""
        self._is_revoked = True
        self.end_before(0)

    def _expire(self) -> None:
        self._is_expired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """End the time; suppress a cancellation by the timer, and no other one.

        Raises:
            Problem: 401, because the credentials were revoked.
        """
        self._limits.discard(self)
        self._deadlines.cancel(self._deadline)
        is_own = self._is_expired and self._task.uncancel() <= self._canceled_before and kind is asyncio.CancelledError
        if is_own and self._is_revoked:
            raise unauthorized("the credentials were revoked or have expired; use others") from None
        return is_own
