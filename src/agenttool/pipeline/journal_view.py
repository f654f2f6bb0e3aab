"""Read access to the journal: calls, results, stored bytes, events, and the export of all records."""

from collections.abc import AsyncIterator
from contextlib import aclosing

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.surface_store import SurfaceStore
from agenttool.errors import ConfigError
from agenttool.journal.projection import invocation_of
from agenttool.journal.reading import follow, result_in
from agenttool.pipeline.core import Core
from agenttool.pipeline.export import records_in
from agenttool.pipeline.read_back import digest_in
from agenttool.records import InvocationId, Record, Ref, ToolEvent, ToolInvocation, ToolResult


class JournalView:
    """The methods of `Runtime` that read the journal."""

    _core: Core
    _catalog: Catalog
    _surfaces: SurfaceStore

    async def invocation(self, invocation_id: InvocationId) -> ToolInvocation | None:
        """Return a call as it stands; none if it is unknown."""
        return invocation_of(self._core.journal.log.facts_of(invocation_id))

    async def result(self, invocation_id: InvocationId) -> ToolResult | None:
        """Return the stored result of a call, in whichever process it ended; none if there is none yet."""
        return result_in(self._core.journal.log.stored_facts_of(invocation_id))

    async def payload(self, payload: str | Ref, start: int = 0, length: int | None = None) -> bytes | None:
        """Return stored bytes by their digest, id or ref, or a range of them; none if they are not there (any more).

        Raises:
            StoreError: they cannot be read, or are not the ones that were stored.
        """
        digest = digest_in(payload)
        return None if digest is None else await self._core.payloads.get(digest, start=start, length=length)

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
        """Yield every record: declarations with their profiles, surfaces, and calls with all their records."""
        surfaces = [each.record for each in self._surfaces]
        for record in records_in(self._core, tuple(self._catalog), surfaces):
            yield record
