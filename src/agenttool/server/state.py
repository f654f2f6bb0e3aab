"""The state that the handlers of a server share: tenants, credentials, options and open waits."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, cast

from agenttool.errors import StoreError
from agenttool.ports.quota import CallerQuota
from agenttool.records import JsonObject
from agenttool.scheduler.timeouts import Deadlines
from agenttool.server.access_messages import ServerInfo
from agenttool.server.authentication import Authenticator, Identity, ServerOptions, unauthorized
from agenttool.server.event_hub import CHECK_S
from agenttool.server.read_pool import ReadPool
from agenttool.server.tenants import Tenants


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
        """Why some settings are not in force, for operators; None if all are."""
        if self.fault is not None:
            return f"the changed settings are not applied, and those before stay in force: {self.fault}"
        if self.needs_restart:
            return f"some changed settings need a restart of the server: {', '.join(self.needs_restart)}"
        return None


DRAIN_S = 3.0
"""How long a server that stops waits for the calls of its open requests."""


class ServerState:
    """The state that all requests of a server share.

    Attributes:
        info: what clients may know about the server.
        settings: whether the settings files are in force.
        document: the OpenAPI document.
        draining: set once the server stops; handlers that wait return then.
        counts: how many responses had each status.
        streams: the event streams of each key, session or token.
        reads: the threads in which requests read the journal.
    """

    def __init__(
        self,
        tenants: Tenants,
        authenticator: Authenticator,
        options: ServerOptions,
        info: ServerInfo,
        document: JsonObject,
        settings: SettingsState | None = None,
    ) -> None:
        """Take the open tenants; no request waits, and no stream is open."""
        self.tenants = tenants
        self.authenticator = authenticator
        self.options = options
        self.info = info
        self.document = document
        self.settings = settings or SettingsState()
        self.draining = asyncio.Event()
        self.counts: Counter[int] = Counter()
        self.streams = CallerQuota("event streams")
        self.reads = ReadPool()
        self._deadlines = Deadlines(asyncio.get_running_loop())
        self._limits: set[RequestTimeLimit] = set()

    def drain(self) -> None:
        """End all event streams, and after `DRAIN_S` the requests that wait for a call."""
        self.draining.set()
        latest = self._deadlines.now() + DRAIN_S
        for each in self._limits:
            each.end_before(latest)
        for tenant in self.tenants.opened():
            tenant.events.close("draining")

    def within(self, seconds: float, identity: Identity) -> "RequestTimeLimit":
        """Return a context that ends after some seconds, or `DRAIN_S` after the server begins to stop.

        It raises a `Problem` with the status 401 if the credentials of the request are revoked meanwhile.
        """
        return RequestTimeLimit(self._deadlines, self._limits, 0 if self.draining.is_set() else seconds, identity)

    async def end_revoked_waits(self) -> None:
        """End waiting requests whose credentials are revoked or expire; runs until it is canceled."""
        while True:
            await asyncio.sleep(CHECK_S)
            # Requests of one key share its identity while it is cached.
            for identity in {id(each.identity): each.identity for each in self._limits}.values():
                with suppress(StoreError):
                    if not await self.authenticator.is_still_valid(identity):
                        for each in [each for each in self._limits if each.identity is identity]:
                            each.revoke()


class RequestTimeLimit:
    """The context of `ServerState.within`: `asyncio.timeout`, but all contexts share one timer of the event loop."""

    def __init__(
        self, deadlines: Deadlines, limits: "set[RequestTimeLimit]", seconds: float, identity: Identity
    ) -> None:
        self._deadlines, self._limits, self._seconds = deadlines, limits, seconds
        self.identity = identity
        self.is_expired = self._is_revoked = False
        self._is_final = not seconds

    def __enter__(self) -> Self:
        """Start the time."""
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._canceled_before = self._task.cancelling()
        self._deadline = self._deadlines.arm(self._deadlines.now() + self._seconds, self._expire)
        self._limits.add(self)
        return self

    def end_after(self, seconds: float) -> None:
        """Set the time that is left, unless `end_before` has set it."""
        if not self._is_final:
            self._deadlines.move(self._deadline, self._deadlines.now() + seconds)

    def end_before(self, latest: float) -> None:
        """Shorten the time; it cannot be extended any more."""
        self._is_final = True
        self._deadlines.move(self._deadline, min(self._deadline.at, latest))

    def revoke(self) -> None:
        """End it now, with status 401."""
        self._is_revoked = True
        self.end_before(0)

    def _expire(self) -> None:
        self.is_expired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """End the time; suppress a cancellation by the timer, and no other one.

        Raises:
            Problem: 401, because the credentials were revoked.
        """
        self._limits.discard(self)
        self._deadlines.cancel(self._deadline)
        is_own = self.is_expired and self._task.uncancel() <= self._canceled_before and kind is asyncio.CancelledError
        if is_own and self._is_revoked:
            raise unauthorized("the credentials were revoked or have expired; use others") from None
        return is_own
