"""The tools that a runtime provides itself, and the search tool by which a model loads deferred tools."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from agenttool.catalog.entry import BUILT_IN, TOOL_SEARCH, Entry
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.scope import SearchScope, parse_form
from agenttool.codec import to_json
from agenttool.errors import ConfigError, ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.tool import model_schema_of
from agenttool.ports.executor import Executor, Job
from agenttool.ports.retriever import Retriever
from agenttool.ports.tool import Check, DeclaredTool
from agenttool.records import (
    ErrorClass,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    Json,
    JsonObject,
    Lifecycle,
    NextAction,
    PermissionProfile,
    PermissionProfileId,
    Phase,
    QueryType,
    RiskLevel,
    SearchMatch,
    SurfaceId,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    ToolSearchResult,
    WriteEffect,
)
from agenttool.results.failure import guided

_log = logging.getLogger("agenttool.search")

_ID_PREFIX = f"tool_{BUILT_IN}."

MAX_MATCHES = 50
DEFAULT_MATCHES = 5

TOOLS_PER_STEP = 200
"""How many tools are indexed before other tasks of the event loop run."""


def builtin_id(name: str) -> ToolId:
    """Return the id of a built-in tool."""
    return ToolId(f"{_ID_PREFIX}{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinTool:
    """The differences between built-in tools. All of them are read-only and always loaded.

    Attributes:
        is_self_bounding: its output is never large enough to be stored.
        is_repeatable: a failed run may be retried.
    """

    name: str
    kind: ToolKind
    description: str
    schema: JsonObject
    is_self_bounding: bool = False
    is_repeatable: bool = False

    def declare(self, executor: Executor, check_values: Check | None = None) -> DeclaredTool:
        """Return the declaration with its executor. Policy rules apply to it as to any tool."""
        tool_id = builtin_id(self.name)
        interface_id = InterfaceId(f"interface:{tool_id}")
        execution_id = ExecutionProfileId(f"execution:{tool_id}")
        permission_id = PermissionProfileId(f"permission:{tool_id}")
        return DeclaredTool(
            declaration=ToolDeclaration(
                tool_id=tool_id,
                namespace=BUILT_IN,
                name=self.name,
                description=self.description,
                lifecycle=Lifecycle.AVAILABLE,
                tool_kind=self.kind,
                input_contract=InputContract(model_input_schema=self.schema, strict=True),
                interface_ref=interface_id,
                execution_profile_ref=execution_id,
                permission_profile_ref=permission_id,
            ),
            interface=ToolInterface(
                interface_id=interface_id,
                tool_id=tool_id,
                is_read_only=True,
                is_concurrency_safe=True,
                is_destructive=False,
                is_open_world=False,
                always_load=True,
                persistence_policy_ref="self_bounding" if self.is_self_bounding else None,
            ),
            execution_profile=ExecutionProfile(
                execution_profile_id=execution_id,
                execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
                supports_cancel=True,
                supports_timeout=True,
                supports_retries=self.is_repeatable or None,
            ),
            permission_profile=PermissionProfile(
                permission_profile_id=permission_id,
                risk_level=RiskLevel.LOW,
                write_effects=(WriteEffect.NONE,),
                approval_required=False,
            ),
            executor=executor,
            check_values=check_values,
            shared_state=None,
        )


def reject_builtin_names(tool: DeclaredTool) -> None:
    """Reject a tool that uses the namespace or an id of the built-in tools.

    Raises:
        ConfigError: it does.
    """
    declaration = tool.declaration
    qualified_name = f"{declaration.namespace}.{declaration.name}"
    if qualified_name.startswith(f"{BUILT_IN}.") or str(declaration.tool_id).startswith(_ID_PREFIX):
        raise ConfigError(
            f"{qualified_name!r} cannot be declared: the namespace {BUILT_IN!r} and ids that begin with "
            f"{_ID_PREFIX!r} are reserved for the runtime; give the tool another namespace and id"
        )


TOOL_SEARCH_ID = builtin_id(TOOL_SEARCH)

_DESCRIPTION = (
    "Find tools that are not listed here, and load them. Say in a few words what is to be done. The reply has the "
    "tools that fit, best first, and the definitions of those that it loaded: call them at once, or search again. The "
    "queries select:NAME and select:NAME,NAME load tools by name; regex:PATTERN searches names and descriptions. Not "
    "for searching files, the web or anything but tools."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "What is to be done, such as 'open a pull request'; or select:NAME; or regex:PATTERN",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_MATCHES,
            "description": f"How many matches to give at most; {DEFAULT_MATCHES} if left out",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
_TOOL_SEARCH = BuiltinTool(name=TOOL_SEARCH, kind=ToolKind.RETRIEVAL, description=_DESCRIPTION, schema=_SCHEMA)


def tool_search_tool() -> DeclaredTool:
    """Return the declaration of the search tool."""
    return _TOOL_SEARCH.declare(ToolSearchExecutor())


class ToolSearchExecutor:
    """Searches on the surface that the search tool was called on."""

    async def start(self, job: Job, /) -> JsonObject:
        """Search, and load what was found.

        Raises:
            ToolFailure: the query is a pattern that cannot be used.
        """
        call = cast("Call", job)  # only the call knows its surface
        arguments = job.call_input
        limit = cast("int", arguments.get("limit", DEFAULT_MATCHES))
        try:
            return await call.core.host.find_tools(call.surface, str(arguments["query"]), limit, call.shown.known_as)
        except ConfigError as error:
            failed = guided(ErrorClass.INVALID_ARGUMENTS, phase=Phase.VALIDATE_VALUES, message=str(error))
            raise ToolFailure(failed) from error


async def search_tools(
    core: Core, index: ToolIndex, scope: SearchScope, query: str, limit: int, surface_id: SurfaceId
) -> ToolSearchResult:
    """Search in a scope and record which deferred tools were found. The query is not recorded.

    Raises:
        ConfigError: the query is not a string or has an unusable pattern, or the limit is not a positive integer.
    """
    if not isinstance(cast("object", query), str):
        raise ConfigError(f"a query must be a string, got a {type(query).__name__}; describe the tool in words")
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"limit must be a positive integer, got {limit!r}; leave it out for ten")
    retrieved, encoded = None, ()
    await index_tools(index)
    if parse_form(query)[0] is QueryType.KEYWORD:
        retrieved = await _retrieve(index.retriever, scope, query, limit)
        if retrieved is None and index.semantic_index is not None:
            encoded = await asyncio.to_thread(index.encode_query, query)
    result = scope.search(index, query, limit, encoded=encoded, retrieved=retrieved)
    for match in result.matches:
        if isinstance(match, SearchMatch) and match.tool_id in scope.deferred:
            core.journal.note_apart(
                steps.DEFERRED_DISCOVERED,
                {"tool_id": match.tool_id, "name": match.name, "surface_id": surface_id},
            )
    return result


async def _retrieve(retriever: Retriever | None, scope: SearchScope, query: str, limit: int) -> Sequence[str] | None:
    """Ask the retriever of the application; none if there is none or it fails, so that the own ranking is used."""
    if retriever is None:
        return None
    declarations = (each.tool.declaration for each in scope.findable.values())
    try:
        return await retriever.retrieve(query, declarations, limit)
    except Exception as error:  # noqa: BLE001 -- an application's code may fail in any way
        _log.warning("the retriever %s failed (%r); tools are searched by words", type(retriever).__name__, error)
        return None


async def index_tools(index: ToolIndex) -> None:
    """Index the tools that were declared since the last search; other tasks run in between."""
    while index.catch_up(TOOLS_PER_STEP):  # noqa: ASYNC110 -- it works, it does not poll
        await asyncio.sleep(0)


async def prepare_search(index: ToolIndex, seconds: float) -> bool:
    """Index all tools and wait for the search model; return whether it has encoded all of them."""
    await index_tools(index)
    if index.semantic_index is None:
        return True
    await asyncio.to_thread(index.semantic_index.wait, seconds)
    return not index.semantic_index.pending


def search_reply(result: ToolSearchResult, scope: SearchScope, loaded: Sequence[Entry], finder: str) -> JsonObject:
    """Return what a model sees of a search: matches, the schemas of loaded tools, and the next step."""
    matches: list[Json] = [
        {**to_json(match), "description": _first_line(scope[match.tool_id])}
        for match in result.matches
        if isinstance(match, SearchMatch)
    ]
    reply = to_json(result)
    reply |= {"matches": matches, "next_step": _next_step(result, loaded, finder)}
    if not loaded:
        return reply
    schemas: list[Json] = [_definition(each) for each in loaded]
    return {**reply, "loaded": schemas, "next_action": NextAction.NONE.value}


def _definition(entry: Entry) -> JsonObject:
    description = entry.tool.declaration.description
    return {"name": entry.qualified_name, "description": description, "parameters": model_schema_of(entry.tool)}


def _first_line(entry: Entry) -> str:
    return entry.tool.declaration.description.partition("\n")[0]


def _next_step(result: ToolSearchResult, loaded: Sequence[Entry], finder: str) -> str:
    if loaded:
        is_all = len(loaded) == len(result.matches)
        others = "" if is_all else f"; for another match, call {finder} with the query select:NAME"
        return f"the loaded tools can be called by name from now on{others}"
    match result.next_action:
        case NextAction.LOAD_SCHEMA_THEN_CALL:
            return f"load what you need: call {finder} with the query select:NAME"
        case NextAction.WAIT_FOR_PROVIDER:
            return "some providers are still connecting: search again in a moment"
        case NextAction.NONE:
            return "these tools are loaded: call them by name"
        case _:
            return "nothing matches: use other words, or fewer"
