"""Looking for tools; what is found leaves a trace in the journal, what was asked does not."""

import asyncio
from collections.abc import Sequence
from typing import cast

from agenttool.catalog.entry import Entry
from agenttool.catalog.search.index import Index
from agenttool.catalog.search.known import Known
from agenttool.codec import to_json
from agenttool.errors import ConfigError
from agenttool.journal import steps
from agenttool.pipeline.core import Core
from agenttool.pipeline.tool import model_schema_of
from agenttool.records import Json, JsonObject, NextAction, SearchMatch, SurfaceId, ToolSearchResult

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
    await read_tools(index)
    heard = () if index.meaning is None else await asyncio.to_thread(index.listen, query)
    result = known.answer(index, query, limit, heard)
    for match in result.matches:
        if isinstance(match, SearchMatch) and match.tool_id in known.deferred:
            core.journal.note_apart(
                steps.DEFERRED_DISCOVERED,
                {"tool_id": match.tool_id, "name": match.name, "surface_id": surface_id},
            )
    return result


async def read_tools(index: Index) -> None:
    """Read the tools that came since the last search; others have their turn in between."""
    while index.catch_up(AT_ONCE):  # noqa: ASYNC110 -- it is work, not waiting
        await asyncio.sleep(0)


async def prepare_search(index: Index, seconds: float) -> bool:
    """Read all tools, and wait for a model to have read them; tell whether it has."""
    await read_tools(index)
    if index.meaning is None:
        return True
    await asyncio.to_thread(index.meaning.settle, seconds)
    return not index.meaning.pending


def told_to_model(result: ToolSearchResult, known: Known, loaded: Sequence[Entry], finder: str) -> JsonObject:
    """Tell a model what was found, which of it was loaded, and what to do next; schemas of loaded tools included."""
    matches: list[Json] = [
        {**to_json(match), "description": _first_line(known[match.tool_id])}
        for match in result.matches
        if isinstance(match, SearchMatch)
    ]
    told = to_json(result)
    told |= {"matches": matches, "next_step": _next_step(result, loaded, finder)}
    if not loaded:
        return told
    shown: list[Json] = [_definition(each) for each in loaded]
    return {**told, "loaded": shown, "next_action": NextAction.NONE.value}


def _definition(entry: Entry) -> JsonObject:
    told = entry.tool.declaration.description
    return {"name": entry.qualified_name, "description": told, "parameters": model_schema_of(entry.tool)}


def _first_line(entry: Entry) -> str:
    return entry.tool.declaration.description.partition("\n")[0]


def _next_step(result: ToolSearchResult, loaded: Sequence[Entry], finder: str) -> str:
    if loaded:
        return "the loaded tools can be called by name from now on"
    match result.next_action:
        case NextAction.LOAD_SCHEMA_THEN_CALL:
            return f"load what you need: call {finder} with the query select:NAME"
        case NextAction.WAIT_FOR_PROVIDER:
            return "some providers are still connecting: search again in a moment"
        case NextAction.NONE:
            return "these tools are loaded: call them by name"
        case _:
            return "nothing fits: use other words, or fewer"
