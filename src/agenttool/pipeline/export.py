"""The export of the journal as records."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from agenttool.catalog.entry import Entry
from agenttool.codec import record_digest
from agenttool.errors import RecordError
from agenttool.journal.projection import events_of, invocation_of, records_of
from agenttool.pipeline.core import Core
from agenttool.ports.facts import Fact
from agenttool.records import (
    InvocationId,
    Record,
    SurfaceId,
    ToolDeclaration,
    ToolSurface,
    complete_interface,
    replace,
)

READ_AHEAD = 256


def records_in(core: Core, entries: Iterable[Entry], surfaces: Iterable[ToolSurface]) -> Iterator[Record]:
    """Yield every record once: declarations with profiles, surfaces, and calls with their records.

    Args:
        core: contains the log.
        entries: the tools.
        surfaces: the current ones; the log contains older ones.
    """
    for entry in entries:
        yield _digested(entry.tool.declaration)
        yield complete_interface(entry.tool.interface)
        yield entry.tool.execution_profile
        yield entry.tool.permission_profile
    seen: set[SurfaceId | InvocationId] = set()
    for surface in surfaces:
        seen.add(surface.surface_id)
        yield surface
    log = core.journal.log
    apart: list[Record] = []
    after = 0
    while facts := log.read(after, READ_AHEAD):
        for position, fact in facts:
            yield from events_of(fact, position=position)
            if fact.invocation_id is None:
                yield from _records_without_call(fact, seen, apart)
            elif fact.invocation_id not in seen:
                seen.add(fact.invocation_id)
                yield from _all_of(core, fact.invocation_id)
        after = facts[-1][0]


def _records_without_call(fact: Fact, seen: set[SurfaceId | InvocationId], apart: list[Record]) -> Iterator[Record]:
    """Yield the records of a fact that belongs to no call, each once."""
    for record in records_of((fact,)):
        if isinstance(record, ToolSurface):
            if record.surface_id not in seen:
                seen.add(record.surface_id)
                yield record
        elif record not in apart:
            apart.append(record)
            yield record


def _all_of(core: Core, invocation_id: InvocationId) -> Iterator[Record]:
    whole = core.journal.log.stored_facts_of(invocation_id)  # only facts that readers of the log see, too
    call = invocation_of(whole)
    if call is not None:
        yield call
    yield from records_of(whole)


def _digested(declaration: ToolDeclaration) -> ToolDeclaration:
    """Return a declaration with its digest; one with a number beyond 2^53 has no canonical form, and so none."""
    with suppress(RecordError):
        return replace(declaration, digest=record_digest(declaration))
    return replace(declaration, digest=None)
