"""The tools that a runtime provides itself: one searches and loads deferred tools, the other reads stored output."""

import asyncio
import logging
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from agenttool.call.call import Call
from agenttool.call.completion import read_tool_of
from agenttool.call.services import PayloadReader
from agenttool.call.tool import model_schema_of
from agenttool.catalog.entry import BUILT_IN, TOOL_SEARCH, Entry
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.scope import SearchScope, parse_form
from agenttool.codec import to_json
from agenttool.errors import ConfigError, StoreError, ToolFailure
from agenttool.ports.executor import Executor, Job
from agenttool.ports.retriever import Retriever
from agenttool.ports.stores import PayloadStore
from agenttool.ports.tool import Check, DeclaredTool
from agenttool.records import (
    PAYLOAD_SCHEME,
    Digest,
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
    Ref,
    RiskLevel,
    SearchMatch,
    ToolDeclaration,
    ToolError,
    ToolId,
    ToolInterface,
    ToolKind,
    ToolSearchResult,
    WriteEffect,
)
from agenttool.results.failure import guided
from agenttool.results.preview import CHARS_AT_ONCE, LINES_AT_ONCE, MAX_CHARS, READ_RESULT, TextRange

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


async def search_scope(index: ToolIndex, scope: SearchScope, query: str, limit: int) -> ToolSearchResult:
    """Search in a scope; other tasks run meanwhile.

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
    return scope.search(index, query, limit, encoded=encoded, retrieved=retrieved)


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


def search_reply(result: ToolSearchResult, scope: SearchScope, loaded: Sequence[Entry], finder: str) -> JsonObject:
    """Return what a model sees of a search: matches, the schemas of loaded tools, and the next step."""
    matches: list[Json] = [
        {**to_json(match), "description": scope[match.tool_id].tool.declaration.description.partition("\n")[0]}
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


READ_BACK_ID = builtin_id(READ_RESULT)

_READ_DESCRIPTION = (
    "Read more of a tool's output that was too large to be shown: the preview names its payload_id. "
    "Give start_line and end_line, or offset and limit in characters. Not for files or pages."
)
_LINES = ("start_line", "end_line")
_CHARS = ("offset", "limit")
_COUNT: JsonObject = {"type": "integer", "minimum": 1}
_READ_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "payload_id": {"type": "string", "description": "As the preview names it, such as payload:sha256:…"},
        "start_line": {**_COUNT, "description": "The first line, counted from 1"},
        "end_line": {**_COUNT, "description": f"The last line; {LINES_AT_ONCE} lines if left out"},
        "offset": {"type": "integer", "minimum": 0, "description": "The first character, counted from 0"},
        "limit": {**_COUNT, "maximum": MAX_CHARS, "description": f"How many; {CHARS_AT_ONCE} if left out"},
    },
    "required": ["payload_id"],
    "additionalProperties": False,
}


_READ_RESULT = BuiltinTool(
    name=READ_RESULT,
    kind=ToolKind.FUNCTION,
    description=_READ_DESCRIPTION,
    schema=_READ_SCHEMA,
    is_self_bounding=True,
    is_repeatable=True,
)


def read_back_tool(payloads: PayloadStore) -> DeclaredTool:
    """Return the declaration of the tool; its output is bounded, so it is never stored again."""
    return _READ_RESULT.declare(ReadBack(payloads), _check)


def digest_in(payload: str | Ref) -> Digest | None:
    """Return the digest in a payload id, a digest or a ref; none if there is none."""
    if isinstance(payload, Ref):
        return payload.digest
    digest = payload.removeprefix(PAYLOAD_SCHEME)
    return Digest(digest) if digest.startswith("sha256:") else None


class ReadBack:
    """Reads stored output as a stream, so that memory use does not depend on its size."""

    def __init__(self, payloads: PayloadStore) -> None:
        self._payloads = payloads

    async def start(self, job: Job, /) -> str:
        """Return one range of the output.

        Raises:
            ToolFailure: execution_failed: the output does not exist or is not text; dependency_unavailable.
        """
        arguments = job.call_input
        payload_id = cast("str", arguments["payload_id"])
        digest = digest_in(payload_id)
        try:
            # The error is the same for unknown output, so that other actors and conversations cannot probe for it.
            reader = PayloadReader(job.thread, job.actor_ref)
            if digest is None or not await cast("Call", job).core.payloads.may_read(reader, digest):
                raise ToolFailure(_gone(payload_id))
            if await self._payloads.get(digest, length=1) is None:
                raise ToolFailure(_gone(payload_id))
            text_range = _range_of(arguments)
            await self._read(digest, text_range)
        except UnicodeDecodeError as error:
            raise ToolFailure(_no_text()) from error
        except StoreError as error:
            message = f"the stored output cannot be read now: {error}"
            raise ToolFailure(
                guided(ErrorClass.DEPENDENCY_UNAVAILABLE, phase=Phase.EXECUTE, message=message)
            ) from error
        return text_range.render(payload_id, read_tool_of(cast("Call", job)))

    async def _read(self, digest: Digest, text_range: TextRange) -> None:
        decoder = getincrementaldecoder("utf-8")()
        async with aclosing(cast("AsyncGenerator[bytes]", self._payloads.stream(digest))) as pieces:
            async for piece in pieces:
                if not text_range.feed(decoder.decode(piece)):
                    return
        text_range.feed(decoder.decode(b"", final=True))


def _range_of(arguments: JsonObject) -> TextRange:
    given = cast("dict[str, int]", arguments)
    if "start_line" in given or "end_line" in given:
        first = given.get("start_line", 1)
        last = given.get("end_line", first + LINES_AT_ONCE - 1)
        return TextRange(first=first, count=last - first + 1, in_lines=True)
    return TextRange(first=given.get("offset", 0), count=given.get("limit", CHARS_AT_ONCE), in_lines=False)


def _check(arguments: JsonObject) -> None:
    """Reject arguments that select no range.

    Raises:
        ToolFailure: invalid_arguments.
    """
    if arguments.keys() & set(_LINES) and arguments.keys() & set(_CHARS):
        raise ToolFailure(_wrong("lines and characters cannot be mixed; give start_line and end_line, or offset"))
    start, end = arguments.get("start_line", 1), arguments.get("end_line")
    if isinstance(start, int) and isinstance(end, int) and end < start:
        raise ToolFailure(_wrong(f"end_line {end} lies before start_line {start}; swap them"))


def _wrong(message: str) -> ToolError:
    return guided(ErrorClass.INVALID_ARGUMENTS, phase=Phase.VALIDATE_VALUES, message=message)


def _gone(payload_id: str) -> ToolError:
    message = (
        f"there is no stored output under {payload_id[:100]!r}: it has expired, or is of another actor or"
        " conversation; copy the payload_id from a preview, or call the tool again that gave it"
    )
    return guided(ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="payload_gone", effects=False)


def _no_text() -> ToolError:
    message = "the stored output is no text, so no stretch of it can be read; a program can fetch it by its digest"
    return guided(ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message=message, code="not_text", effects=False)
