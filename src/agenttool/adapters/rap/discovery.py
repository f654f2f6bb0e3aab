"""Discovery of the tools of each server: once at the start, and again for servers that did not answer."""

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace

from agenttool.adapters.rap.declare import Toolset
from agenttool.adapters.rap.http_client import HttpClient, backoff_s
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.wire import read_manifest
from agenttool.errors import RecordError, StoreError
from agenttool.ports.source import SourceStatus
from agenttool.ports.surfacing import ProviderState

log = logging.getLogger("agenttool.rap")

WELL_KNOWN = "/.well-known/rap-toolset"
_UNAUTHORIZED = (401, 403)

FIRST_ANSWER_S = 5.0
"""How long a runtime that opens waits for the manifests of its servers."""

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
"""The first and the longest delay before a server that does not answer is tried again; an invalid manifest always has
the longest."""


async def discover(source: RapSource, client: HttpClient) -> Toolset:
    """Return the manifest of a server; anything wrong with it makes all of its tools unavailable."""
    url = source.base + WELL_KNOWN
    reply = await client.get(url, source.headers("GET", url))
    if not reply.is_accepted:
        reason = reply.fault or f"it answered {reply.status}"
        advice = "check its url" if reply.status not in _UNAUTHORIZED else "check its credential; its log says why"
        fault = f"cannot load the manifest of {source.name!r}: {reason}; {advice}; it is tried again automatically"
        return Toolset(source=source, fault=fault, is_away=reply.is_retryable)
    digest = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
    if source.pin not in (None, digest):
        fault = f"the manifest of {source.name!r} differs from the pinned one; review it, and pin {digest}"
        return Toolset(source=source, fault=fault)
    try:
        manifest = read_manifest(reply.body)
    except RecordError as error:
        fault = f"the manifest of {source.name!r} is not valid, so none of its tools is offered: {error}"
        return Toolset(source=source, fault=fault)
    if source.credential is not None and not source.may_present_to(manifest.endpoint):
        log.warning(
            "calls of %r go to another origin, which does not get the credential; add it to presents_to if it may",
            source.name,
        )
    for tool in manifest.tools:
        if tool.invalid_hints:
            named = ", ".join(map(repr, tool.invalid_hints))
            log.warning("invalid hints of %r of %r are ignored: %s", tool.name, source.name, named)
    return Toolset(source=source, manifest=manifest)


class Discovery:
    """The manifests of a runtime's servers, as far as they are loaded."""

    def __init__(
        self, sources: Iterable[RapSource], clients: Mapping[str, HttpClient], now_ns: Callable[[], int]
    ) -> None:
        """Take the servers, the HTTP client of each, and the clock."""
        self._sources = tuple(sources)
        self._clients = clients
        self._now_ns = now_ns
        self._toolsets: dict[str, Toolset] = {}
        self._statuses: dict[str, SourceStatus] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """The latest manifest of each server, in configured order."""
        return tuple(self._toolsets[each.name] for each in self._sources)

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of each server, in configured order."""
        return tuple(self._statuses[each.name] for each in self._sources)

    async def discover_all(self) -> None:
        """Request every manifest once, concurrently; a server that takes too long counts as away."""
        await asyncio.gather(*map(self._discover_first, self._sources))

    def start_retries(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Try servers that are not ready again in the background; `on_change` is called when a state changes."""
        for source in self._sources:
            if not self._statuses[source.name].is_ready:
                retries = self._retry(source, self._schedule(source), on_change)
                self._tasks.append(asyncio.create_task(retries))  # noqa: TID251 -- `stop` is its parent

    async def stop(self) -> None:
        """Stop the retries."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _retry(self, source: RapSource, delay_s: float, on_change: Callable[[], Awaitable[None]]) -> None:
        while not (before := self._statuses[source.name]).is_ready:
            await asyncio.sleep(delay_s)
            await self._discover(source)
            delay_s = self._schedule(source)
            if self._statuses[source.name].state is not before.state:
                await _notify(on_change)

    def _schedule(self, source: RapSource) -> float:
        """Return the delay before the next try, and record its time in the status."""
        status = self._statuses[source.name]
        delay_s = _delay(status)
        if not status.is_ready:
            next_ns = self._now_ns() + round(delay_s * 1e9)
            self._statuses[source.name] = replace(status, next_try_at_ns=next_ns)
        return delay_s

    async def _discover_first(self, source: RapSource) -> None:
        try:
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self._discover(source)
        except TimeoutError:
            fault = f"the server {source.name!r} sent no manifest within {FIRST_ANSWER_S:g} s; it is tried again"
            self._update(source, Toolset(source=source, fault=fault, is_away=True))

    async def _discover(self, source: RapSource) -> None:
        self._update(source, await discover(source, self._clients[source.name]))

    def _update(self, source: RapSource, found: Toolset) -> None:
        before = self._statuses.get(source.name)
        state = ProviderState.CONNECTING if found.is_away else ProviderState.UNAVAILABLE
        state = state if found.manifest is None else ProviderState.READY
        status = SourceStatus(source=source.name, state=state, since_ns=self._now_ns(), fault=found.fault)
        if before is not None:
            since_ns = before.since_ns if before.is_ready is status.is_ready else status.since_ns
            status = replace(status, since_ns=since_ns, tries=before.tries + 1)
            _log(before, status)
        self._toolsets[source.name], self._statuses[source.name] = found, status


async def _notify(on_change: Callable[[], Awaitable[None]]) -> None:
    """Call `on_change` until the store accepts the change."""
    while True:
        try:
            return await on_change()
        except StoreError as error:
            log.error("a change of the offered tools cannot be stored: %s", error)  # noqa: TRY400 -- no traceback needed
            await asyncio.sleep(MAX_DELAY_S)


def _delay(status: SourceStatus) -> float:
    """Return a delay with jitter, so that many runtimes do not try one server at the same time."""
    longest = MAX_DELAY_S
    if status.state is ProviderState.CONNECTING:
        longest = backoff_s(status.tries, first_s=FIRST_DELAY_S, max_s=MAX_DELAY_S)
    return random.uniform(longest / 2, longest)  # noqa: S311 -- jitter, not a secret


def _log(before: SourceStatus, status: SourceStatus) -> None:
    """Log that a server became ready, or still is not: at the second try, the fourth, the eighth, and so on.

    A change of state is logged by the caller of `on_change`.
    """
    if status.is_ready:
        log.warning("the server %r is ready after %d tries", status.source, status.tries)
    elif status.state is before.state and (status.fault != before.fault or status.tries.bit_count() == 1):
        log.warning("%s (%d tries)", status.fault, status.tries)
