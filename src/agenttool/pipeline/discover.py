"""Looking for tools; what is found leaves a trace in the journal, what was asked does not."""

import asyncio
from typing import cast

from agenttool.catalog.search.index import Index
from agenttool.catalog.search.known import Known
from agenttool.errors import ConfigError
from agenttool.journal import steps
from agenttool.pipeline.core import Core
from agenttool.records import SearchMatch, SurfaceId, ToolSearchResult

AT_ONCE = 200
"""How many tools are read between two looks at what else there is to do."""


async def search_tools(
    core: Core, index: Index, known: Known, query: str, limit: int, surface_id: SurfaceId
) -> ToolSearchResult:
    """Search among what the caller may know of, and note which deferred tools were found; never what was asked.

    Raises:
        ConfigError: the query is no text, or the limit is no number above zero.
    """
    if not isinstance(cast("object", query), str):
        raise ConfigError(f"a query is text, got a {type(query).__name__}; say what is wanted in words")
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"limit must be a whole number above 0, got {limit!r}; leave it out for ten")
    while index.catch_up(AT_ONCE):  # noqa: ASYNC110 -- it is work, not waiting, and lets others have their turn
        await asyncio.sleep(0)
    result = known.answer(index, query, limit)
    for match in result.matches:
        if isinstance(match, SearchMatch) and match.tool_id in known.deferred:
            core.journal.note_apart(
                steps.DEFERRED_DISCOVERED,
                {"tool_id": match.tool_id, "name": match.name, "surface_id": surface_id},
            )
    return result
