"""Everything that is on record, as records."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from agenttool.catalog.catalog import Entry
from agenttool.codec import record_digest
from agenttool.errors import RecordError
from agenttool.journal.fold import events_of, invocation_of, records_of
from agenttool.journal.steps import SURFACE_CREATED
from agenttool.pipeline.core import Core
from agenttool.records import InvocationId, Record, SurfaceId, ToolDeclaration, ToolSurface, replace

READ_AHEAD = 256


def records_in(core: Core, entries: Iterable[Entry], surfaces: Iterable[ToolSurface]) -> Iterator[Record]:
    """Give declarations with their profiles, surfaces, calls and all that became of them, each once.

    Args:
        core: what holds the tools and the log.
        entries: the tools.
        surfaces: those that can be called on; older ones are in the log.
    """
    for entry in entries:
        yield _digested(entry.tool.declaration)
        yield core.tools[entry].subject.interface
        yield entry.tool.execution_profile
        yield entry.tool.permission_profile
    told: set[SurfaceId | InvocationId] = set()
    for surface in surfaces:
        told.add(surface.surface_id)
        yield surface
    log = core.journal.log
    after = 0
    while facts := log.read(after, READ_AHEAD):
        for position, fact in facts:
            yield from events_of(fact, position=position)
            if fact.step is SURFACE_CREATED:
                yield from (each for each in records_of((fact,)) if _surface_id(each) not in told)
            if fact.invocation_id is not None and fact.invocation_id not in told:
                told.add(fact.invocation_id)
                yield from _all_of(core, fact.invocation_id)
        after = facts[-1][0]


def _surface_id(record: Record) -> SurfaceId | None:
    return record.surface_id if isinstance(record, ToolSurface) else None


def _all_of(core: Core, invocation_id: InvocationId) -> Iterator[Record]:
    whole = core.journal.log.facts_of(invocation_id)
    call = invocation_of(whole)
    if call is not None:
        yield call
    yield from records_of(whole)


def _digested(declaration: ToolDeclaration) -> ToolDeclaration:
    """Add the digest of a declaration; one with a number beyond 2^53 has no canonical spelling, and so none."""
    with suppress(RecordError):
        return replace(declaration, digest=record_digest(declaration))
    return replace(declaration, digest=None)
