"""Discovery of the tools of each server, and the watch over the servers: which of them answer, and since when.

The latest manifest and the state of each server are stored, so that other processes and the next one can show them.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from agenttool.adapters.rap.settings import RapServer
from agenttool.adapters.rap.subscriptions import RESERVED
from agenttool.adapters.rap.wire import Manifest, ToolDefinition, read_manifest
from agenttool.codec import read_stored, write_own
from agenttool.errors import RecordError, StoreError
from agenttool.http.client import HttpClient, backoff_s
from agenttool.http.ssrf import SsrfPolicy
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The manifest of a server, or why there is none.

    Attributes:
        manifest: of a server that is away, the latest one that it sent.
        document: the manifest as the server sent it.
        is_away: whether the server did not answer, so that a later try may succeed.
        withheld: tool names that are reserved or that another toolset uses; these tools are not offered.
    """

    source: RapServer
    manifest: Manifest | None = None
    document: bytes = field(default=b"", repr=False)
    fault: str | None = None
    is_away: bool = False
    withheld: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools in the manifest."""
        return () if self.manifest is None else tuple(tool.name for tool in self.manifest.tools)

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The server's tools, offered or not, except those with reserved names."""
        tools = () if self.manifest is None else self.manifest.tools
        return tuple(tool for tool in tools if tool.name not in RESERVED)


def withhold_clashes(toolsets: Iterable[Toolset], offered: Mapping[str, str]) -> tuple[Toolset, ...]:
    """Return the toolsets with every reserved name, and every name that two of them use, withheld.

    A source that offers a name already keeps it as long as the runtime is open: a server that answers later cannot
    take away a tool that is in use.

    Args:
        toolsets: the manifests known by now.
        offered: the names that are offered already, and by which source.
    """
    found = tuple(toolsets)
    owners: dict[str, list[str]] = {}
    for each in found:
        for name in each.names:
            owners.setdefault(name, []).append(each.source.name)
    return tuple(_withhold(each, owners, offered) for each in found)


def _withhold(toolset: Toolset, owners: Mapping[str, list[str]], offered: Mapping[str, str]) -> Toolset:
    own = toolset.source.name
    reasons = {name: _withheld_reason(name, own, owners[name], offered.get(name)) for name in sorted(toolset.names)}
    withheld = {name: reason for name, reason in reasons.items() if reason}
    if not withheld:
        return toolset
    listed = "; ".join(f"{name!r}, because {reason}" for name, reason in withheld.items())
    return replace(toolset, withheld=frozenset(withheld), fault=f"tools of {own!r} cannot be offered: {listed}")


def _withheld_reason(name: str, source: str, owners: Iterable[str], holder: str | None) -> str:
    """Return why a source does not offer a name; empty if it does. The holder is the source that offers it already."""
    others = sorted({each for each in owners if each != source})
    if name in RESERVED:
        return "that name is reserved"
    if not others or holder == source:
        return ""
    if holder is not None:
        return f"{holder!r} offers that name already, until the runtime is opened again; rename one of them"
    return f"{' and '.join(map(repr, others))} has that name, too, so no source offers it; rename one of them"


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


class WatchedServer:
    """One server: its client, its latest manifest, and its state."""

    _documents: DocumentStore
    _now_ns: Callable[[], int]

    def __init__(self, source: RapServer) -> None:
        self.source = source
        # A server that is found over TLS must stay on TLS.
        self.policy = SsrfPolicy.parse(source.allow, https_only=source.url.startswith("https://"))
        self.client = HttpClient(self.policy)
        self.toolset: Toolset = Toolset(source=source)
        self.status = SourceStatus(source=source.name, state=ProviderState.CONNECTING, tries=0)
        self.suspicion = asyncio.Event()
        """Set to check the server now, because it did not acknowledge a call."""

    async def discover_first(self, host: SourceHost) -> None:
        """Load the manifest, or the stored one if the server is away, as it also is if it takes too long."""
        self._documents, self._now_ns = host.documents, host.now_ns
        try:
            async with asyncio.timeout(FIRST_ANSWER_S):
                await self._discover()
        except TimeoutError:
            self._note_away(f"sent no manifest within {FIRST_ANSWER_S:g} s; it is tried again")
        if self.toolset.is_away:
            stored = read_stored(await self._documents.get(_TOOLSET, self.source.name), StoredToolset)
            if stored is not None and stored.base_url == self.source.base:
                self.toolset = replace(self.toolset, manifest=_read_toolset(self.source, stored.document).manifest)
        await self._store_status()

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Check again and again whether the server answers; `on_change` is called when its state changes."""
        while True:
            before = self.status
            next_ns = before.next_try_at_ns
            with suppress(TimeoutError):
                async with asyncio.timeout(_delay(before) if next_ns is None else (next_ns - self._now_ns()) / 1e9):
                    await self.suspicion.wait()
            self.suspicion.clear()
            await (self._probe() if before.is_ready else self._discover())
            if self.status.state is not before.state:
                await _notify(on_change)
            await self._store_status()

    async def _store_status(self) -> None:
        """Store the status of a server that is not ready, for processes that do not watch it."""
        await self._put(SOURCE_STATUS, None if self.status.is_ready else write_own(self.status))

    async def _discover(self) -> None:
        found, before = await discover(self.source, self.client), self.toolset
        self._update(found)
        if found.manifest is not None and before.document != found.document:
            stored = StoredToolset(base_url=self.source.base, document=found.document)
            await self._put(_TOOLSET, write_own(stored))

    async def _probe(self) -> None:
        """Check whether a server that is ready still answers; its manifest is not loaded again."""
        reason = await self.client.probe(self.source.base + WELL_KNOWN)
        if reason is not None:
            self._note_away(f"does not answer: {reason}; it is tried again automatically")

    def _note_away(self, what: str) -> None:
        fault = f"the server {self.source.name!r} {what}"
        self._update(Toolset(source=self.source, fault=fault, is_away=True))

    def _update(self, found: Toolset) -> None:
        """Record the outcome of a try; a server that is away keeps its manifest."""
        before, now_ns = self.status, self._now_ns()
        state = ProviderState.UNAVAILABLE if found.manifest is None else ProviderState.READY
        state = ProviderState.CONNECTING if found.is_away else state
        is_same = before.tries > 0 and before.is_ready is (state is ProviderState.READY)
        status = SourceStatus(
            source=self.source.name,
            state=state,
            fault=found.fault,
            since_ns=before.since_ns if is_same else now_ns,
            tries=1 if before.is_ready else before.tries + 1,
        )
        if before.tries:
            _log(before, status)
        if not status.is_ready:
            status = replace(status, next_try_at_ns=now_ns + round(_delay(status) * 1e9))
        if found.is_away:
            found = replace(found, manifest=self.toolset.manifest, document=self.toolset.document)
        self.toolset, self.status = found, status

    async def _put(self, kind: str, body: bytes | None) -> None:
        name = self.source.name
        try:
            if body is not None or await self._documents.get(kind, name) is not None:
                await self._documents.put(kind, name, body)
        except StoreError as error:
            log.error("the state of %r cannot be stored: %s", name, error)  # noqa: TRY400 -- no traceback needed


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
