"""Discovery of the tools of each server, and the watch over the servers: which of them answer, and since when.

The latest manifest and the state of each server are stored, so that other processes and the next one can show them.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from agenttool.adapters.rap.declare import Toolset
from agenttool.adapters.rap.settings import RapServer
from agenttool.adapters.rap.wire import read_manifest
from agenttool.codec import read_stored, write_own
from agenttool.errors import RecordError, StoreError
from agenttool.http.client import HttpClient, backoff_s
from agenttool.ports.source import SOURCE_STATUS, SourceHost, SourceStatus
from agenttool.ports.stores import DocumentStore
from agenttool.ports.surfacing import ProviderState
from agenttool.records import Part

log = logging.getLogger("agenttool.rap")

WELL_KNOWN = "/.well-known/rap-toolset"
_UNAUTHORIZED = (401, 403)
_TOOLSET = "rap_toolset"

FIRST_ANSWER_S = 5.0
"""How long a runtime that opens waits for the manifests of its servers."""

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
"""The first and the longest delay before a server that does not answer is tried again; an invalid manifest always has
the longest."""

PROBE_S = 15.0
"""The longest time between two checks whether a server that is ready still answers."""


class StoredToolset(Part, frozen=True, kw_only=True):
    """The latest manifest of a server, as it is stored."""

    base_url: str
    document: bytes


async def discover(source: RapServer, client: HttpClient) -> Toolset:
    """Return the manifest of a server; anything wrong with it makes all of its tools unavailable."""
    url = source.base + WELL_KNOWN
    reply = await client.get(url, source.headers("GET", url))
    if not reply.is_accepted:
        reason = reply.fault or f"it answered {reply.status}"
        advice = "check its url" if reply.status not in _UNAUTHORIZED else "check its credential; its log says why"
        fault = f"cannot load the manifest of {source.name!r}: {reason}; {advice}; it is tried again automatically"
        return Toolset(source=source, fault=fault, is_away=reply.is_retryable)
    found = _read_toolset(source, reply.body)
    if found.manifest is None:
        return found
    if source.credential is not None and not source.may_present_to(found.manifest.endpoint):
        log.warning(
            "calls of %r go to another origin, which does not get the credential; add it to presents_to if it may",
            source.name,
        )
    for tool in found.manifest.tools:
        if tool.invalid_hints:
            named = ", ".join(map(repr, tool.invalid_hints))
            log.warning("invalid hints of %r of %r are ignored: %s", tool.name, source.name, named)
    return found


def _read_toolset(source: RapServer, document: bytes) -> Toolset:
    digest = f"sha256:{hashlib.sha256(document).hexdigest()}"
    if source.pin not in (None, digest):
        fault = f"the manifest of {source.name!r} differs from the pinned one; review it, and pin {digest}"
        return Toolset(source=source, fault=fault)
    try:
        return Toolset(source=source, manifest=read_manifest(document), document=document)
    except RecordError as error:
        fault = f"the manifest of {source.name!r} is not valid, so none of its tools is offered: {error}"
        return Toolset(source=source, fault=fault)


class Discovery:
    """The manifests of a runtime's servers, as far as they are loaded, and the states of the servers."""

    _documents: DocumentStore
    _now_ns: Callable[[], int]

    def __init__(self, sources: Iterable[RapServer], clients: Mapping[str, HttpClient]) -> None:
        self._sources = tuple(sources)
        self._clients = clients
        self._toolsets: dict[str, Toolset] = {}
        self._statuses: dict[str, SourceStatus] = {}
        self._suspicions = {each.name: asyncio.Event() for each in self._sources}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """The latest manifest of each server, in configured order."""
        return tuple(self._toolsets[each.name] for each in self._sources if each.name in self._toolsets)

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of each server, in configured order."""
        return tuple(self._statuses[each.name] for each in self._sources if each.name in self._statuses)

    async def discover_all(self, host: SourceHost) -> None:
        """Request every manifest once, concurrently; a server that takes too long counts as away."""
        self._documents, self._now_ns = host.documents, host.now_ns
        await asyncio.gather(*map(self._discover_first, self._sources))

    def start_watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Check in the background whether each server answers; `on_change` is called when a state changes."""
        for source in self._sources:
            watch = self._watch(source, on_change)
            self._tasks.append(asyncio.create_task(watch))  # noqa: TID251 -- `stop` is its parent

    def suspect(self, name: str) -> None:
        """Check a server now, because it did not acknowledge a call."""
        self._suspicions[name].set()

    async def stop(self) -> None:
        """Stop the watch."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _watch(self, source: RapServer, on_change: Callable[[], Awaitable[None]]) -> None:
        suspicion = self._suspicions[source.name]
        while True:
            before = self._statuses[source.name]
            next_ns = before.next_try_at_ns
            with suppress(TimeoutError):
                async with asyncio.timeout(_delay(before) if next_ns is None else (next_ns - self._now_ns()) / 1e9):
                    await suspicion.wait()
            suspicion.clear()
            await (self._probe(source) if before.is_ready else self._discover(source))
            if self._statuses[source.name].state is not before.state:
                await _notify(on_change)
            await self._store_status(source)

    async def _store_status(self, source: RapServer) -> None:
        """Store the status of a server that is not ready, for processes that do not watch it."""
        status = self._statuses[source.name]
        await self._put(SOURCE_STATUS, source, None if status.is_ready else write_own(status))

    async def _discover_first(self, source: RapServer) -> None:
        """Load the manifest of a server, or the stored one if the server is away."""
        try:
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self._discover(source)
        except TimeoutError:
            fault = f"the server {source.name!r} sent no manifest within {FIRST_ANSWER_S:g} s; it is tried again"
            self._update(source, Toolset(source=source, fault=fault, is_away=True))
        found = self._toolsets[source.name]
        if found.is_away:
            manifest = (await self._stored(source)).manifest
            self._toolsets[source.name] = replace(found, manifest=manifest)
        await self._store_status(source)

    async def _discover(self, source: RapServer) -> None:
        found = await discover(source, self._clients[source.name])
        before = self._toolsets.get(source.name)
        self._update(source, found)
        if found.manifest is not None and (before is None or before.document != found.document):
            stored = StoredToolset(base_url=source.base, document=found.document)
            await self._put(_TOOLSET, source, write_own(stored))

    async def _probe(self, source: RapServer) -> None:
        """Check whether a server that is ready still answers; its manifest is not loaded again."""
        reason = await self._clients[source.name].probe(source.base + WELL_KNOWN)
        if reason is not None:
            fault = f"the server {source.name!r} does not answer: {reason}; it is tried again automatically"
            self._update(source, Toolset(source=source, fault=fault, is_away=True))

    def _update(self, source: RapServer, found: Toolset) -> None:
        """Record the outcome of a try; a server that is away keeps its manifest."""
        before = self._statuses.get(source.name)
        state = ProviderState.UNAVAILABLE if found.manifest is None else ProviderState.READY
        state = ProviderState.CONNECTING if found.is_away else state
        status = SourceStatus(source=source.name, state=state, since_ns=self._now_ns(), fault=found.fault)
        if before is not None:
            is_same = before.is_ready is status.is_ready
            status = replace(
                status,
                since_ns=before.since_ns if is_same else status.since_ns,
                tries=1 if before.is_ready else before.tries + 1,
            )
            _log(before, status)
        if not status.is_ready:
            status = replace(status, next_try_at_ns=self._now_ns() + round(_delay(status) * 1e9))
        if found.is_away and source.name in self._toolsets:
            known = self._toolsets[source.name]
            found = replace(found, manifest=known.manifest, document=known.document)
        self._toolsets[source.name], self._statuses[source.name] = found, status

    async def _stored(self, source: RapServer) -> Toolset:
        """Return the stored manifest of a server; none if there is none that the settings accept."""
        body = await self._documents.get(_TOOLSET, source.name)
        stored = read_stored(body, StoredToolset)
        if stored is None or stored.base_url != source.base:
            return Toolset(source=source)
        return _read_toolset(source, stored.document)

    async def _put(self, kind: str, source: RapServer, body: bytes | None) -> None:
        try:
            if body is not None or await self._documents.get(kind, source.name) is not None:
                await self._documents.put(kind, source.name, body)
        except StoreError as error:
            log.error("the state of %r cannot be stored: %s", source.name, error)  # noqa: TRY400 -- no traceback needed


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
    longest = PROBE_S if status.is_ready else MAX_DELAY_S
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
