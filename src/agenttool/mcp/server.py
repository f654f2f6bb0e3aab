"""The MCP server of a runtime: the handlers of its methods, for every transport."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import cast

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from agenttool import __version__
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError
from agenttool.history.listed_call import tool_name
from agenttool.mcp.callers import principal_of
from agenttool.mcp.calls import RequestedTool, ToolRun
from agenttool.mcp.exchange import ClientExchange, RequestContext, is_stateless, reply_members
from agenttool.mcp.listing import TOOL_CALL, TOOL_SEARCH, ToolList, ToolLister, definitions
from agenttool.mcp.offer_lists import OLD_NOT_FOUND
from agenttool.mcp.offers import MAX_SUBSCRIPTIONS, GovernedCall, Offers, StillAllowed
from agenttool.mcp.profiles import McpOptions, has_tool
from agenttool.mcp.results import read_stored_output, text_result
from agenttool.mcp.sessions import ClientSessions, ListenStream
from agenttool.mcp.state import CallIdentity, RequestStates, StateError, WaitingCalls
from agenttool.mcp.tasks import (
    EXTENSION,
    TASK_AFTER_S,
    ClientTasks,
    TaskParams,
    TaskUpdateParams,
    declares_tasks,
    refuse_without_tasks,
    runs_in_background,
)
from agenttool.ports.deferred import Thread
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.resources import OfferKind, Unsubscribe
from agenttool.records import PAYLOAD_SCHEME, JsonObject, SearchMatch, ToolInvocation, ToolResult
from agenttool.runtime import Runtime

LIST_TTL_MS = 30_000
"""How long a client may use a list without asking again, if it does not listen to changes."""

WATCH_S = 1.0
"""How often the list of tools is compared with the one before."""

MAX_EXCHANGES = 1_000
"""How many exchanges are stored; beyond it, the oldest that has ended is dropped."""

MAX_CONVERSATIONS = 1_000
"""How many conversations of callers are cached."""

MAX_STREAMS = 1_024
"""How many streams of `subscriptions/listen` are open at the same time."""

FAULTS_KEY = "agenttool/faults"
"""The member of a list's `_meta` with the sources whose entries may be missing or old, and the reasons."""

_DEFAULT_MATCHES = 5

Notice = Callable[[], Awaitable[None]]
"""Notifies a client, or all of them."""


class NotifyingServer(Server[dict[str, object]]):
    """The server of the SDK; it declares to clients of older revisions that it notifies them of changes."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, object]] | None = None,
        extensions: dict[str, dict[str, object]] | None = None,
    ) -> InitializationOptions:
        """Return the reply to the handshake."""
        all_changes = NotificationOptions(tools_changed=True, resources_changed=True, prompts_changed=True)
        return super().create_initialization_options(
            notification_options or all_changes, experimental_capabilities, extensions
        )


class RuntimeMcpServer:
    """Serves one runtime to MCP clients: `async with RuntimeMcpServer.open(rt) as server`.

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
        """Use `open` instead, which loads the state and starts the background task."""
        self._runtime = runtime
        self._options = options
        self._states = states
        self._waiting = waiting
        self._group = group
        self._lister = ToolLister(runtime, options.role)
        self._offers = Offers(runtime, options.role, group.create_task, self._list_changed)
        self._conversation = lru_cache(MAX_CONVERSATIONS)(self._open_conversation)
        self._sessions = ClientSessions()
        self._streams: set[ListenStream] = set()
        self._notices: dict[object, Notice] = {}
        self._is_scheduled = asyncio.Event()
        self._exchanges: dict[str, ClientExchange] = {}
        self._runs: dict[str, ToolRun] = {}
        self._tasks = ClientTasks(runtime, self._actor, self._serves, self._resume_task)
        self.lowlevel = self._make_lowlevel()

    @classmethod
    @asynccontextmanager
    async def open(cls, runtime: Runtime, options: McpOptions | None = None) -> AsyncGenerator["RuntimeMcpServer"]:
        """Yield the server of a runtime that the caller has entered; leaving it stops what runs for clients.

        Raises:
            StoreError: the store cannot be used.
        """
        documents = runtime.documents if runtime.is_durable else None
        states, waiting = await RequestStates.open(documents), WaitingCalls(documents)
        await waiting.load()
        async with asyncio.TaskGroup() as group:
            server = cls(runtime, options or McpOptions(), states, waiting, group)
            watching = group.create_task(server._watch())
            try:
                yield server
            finally:
                watching.cancel()
                server.close()

    def close(self) -> None:
        """Stop the work for all clients; calls that wait for an approval are left to the next process."""
        for each in self._exchanges.values():
            each.leave()
        self._tasks.leave()
        self._offers.close()

    def _make_lowlevel(self) -> "NotifyingServer":
        hint = CacheHint(ttl_ms=LIST_TTL_MS, scope="private")
        server = NotifyingServer(
            self._options.name,
            version=__version__,
            title=self._options.title,
            instructions=self._options.instructions or _INSTRUCTIONS,
            cache_hints={
                "tools/list": hint,
                "prompts/list": hint,
                "resources/list": hint,
                "resources/templates/list": hint,
            },
            get_tool_input_schema=self._lister.schema_of,
            on_subscriptions_listen=self._listen,
        )
        add = server.add_request_handler
        add("tools/list", types.PaginatedRequestParams, self._list_tools)
        add("tools/call", types.CallToolRequestParams, self._call_tool)
        add("resources/list", *self._lists(OfferKind.RESOURCES, types.ListResourcesResult))
        add("resources/templates/list", *self._lists(OfferKind.TEMPLATES, types.ListResourceTemplatesResult))
        add("resources/read", types.ReadResourceRequestParams, self._read_resource)
        add("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        add("logging/setLevel", types.SetLevelRequestParams, self._set_log_level)
        add("prompts/list", *self._lists(OfferKind.PROMPTS, types.ListPromptsResult))
        add("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        add("completion/complete", types.CompleteRequestParams, self._complete)
        add("tasks/get", TaskParams, self._tasks.get)
        add("tasks/update", TaskUpdateParams, self._tasks.update)
        add("tasks/cancel", TaskParams, self._tasks.cancel)
        server.extensions = {EXTENSION: {}}
        return server

    async def _watch(self) -> None:
        """Notify clients of changed lists and resources, as long as the server runs."""
        listed = await self._lister.current()
        while True:
            self._offers.watch()
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._is_scheduled.wait()
            self._is_scheduled.clear()
            notices, self._notices = self._notices, {}
            async with asyncio.TaskGroup() as group:
                for key, notice in notices.items():
                    group.create_task(self._send_notice(key, notice))
            before, listed = listed, await self._lister.current()
            if listed is not before and listed.shown != before.shown:
                await self._sessions.tools_changed()

    async def _send_notice(self, key: object, notice: Notice) -> None:
        """Send a notice; again later if its client does not read."""
        try:
            async with asyncio.timeout(WATCH_S):
                await notice()
        except TimeoutError:
            self._notices.setdefault(key, notice)

    def _list_changed(self, kind: OfferKind) -> None:
        self._schedule(kind, partial(self._sessions.list_changed, kind))

    def _schedule(self, key: object, notice: Notice) -> None:
        """Send a notice soon; of those with one key, only the latest."""
        self._notices[key] = notice
        self._is_scheduled.set()

    async def _list_tools(self, context: RequestContext, params: types.PaginatedRequestParams | None) -> types.Result:
        session = self._sessions.of(context)  # registers it, so that it is notified of changes from now on
        tools = await self._tools()
        if session is not None and session.loaded:
            tools = tools.with_loaded(session.loaded)
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

    async def _call_tool(self, context: RequestContext, params: types.CallToolRequestParams) -> types.Result:
        tools, name = await self._tools(), params.name
        arguments = cast("JsonObject", params.arguments or {})
        if tools.is_searched and name == TOOL_SEARCH:
            return await self._search(context, tools, arguments)
        if tools.is_searched and name == TOOL_CALL:
            name, arguments = _inner_call(arguments)
        found = tools.find(name)
        if found is None and (meant := tools.without_source(name)):
            advice = " or ".join(map(repr, meant))
            return text_result(f"unknown_tool: no tool is named {name!r}; did you mean {advice}?", is_error=True)
        tool = RequestedTool(
            name=self._lister.absent_name(tools, name) if found is None else found.qualified_name,
            arguments=arguments,
            # A tool of the profile is called on the surface of all tools, where none has to be loaded first.
            surface=tools.surface if found is None else None,
            native_call_id=_native_id(context),
        )
        identity = self._identity(context, f"tools/call {tool.name}", arguments)
        refuse_without_tasks(context, found)
        exchange = self._find_exchange(context, params, identity)
        if exchange.task is None:
            run, started = self._new_run(exchange, identity), await self._waiting.take(identity, exchange)
            if started is None:
                started = await run.start(tool)
                if not declares_tasks(context) and await self._ends_plainly(run):
                    return await run.resume(started)
            self._runs[exchange.exchange_id] = run
            exchange.start(self._group, partial(run.resume, started))
        if not declares_tasks(context):
            return await self._attend(context, exchange, identity)
        within_s = 0.0 if runs_in_background(found) else TASK_AFTER_S
        return await self._attend(context, exchange, identity, within_s)

    async def _ends_plainly(self, run: ToolRun) -> bool:
        """Wait until a call has ended, or needs its client meanwhile; return whether it has ended without that.

        Most calls do, and need no task that asks the client.
        """
        self._exchanges[run.exchange.exchange_id] = run.exchange
        try:
            return not await run.exchange.changed() and run.has_ended
        except asyncio.CancelledError:
            run.exchange.start(self._group, run.cancel)
            raise
        finally:
            self._drop(run.exchange.exchange_id)

    def _new_run(self, exchange: ClientExchange, identity: CallIdentity) -> ToolRun:
        return ToolRun(
            runtime=self._conversation(identity.actor),
            exchange=exchange,
            identity=identity,
            waiting=self._waiting,
            answer_command=self._options.answer_command,
            approvals_url=self._options.approvals_url,
            asks_client=self._options.asks_client,
            approves_own_calls=self._options.approves_own_calls,
        )

    def _serves(self, invocation: ToolInvocation) -> bool:
        return has_tool(self._options.role, tool_name(invocation.tool_id))

    def _open_conversation(self, actor: str | None) -> Runtime:
        """Return the runtime in the conversation of an actor on this profile, which bounds the output that it reads."""
        profile = self._options.profile
        return self._runtime.in_thread(Thread.of_caller(actor or "", f"mcp.{profile}" if profile else None))

    def _resume_task(self, context: RequestContext, invocation: ToolInvocation) -> ToolRun:
        """Return the run of a call that an earlier process started as a task."""
        invocation_id = invocation.invocation_id
        exchange = ClientExchange(context, secrets.token_hex(8))
        run = self._new_run(exchange, self._identity(context, f"tasks/get {invocation_id}", {}))
        exchange.start(self._group, lambda: run.resume(invocation_id))
        return run

    def _find_exchange(
        self, context: RequestContext, params: types.InputResponseRequestParams, identity: CallIdentity
    ) -> ClientExchange:
        """Return the exchange that a request continues, with the replies of the client; otherwise a new one."""
        replies = {key: reply_members(each) for key, each in (params.input_responses or {}).items()}
        if params.request_state is None:
            return ClientExchange(context, secrets.token_hex(8), self._sessions.log_level(context), replies)
        try:
            exchange_id = self._states.verify(params.request_state, identity, time.time())
        except StateError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        found = self._exchanges.get(exchange_id)
        if found is not None:
            found.reply(replies)
            return found
        if self._waiting.find(identity) is None:
            message = "the call of this requestState has ended, or its process was restarted; make the call again"
            raise MCPError(types.INVALID_PARAMS, message)
        return ClientExchange(context, exchange_id, replies=replies)

    async def _attend(
        self, context: RequestContext, exchange: ClientExchange, identity: CallIdentity, within_s: float | None = None
    ) -> types.Result:
        """Return the result of an exchange, the input that it needs, or a task if it takes longer than `within_s`."""
        self._exchanges[exchange.exchange_id] = exchange
        if len(self._exchanges) > MAX_EXCHANGES:
            ended = (key for key, each in self._exchanges.items() if each.has_ended)
            self._drop(next(ended, ""))
        result = None
        try:
            result = await exchange.attend(context, within_s)
        finally:
            if exchange.has_ended or (exchange.task is not None and exchange.task.cancelling()):
                self._drop(exchange.exchange_id)
        if result is not None:
            return result
        if within_s is not None and (not exchange.pending or not within_s):
            created = await self._tasks.create(self._runs[exchange.exchange_id])
            self._drop(exchange.exchange_id)
            return created
        return types.InputRequiredResult(
            input_requests=exchange.input_requests(),
            request_state=self._states.sign(identity, exchange.exchange_id, time.time()),
        )

    def _drop(self, exchange_id: str) -> None:
        self._exchanges.pop(exchange_id, None)
        self._runs.pop(exchange_id, None)

    def _identity(self, context: RequestContext, target: str, arguments: JsonObject) -> CallIdentity:
        return CallIdentity(
            caller=self._caller(context), profile=self._options.profile, target=target, arguments=arguments
        )

    def _caller(self, context: RequestContext) -> Principal | str | None:
        return principal_of(context) or self._options.actor

    def _actor(self, context: RequestContext) -> str | None:
        return name_of_actor(self._caller(context))

    def _lists(
        self, kind: OfferKind, result: type[types.Result]
    ) -> tuple[type[types.PaginatedRequestParams], Callable[..., Awaitable[types.Result]]]:
        """Return the parameters and the handler of a method that lists resources, templates or prompts."""

        async def handle(context: RequestContext, params: types.PaginatedRequestParams | None) -> types.Result:
            page = await self._offers.entries_for(kind, self._caller(context))
            meta = {"_meta": {FAULTS_KEY: page.faults}} if page.faults else {}
            return result.model_validate({kind.value: page.entries, **meta})

        return types.PaginatedRequestParams, handle

    async def _read_resource(self, context: RequestContext, params: types.ReadResourceRequestParams) -> types.Result:
        identity = self._identity(context, f"resources/read {params.uri}", {})

        async def work(call: GovernedCall) -> types.Result:
            if params.uri.startswith(PAYLOAD_SCHEME):
                members = await read_stored_output(self._conversation(identity.actor), params.uri, identity.actor)
            else:
                members = await self._offers.read(params.uri, identity.caller, call)
            if members is None:
                code = types.INVALID_PARAMS if is_stateless(context) else OLD_NOT_FOUND
                raise MCPError(code, "Resource not found", {"uri": params.uri})
            if "cacheScope" in members:  # rules decide per caller, so no cache may serve it to another one
                members = {**members, "cacheScope": "private"}
            return types.ReadResourceResult.model_validate(members)

        return await self._run_exchange(context, params, identity, work)

    async def _get_prompt(self, context: RequestContext, params: types.GetPromptRequestParams) -> types.Result:
        arguments = params.arguments or {}
        identity = self._identity(context, f"prompts/get {params.name}", {**arguments})

        async def work(call: GovernedCall) -> types.Result:
            members = await self._offers.prompt(params.name, arguments, identity.actor, call)
            return types.GetPromptResult.model_validate(members)

        return await self._run_exchange(context, params, identity, work)

    async def _run_exchange(
        self,
        context: RequestContext,
        params: types.InputResponseRequestParams,
        identity: CallIdentity,
        work: Callable[[GovernedCall], Awaitable[types.Result]],
    ) -> types.Result:
        """Run work that may make governed calls and send requests to the client; return its result."""
        exchange = self._find_exchange(context, params, identity)
        if exchange.task is None:
            call = _governed_call(context, lambda: self._new_run(exchange, identity))
            exchange.start(self._group, lambda: work(call))
        return await self._attend(context, exchange, identity)

    async def _subscribe(self, context: RequestContext, params: types.SubscribeRequestParams) -> types.Result:
        session, uri = self._sessions.of(context), params.uri
        if session is None or uri in session.subscriptions:
            return types.EmptyResult()

        async def notify() -> None:
            if not session.is_ended:
                updated = types.ResourceUpdatedNotificationParams(uri=uri)
                await session.channel.send_notification(types.ResourceUpdatedNotification(params=updated))

        unsubscribe = await self._subscribed(context, uri, notify)
        if unsubscribe is None:
            message = "no source notices changes of this resource; read it again when you need it"
            raise MCPError(types.INVALID_PARAMS, message, {"uri": uri})
        session.unsubscribe(uri)
        session.subscriptions[uri] = unsubscribe
        if session.is_ended:
            session.unsubscribe(uri)
        return types.EmptyResult()

    async def _subscribed(self, context: RequestContext, uri: str, notify: Notice) -> Unsubscribe | None:
        """Notify a client of each change of a resource that it may still read; None if no change is noticed."""
        key = object()

        async def notify_allowed(is_allowed: StillAllowed) -> None:
            if await is_allowed():
                await notify()

        return await self._offers.subscribe(
            uri, self._caller(context), lambda is_allowed: self._schedule(key, partial(notify_allowed, is_allowed))
        )

    async def _unsubscribe(self, context: RequestContext, params: types.UnsubscribeRequestParams) -> types.Result:
        session = self._sessions.of(context)
        if session is not None:
            session.unsubscribe(params.uri)
        return types.EmptyResult()

    async def _listen(
        self, context: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of changes; it acknowledges only the resources whose changes are noticed."""
        if len(self._streams) >= MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, f"{MAX_STREAMS} streams are open, which is the limit; try again later")
        stream, wanted = ListenStream(self._sessions.bus), params.notifications
        uris = tuple(dict.fromkeys(wanted.resource_subscriptions or ()))
        if len(uris) > MAX_SUBSCRIPTIONS:
            message = f"a caller can subscribe to {MAX_SUBSCRIPTIONS} resources, got {len(uris)}; send fewer"
            raise MCPError(types.INVALID_PARAMS, message)
        with ExitStack() as ending:

            async def subscribe(uri: str) -> bool:
                with suppress(MCPError):
                    notify = partial(stream.publish, ResourceUpdated(uri=uri))
                    unsubscribe = await self._subscribed(context, uri, notify)
                    if unsubscribe is not None:
                        ending.callback(unsubscribe)
                        return True
                return False

            self._streams.add(stream)
            ending.callback(self._streams.discard, stream)
            async with asyncio.TaskGroup() as group:
                tasks = {uri: group.create_task(subscribe(uri)) for uri in uris}
            honored = [uri for uri, task in tasks.items() if task.result()]
            notifications = wanted.model_copy(update={"resource_subscriptions": honored})
            return await ListenHandler(stream)(context, params.model_copy(update={"notifications": notifications}))

    async def _set_log_level(self, context: RequestContext, params: types.SetLevelRequestParams) -> types.Result:
        session = self._sessions.of(context)
        if session is not None:
            session.log_level = params.level
        return types.EmptyResult()

    async def _complete(self, context: RequestContext, params: types.CompleteRequestParams) -> types.Result:
        members = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        members.pop("_meta", None)
        identity = self._identity(context, "completion/complete", members)
        exchange = ClientExchange(context, secrets.token_hex(8), self._sessions.log_level(context))
        call = _governed_call(context, lambda: replace(self._new_run(exchange, identity), denies_questions=True))
        return types.CompleteResult.model_validate(await self._offers.completion(members, identity.caller, call))

    async def _search(self, context: RequestContext, tools: ToolList, arguments: JsonObject) -> types.CallToolResult:
        query, limit = arguments.get("query"), arguments.get("limit", _DEFAULT_MATCHES)
        if not isinstance(query, str) or not isinstance(limit, int):
            return text_result("invalid_arguments: query is a text and limit a number; correct them", is_error=True)
        try:
            found = await self._runtime.search(query, surface=tools.surface, limit=limit)
        except ConfigError as error:
            return text_result(f"invalid_arguments: {error}", is_error=True)
        names = [str(each.name) for each in found.matches if isinstance(each, SearchMatch)]
        matches = definitions(tools, names)
        session = self._sessions.of(context)
        if session is not None:
            await session.load(str(each["name"]) for each in matches)
        advice = f"run one with {TOOL_CALL}" if matches else "nothing matches: use other words, or fewer"
        reply: JsonObject = {"matches": [*matches], "next_step": advice}
        return text_result(json_bytes(reply).decode(), structured=reply)


_INSTRUCTIONS = (
    "Every call is checked against rules, and may wait for a person's approval. A failed call says what to change."
    f" If {TOOL_SEARCH} is listed, it finds the tools that are not, and {TOOL_CALL} runs them."
    " Read the rest of a large output with read_result, or by its resource link."
)


def _governed_call(context: RequestContext, new_run: Callable[[], ToolRun]) -> GovernedCall:
    """Return what calls the tools that read for a request, each in a run of its own."""
    native_id = _native_id(context)

    async def call(name: str, arguments: JsonObject) -> ToolResult:
        tool = RequestedTool(
            name=name, arguments=arguments, surface=None, native_call_id=native_id, ends_with_process=True
        )
        return await new_run().read(tool)

    return call


def _native_id(context: RequestContext) -> str | None:
    return None if context.request_id is None else str(context.request_id)


def _inner_call(arguments: JsonObject) -> tuple[str, JsonObject]:
    """Return the tool and the arguments of a `tool_call`."""
    name, inner = arguments.get("name"), arguments.get("arguments", {})
    return name if isinstance(name, str) else "", inner if isinstance(inner, dict) else {}
