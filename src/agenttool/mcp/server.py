"""The MCP server of a runtime: the handlers of its methods, for every transport."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError

from agenttool import __version__
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError
from agenttool.mcp.calls import RequestedTool, ToolRun
from agenttool.mcp.exchange import Exchange, RequestContext
from agenttool.mcp.listing import TOOL_CALL, TOOL_SEARCH, ToolList, ToolLister, definitions
from agenttool.mcp.results import text_result
from agenttool.mcp.state import CallIdentity, RequestStates, StateError, WaitingCalls
from agenttool.ports.surfacing import Role
from agenttool.records import InvocationId, JsonObject, SearchMatch
from agenttool.runtime import Runtime

LIST_TTL_MS = 30_000
"""How long a client may use a list without asking again, if it does not listen to changes."""

_DEFAULT_MATCHES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """How a runtime is served.

    Attributes:
        name: the name that clients show.
        profile: the name of the endpoint's profile; empty for all tools.
        role: the tools of the profile.
        actor: who makes the calls, as rules and the journal know it; None if that is not known.
        answer_command: the command by which a person answers open questions.
        asks_client: whether an approval may be given in the client. Nothing proves that a person gives it there.
    """

    name: str = "agenttool"
    profile: str = ""
    role: Role | None = None
    actor: str | None = None
    answer_command: str = "agenttool approvals"
    asks_client: bool = True


class McpServer:
    """Serves one runtime to MCP clients: `async with McpServer.open(rt) as server`.

    Attributes:
        lowlevel: the server of the MCP SDK, which transports run.
    """

    def __init__(
        self,
        runtime: Runtime,
        options: McpOptions,
        states: RequestStates,
        waiting: WaitingCalls,
        group: asyncio.TaskGroup,
    ) -> None:
        """Take what `open` made."""
        self._runtime = runtime
        self._options = options
        self._states = states
        self._waiting = waiting
        self._group = group
        self._lister = ToolLister(runtime, options.role)
        self._exchanges: dict[str, Exchange[types.CallToolResult]] = {}
        self.lowlevel = self._make_lowlevel()

    @classmethod
    @asynccontextmanager
    async def open(cls, runtime: Runtime, options: McpOptions | None = None) -> AsyncGenerator["McpServer"]:
        """Yield the server of a runtime that the caller has entered; leaving it stops what runs for clients.

        Raises:
            StoreError: the store cannot be used.
        """
        documents = runtime.documents if runtime.is_durable else None
        states, waiting = await RequestStates.open(documents), WaitingCalls(documents)
        await waiting.load()
        async with asyncio.TaskGroup() as group:
            server = cls(runtime, options or McpOptions(), states, waiting, group)
            try:
                yield server
            finally:
                server.close()

    def close(self) -> None:
        """Stop what runs for clients."""
        for each in self._exchanges.values():
            each.leave()

    def initialization(self) -> InitializationOptions:
        """Return the reply to the handshake of older revisions."""
        return self.lowlevel.create_initialization_options(NotificationOptions(tools_changed=True))

    def _make_lowlevel(self) -> Server[dict[str, object]]:
        server: Server[dict[str, object]] = Server(
            self._options.name,
            version=__version__,
            title="agenttool",
            instructions=_INSTRUCTIONS,
            cache_hints={"tools/list": CacheHint(ttl_ms=LIST_TTL_MS, scope="private")},
            get_tool_input_schema=self._lister.schema_of,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        return server

    async def _list_tools(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = await self._tools()
        try:
            page, cursor = tools.page(None if params is None else params.cursor)
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"{error}; begin without a cursor") from None
        return types.ListToolsResult(tools=list(page), next_cursor=cursor)

    async def _tools(self) -> ToolList:
        try:
            return await self._lister.current()
        except ConfigError as error:  # the runtime is closed
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error

    async def _call_tool(
        self, context: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tools, name = await self._tools(), params.name
        arguments = cast("JsonObject", params.arguments or {})
        if tools.is_searched and name == TOOL_SEARCH:
            return await self._search(tools, arguments)
        if tools.is_searched and name == TOOL_CALL:
            name, arguments = _inner_call(arguments)
        found = tools.find(name)
        tool = RequestedTool(
            name=name if found is None else found.qualified_name,
            arguments=arguments,
            # A tool of the profile is called on the surface of all tools, where none has to be loaded first.
            surface=tools.surface if found is None else None,
            native_call_id=None if context.request_id is None else str(context.request_id),
        )
        identity = CallIdentity(
            actor=self._options.actor,
            profile=self._options.profile,
            target=f"tools/call {tool.name}",
            arguments=arguments,
        )
        exchange_id, exchange = self._continued(context, params, identity)
        if exchange.task is None:
            self._start(exchange, tool, identity)
        return await self._attended(context, exchange_id, exchange, identity)

    def _start(self, exchange: Exchange[types.CallToolResult], tool: RequestedTool, identity: CallIdentity) -> None:
        """Start a call, or continue the same call that waits for its approval."""
        run = ToolRun(
            runtime=self._runtime,
            exchange=exchange,
            identity=identity,
            waiting=self._waiting,
            answer_command=self._options.answer_command,
            asks_client=self._options.asks_client,
        )
        waiting: InvocationId | None = self._waiting.find(identity)
        exchange.start(self._group, lambda: run.run(tool) if waiting is None else run.resume(waiting))

    def _continued(
        self, context: RequestContext, params: types.InputResponseRequestParams, identity: CallIdentity
    ) -> tuple[str, Exchange[types.CallToolResult]]:
        """Return the exchange that a request continues, with the replies of the client; else a new one."""
        replies = cast("Mapping[str, object]", params.input_responses or {})
        if params.request_state is None:
            return secrets.token_hex(8), Exchange(context)
        try:
            exchange_id = self._states.verify(params.request_state, identity, time.time())
        except StateError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        found = self._exchanges.get(exchange_id)
        if found is not None:
            found.reply(replies)
            return exchange_id, found
        if self._waiting.find(identity) is None:
            message = "the call of this requestState has ended, or its process was restarted; make the call again"
            raise MCPError(types.INVALID_PARAMS, message)
        exchange: Exchange[types.CallToolResult] = Exchange(context)
        exchange.replies |= {key: _reply_members(each) for key, each in replies.items()}
        return exchange_id, exchange

    async def _attended(
        self,
        context: RequestContext,
        exchange_id: str,
        exchange: Exchange[types.CallToolResult],
        identity: CallIdentity,
    ) -> types.CallToolResult | types.InputRequiredResult:
        self._exchanges[exchange_id] = exchange
        result = None
        try:
            result = await exchange.attend(context)
        finally:
            if exchange.task is None or exchange.task.done() or exchange.task.cancelling():
                self._exchanges.pop(exchange_id, None)
        if result is not None:
            return result
        return types.InputRequiredResult(
            input_requests=exchange.input_requests(),
            request_state=self._states.sign(identity, exchange_id, time.time()),
        )

    async def _search(self, tools: ToolList, arguments: JsonObject) -> types.CallToolResult:
        query, limit = arguments.get("query"), arguments.get("limit", _DEFAULT_MATCHES)
        if not isinstance(query, str) or not isinstance(limit, int):
            return text_result("invalid_arguments: query is a text and limit a number; correct them", is_error=True)
        try:
            found = await self._runtime.search(query, surface=tools.surface, limit=limit)
        except ConfigError as error:
            return text_result(f"invalid_arguments: {error}", is_error=True)
        names = [str(each.name) for each in found.matches if isinstance(each, SearchMatch)]
        matches = definitions(tools, names)
        advice = f"run one with {TOOL_CALL}" if matches else "nothing matches: use other words, or fewer"
        reply: JsonObject = {"matches": [*matches], "next_step": advice}
        return text_result(json_bytes(reply).decode(), structured=reply)


_INSTRUCTIONS = (
    "Every call is checked against rules, and may wait for a person's approval. A failed call says what to change."
    f" If {TOOL_SEARCH} is listed, it finds the tools that are not, and {TOOL_CALL} runs them."
    " Read the rest of a large output with read_result, or by its resource link."
)


def _inner_call(arguments: JsonObject) -> tuple[str, JsonObject]:
    """Return the tool and the arguments of a `tool_call`."""
    name, inner = arguments.get("name"), arguments.get("arguments", {})
    return name if isinstance(name, str) else "", inner if isinstance(inner, dict) else {}


def _reply_members(reply: object) -> JsonObject:
    if isinstance(reply, types.Result):
        return reply.model_dump(by_alias=True, mode="json", exclude_none=True)
    return cast("JsonObject", reply) if isinstance(reply, dict) else {}
