"""The journal of a runtime: calls, results, stored bytes, events, the export of all records, and retention."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import NamedTuple, cast

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import Entry
from agenttool.catalog.surface_store import SurfaceStore
from agenttool.codec import read, record_digest, write
from agenttool.errors import ConfigError, RecordError
from agenttool.journal.journal import follow
from agenttool.journal.projection import events_of, invocation_of, records_of, result_in
from agenttool.pipeline.acknowledge import store_open_calls
from agenttool.pipeline.call import Core
from agenttool.pipeline.read_back import digest_in
from agenttool.ports.facts import Fact
from agenttool.ports.stores import DurableLog
from agenttool.records import (
    InvocationId,
    Record,
    Ref,
    SurfaceId,
    ToolDeclaration,
    ToolEvent,
    ToolInvocation,
    ToolResult,
    ToolSurface,
    complete_interface,
    replace,
)

READ_AHEAD = 256
"""How many facts are read at a time."""


class RetentionResult(NamedTuple):
    """The number of deleted payloads, and the position up to which facts were deleted."""

    payloads: int
    facts_up_to: int


class JournalView:
    """The journal of a runtime: `rt.journal`. Reads calls, results, events and stored bytes, and deletes old ones."""

    def __init__(self, core: Core, catalog: Catalog, surfaces: SurfaceStore) -> None:
        """Take the core with the log, and the tools and surfaces that an export contains."""
        self._core = core
        self._catalog = catalog
        self._surfaces = surfaces

    async def invocation(self, invocation_id: str) -> ToolInvocation | None:
        """Return the current state of a call, once that is stored; None if the call is unknown.

        Raises:
            StoreError: it cannot be stored.
        """
        log = self._core.journal.log
        invocation = invocation_of(log.facts_of(InvocationId(invocation_id)))
        if invocation is not None and log.durable:
            await log.settle()
        return invocation

    async def checkpoint(self, invocation_ids: Iterable[str]) -> None:
        """Return once the open calls with these ids are stored, so that none is lost if the process dies.

        If this process dies or closes, the next one on the store runs those that wait for their turn or for others of
        their batch. Without this, such calls end with their process.

        Raises:
            StoreError: they cannot be stored.
        """
        await store_open_calls(self._core, map(InvocationId, invocation_ids))

    async def result(self, invocation_id: str) -> ToolResult | None:
        """Return the stored result of a call, in whichever process it ended; None if there is none yet."""
        return result_in(self._core.journal.log.stored_facts_of(InvocationId(invocation_id)))

    async def payload(self, payload: str | Ref, start: int = 0, length: int | None = None) -> bytes | None:
        """Return stored bytes by their digest, id or ref, or a range of them; None if they are not stored (any more).

        Raises:
            StoreError: they cannot be read, or are not the ones that were stored.
        """
        digest = digest_in(payload)
        return None if digest is None else await self._core.payloads.store.get(digest, start=start, length=length)

    async def events(self, after: int = 0) -> AsyncIterator[tuple[int, ToolEvent]]:
        """Follow the log from any point, until the runtime is closed; -1 is the end.

        Each event has the position to continue from.

        Raises:
            ConfigError: it is no position.
        """
        if type(after) is not int:
            raise ConfigError(f"after must be a position that an event came with, got {after!r}; begin with 0")
        async with aclosing(follow(self._core.journal, after)) as events:
            async for position, event in events:
                yield position, event

    async def export(self) -> AsyncIterator[Record]:
        """Yield every record of this moment: declarations with profiles, surfaces, and calls with all their records."""
        surfaces = [each.record for each in self._surfaces]
        for record in records_in(self._core, tuple(self._catalog), surfaces):
            yield record

    async def retain(self, *, payloads: timedelta | None = None, journal: timedelta | None = None) -> RetentionResult:
        """Delete stored payloads and facts that are older than given; without an age, nothing of that kind is deleted.

        A result whose bytes are deleted still has their size, their digest, and the reason why they were stored. Facts
        are deleted from the oldest on, up to the first of an open call, and the chain continues from an anchor.

        Raises:
            ConfigError: an age is not a length of time.
            StoreError: a disk failed.
        """
        core, now_ns = self._core, self._core.clock.now_ns()
        stored_ns, facts_ns = _nanoseconds("payloads", payloads), _nanoseconds("journal", journal)
        count = 0 if stored_ns is None else await core.payloads.store.expire(now_ns - stored_ns)
        if facts_ns is None or not core.durable:
            return RetentionResult(count, 0)
        anchor = await cast("DurableLog", core.journal.log).delete_before(now_ns - facts_ns)
        return RetentionResult(count, anchor.position)


def records_in(core: Core, entries: Iterable[Entry], surfaces: Iterable[ToolSurface]) -> Iterator[Record]:
    """Yield every record once: declarations with profiles, surfaces, and calls with their records.

    Args:
        core: contains the log.
        entries: the tools.
        surfaces: the current ones; the log contains older ones.
    """
    log = core.journal.log
    end = log.last
    for entry in entries:
        yield _digested(entry.tool.declaration)
        yield complete_interface(entry.tool.interface)
        yield entry.tool.execution_profile
        yield entry.tool.permission_profile
    seen: set[SurfaceId | InvocationId] = set()
    for surface in surfaces:
        seen.add(surface.surface_id)
        yield surface
    without_call: list[Record] = []
    after = 0
    while after < end and (facts := log.read(after, min(READ_AHEAD, end - after))):
        for position, fact in facts:
            if position > end:
                return
            yield from events_of(fact, position=position)
            if fact.invocation_id is None:
                yield from _records_without_call(fact, seen, without_call)
            elif fact.invocation_id not in seen:
                seen.add(fact.invocation_id)
                yield from _all_of(core, fact.invocation_id)
        after = facts[-1][0]


def _records_without_call(
    fact: Fact, seen: set[SurfaceId | InvocationId], without_call: list[Record]
) -> Iterator[Record]:
    """Yield the records of a fact that belongs to no call, each once."""
    for record in records_of((fact,)):
        if isinstance(record, ToolSurface):
            if record.surface_id not in seen:
                seen.add(record.surface_id)
                yield record
        elif record not in without_call:
            without_call.append(record)
            yield record


def _all_of(core: Core, invocation_id: InvocationId) -> Iterator[Record]:
    log = core.journal.log
    facts = log.stored_facts_of(invocation_id)  # only facts that readers of the log see, too
    call = invocation_of(facts)
    if call is not None:
        yield call
    for record in records_of(facts):
        yield record if log.durable else read(write(record), type(record))  # a log in memory has the records themselves


def _digested(declaration: ToolDeclaration) -> ToolDeclaration:
    """Return a declaration with its digest; one with a number beyond 2^53 has no canonical form, and so none."""
    with suppress(RecordError):
        return replace(declaration, digest=record_digest(declaration))
    return replace(declaration, digest=None)


def _nanoseconds(what: str, given: timedelta | None) -> int | None:
    if given is None:
        return None
    if not isinstance(cast("object", given), timedelta) or given < timedelta(0):
        raise ConfigError(f"{what} must be a length of time, got {given!r}; pass a timedelta of 0 or more")
    return round(given.total_seconds() * 1e9)
