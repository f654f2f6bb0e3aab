"""The journal of a runtime: calls, results, stored bytes, events, the export of all records, and retention."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import NamedTuple, cast

from agenttool.agent.builtin_tools import digest_in
from agenttool.call.call import Call, Core
from agenttool.call.checkpoint import CheckpointKind, save_checkpoint, save_running_checkpoint
from agenttool.call.phases.input import REDACT_ALL_VALUES, find_tool
from agenttool.call.tool import Tool
from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import Entry
from agenttool.catalog.surface_store import SurfaceStore
from agenttool.codec import parse_object, read, record_digest, write
from agenttool.errors import ConfigError, RecordError
from agenttool.journal import steps
from agenttool.journal.journal import follow
from agenttool.journal.projection import events_of, invocation_of, records_of, result_in
from agenttool.ports.calls import ALL_SHOWN
from agenttool.ports.evidence import sealed_digest
from agenttool.ports.facts import Fact
from agenttool.ports.stores import NO_CHECKPOINT, DurableLog, LeaseLost
from agenttool.records import (
    InvocationId,
    InvocationStatus,
    JsonObject,
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
    unresolved_tool,
)


async def store_open_calls(core: Core, invocation_ids: Iterable[InvocationId]) -> None:
    """Return once the open calls of this process are on disk; other processes can continue those that wait to start.

    Raises:
        StoreError: they could not be stored; or this process lost one that waits for its turn, and the next process
            ends it.
    """
    await core.host.ensure_lease()  # without one, another process could claim them at once
    lost: list[InvocationId] = []
    for each in invocation_ids:
        call = core.registry.calls.get(each)
        if call is None or call.is_parked:
            lost.append(each)
        elif call.result is None and call.parent is None and not call.has_checkpoint:
            _store(call)
    await core.journal.log.settle()
    for each in lost:
        await _refuse_lost(core, each)


async def _refuse_lost(core: Core, invocation_id: InvocationId) -> None:
    """Raise an error for a call that this process lost before it started, if the call has no checkpoint.

    Raises:
        LeaseLost: no process can continue it.
    """
    known = invocation_of(core.journal.log.facts_of(invocation_id))
    if known is None or known.status is not InvocationStatus.QUEUED:
        return
    opened = await core.durability.checkpoints.get(invocation_id)
    if opened is not None and opened.kind == NO_CHECKPOINT:
        raise LeaseLost(f"this process lost {invocation_id} with its lease, before the call started")


def _store(call: Call) -> None:
    if call.unwritten is not None:
        call.flush()
    elif call.status is None and not any(_is_lost(call.core, each) for each in call.request.depends_on or ()):
        _store_planned(call)
    elif call.status is InvocationStatus.QUEUED:
        save_checkpoint(call, CheckpointKind.APPROVED, call.final_input)
    elif call.status is InvocationStatus.RUNNING and call.tool is not None and _may_run_again(call, call.tool):
        save_running_checkpoint(call, call.tool, call.final_input)


def _is_lost(core: Core, invocation_id: InvocationId) -> bool:
    """Return whether this process lost its lease before it stored a call; then the calls that depend on it end, too."""
    call = core.registry.calls.get(invocation_id)
    return call is not None and call.is_parked and not core.journal.log.stored_facts_of(invocation_id)


def _may_run_again(call: Call, tool: Tool) -> bool:
    """Return whether a running call can run again after a crash; nested calls that it has made would not be found."""
    return not tool.has_effects and call.nesting is None


def _store_planned(call: Call) -> None:
    """Record a call that has not started, with a checkpoint if another process can run it from its request alone."""
    tool = call.tool = find_tool(call)
    call.tool_id = unresolved_tool(call.request.name) if tool is None else tool.tool_id
    arguments = _arguments(call)
    if tool is not None and tool.redactor is not None and arguments is not None:
        call.learn_secrets(tool.redactor, arguments)
    # Before its arguments are validated, a sensitive value can be anywhere in them.
    hides_all = tool is None or tool.redactor is not None
    call.note(steps.PLANNED, replace(call.request, redactor=REDACT_ALL_VALUES) if hides_all else call.request)
    if arguments is None or call.fault is not None or call.shown is not ALL_SHOWN or call.is_requested:
        return  # it fails or ends as soon as it runs, or its surface cannot be restored
    if call.secrets is not None:
        call.note(steps.PLAN_SEALED, {"digest": sealed_digest(arguments, call.digest_key)})
    save_checkpoint(call, CheckpointKind.PLANNED, {})


def _arguments(call: Call) -> JsonObject | None:
    try:
        return parse_object(call.request.model_input)
    except RecordError:
        return None


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

        If this process lost the call, return the state that it stored, or that of the process that continues the call.

        Raises:
            StoreError: it cannot be stored.
        """
        log, known_as = self._core.journal.log, InvocationId(invocation_id)
        facts = log.facts_of(known_as)
        # A call that is stored does not wait for the writes of others, which may fail.
        if len(facts) > len(log.stored_facts_of(known_as)):
            with suppress(LeaseLost):
                await log.settle()
            facts = log.stored_facts_of(known_as)
        return invocation_of(facts)

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
