"""The MCP server of a runtime: the handlers of its methods, for every transport."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.subscriptions import ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from agenttool import __version__
from agenttool.adapters.mcp.content import valid_reply
from agenttool.adapters.mcp.session import TASKS_EXTENSION
from agenttool.adapters.mcp.source import McpSource
from agenttool.codec import json_bytes, object_of
from agenttool.errors import ConfigError, QuotaError
from agenttool.mcp.callers import ParamsT, bound_introduction, principal_of, within_quota
from agenttool.mcp.calls import ToolRun
from agenttool.mcp.exchange import (
    ClientExchange,
    RequestContext,
    has_started,
    is_stateless,
    reply_members,
    wait_for_start,
    wire,
)
from agenttool.mcp.listing import INSTRUCTIONS, TOOL_CALL, TOOL_SEARCH, ToolList, ToolLister, definitions
from agenttool.mcp.offer_lists import OLD_NOT_FOUND
from agenttool.mcp.offers import GovernedCall, Offers, StillAllowed
from agenttool.mcp.profiles import McpOptions, has_source
from agenttool.mcp.results import read_stored_output, text_result
from agenttool.mcp.sessions import TOOLS, ClientSessions, ListenStream, ListName, Notice, NotifyingServer
from agenttool.mcp.state import CallIdentity, RequestStates, WaitingCalls
from agenttool.mcp.tasks import ClientTasks, TaskParams, TaskUpdateParams, refuse_without_tasks, task_after_s
from agenttool.ports.deferred import Thread
from agenttool.ports.identity import Principal, name_of_actor
from agenttool.ports.quota import PER_CALLER, CallerQuota, OwnedEntries
from agenttool.ports.resources import OfferKind, Unsubscribe
from agenttool.records import PAYLOAD_SCHEME, InvocationId, JsonObject, SearchMatch, ToolInvocation, ToolResult
from agenttool.runtime import Runtime

log = logging.getLogger("agenttool.mcp")

LIST_TTL_MS = 30_000
"""How long a client may use a list without asking again, if it does not listen to changes."""

WATCH_S = 1.0
"""How long a client may take to read a notice, and the interval at which new sources are looked for."""

SETTLE_S = 0.05
"""How long further changes are collected before a list is compared with the one before."""

REPORT_S = 5.0
"""The interval at which a client that waits for the first list of tools is sent the names of the missing servers."""

MAX_EXCHANGES = 10_000
"""How many exchanges of all callers are stored; beyond it, old ones that have ended are dropped."""

MAX_STREAMS = 1_024
"""How many streams of `subscriptions/listen` are open at the same time."""

FAULTS_KEY = "agenttool/faults"
"""The member of a list's `_meta` with the sources whose entries may be missing or old, and the reasons."""

_DEFAULT_MATCHES = 5


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
        self._sessions = ClientSessions()
        self._streams: set[ListenStream] = set()
        self._streams_quota = CallerQuota("MCP listen streams")
        self._notices: dict[object, Notice] = {}
        self._is_scheduled = asyncio.Event()
        self._logged: frozenset[str] = frozenset()
        self._exchanges: OwnedEntries[str, ClientExchange] = OwnedEntries(
            "MCP requests",
            MAX_EXCHANGES,
            on_drop=lambda each: self._runs.pop(each.exchange_id, None),
            may_drop=lambda each: each.has_ended,
        )
        self._runs: dict[str, ToolRun] = {}
        self._tasks = ClientTasks(runtime, options.role, self._actor, self._resume_task)
        self.lowlevel = self._make_lowlevel()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, runtime: Runtime, options: McpOptions | None = None, starting: asyncio.Task[None] | None = None
    ) -> AsyncGenerator["RuntimeMcpServer"]:
        """Yield the server of a runtime that the caller has entered; leaving it stops what runs for clients.

        If the task `starting` enters the runtime, requests wait for it, except those that begin a connection.

        Raises:
            StoreError: the store cannot be used.
        """
        documents = runtime.inspection.documents if runtime.inspection.is_durable else None
        states, waiting = await RequestStates.open(documents), WaitingCalls(documents)
        await waiting.load()
        async with asyncio.TaskGroup() as group:
            server = cls(runtime, options or McpOptions(), states, waiting, group)
            if starting is not None:
                server.lowlevel.middleware.append(partial(wait_for_start, starting))
            watching, loop = group.create_task(server._watch(starting)), asyncio.get_running_loop()
            unwatch = runtime.inspection.watch_tools(lambda: loop.call_soon_threadsafe(server._is_scheduled.set))
            try:
                yield server
            finally:
                unwatch()
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
            instructions=self._options.instructions or INSTRUCTIONS,
            cache_hints={
                "tools/list": hint,
                "prompts/list": hint,
                "resources/list": hint,
                "resources/templates/list": hint,
            },
            get_tool_input_schema=self._lister.schema_of,
            on_subscriptions_listen=within_quota(self._listen),
        )

        def add(
            method: str, params: type[ParamsT], handler: Callable[[RequestContext, ParamsT], Awaitable[JsonObject]]
        ) -> None:
            async def handle(context: RequestContext, given: ParamsT) -> dict[str, object]:
                reply = await handler(context, given)
                return {"resultType": "complete", **reply} if reply else {}

            server.add_request_handler(method, params, within_quota(handle))

        add("tools/list", types.PaginatedRequestParams, self._list_tools)
        add("tools/call", types.CallToolRequestParams, self._call_tool)
        add("resources/list", types.PaginatedRequestParams, partial(self._list_offers, OfferKind.RESOURCES))
        add("resources/templates/list", types.PaginatedRequestParams, partial(self._list_offers, OfferKind.TEMPLATES))
        add("resources/read", types.ReadResourceRequestParams, self._read_resource)
        add("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        add("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        add("logging/setLevel", types.SetLevelRequestParams, self._set_log_level)
        add("prompts/list", types.PaginatedRequestParams, partial(self._list_offers, OfferKind.PROMPTS))
        add("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        add("completion/complete", types.CompleteRequestParams, self._complete)
        add("tasks/get", TaskParams, self._tasks.get)
        add("tasks/update", TaskUpdateParams, self._tasks.update)
        add("tasks/cancel", TaskParams, self._tasks.cancel)
        server.extensions = {TASKS_EXTENSION: {}}
        server.middleware.append(bound_introduction)
        return server

    async def _watch(self, starting: asyncio.Task[None] | None) -> None:
        """Notify clients of changed lists and resources, as long as the server runs."""
        if starting is not None and not await has_started(starting):
            return
        listed = await self._lister.current()
        while True:
            self._offers.watch()
            for each in self._runtime.sources.all_of(McpSource):
                each.watch_tools(self._tools_announced)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._is_scheduled.wait()
                await asyncio.sleep(SETTLE_S)
            self._is_scheduled.clear()
            before, listed = listed, await self._lister.current()
            if listed is not before and listed.shown != before.shown:
                self._list_changed(TOOLS)
            notices, self._notices = self._notices, {}
            async with asyncio.TaskGroup() as group:
                for key, notice in notices.items():
                    group.create_task(self._send_notice(key, notice))

    async def _send_notice(self, key: object, notice: Notice) -> None:
        """Send a notice; again later if its client does not read."""
        try:
            async with asyncio.timeout(WATCH_S):
                await notice()
        except TimeoutError:
            self._notices.setdefault(key, notice)

    def _tools_announced(self, source: str) -> None:
        """Notify clients that a server announced changed tools, even if its list is the same."""
        if has_source(self._options.role, source):
            self._list_changed(TOOLS)

    def _list_changed(self, changed: ListName) -> None:
        for key, notice in self._sessions.notices(changed):
            self._schedule(key, notice)

    def _schedule(self, key: object, notice: Notice) -> None:
        """Send a notice soon; of those with one key, only the latest."""
        self._notices[key] = notice
        self._is_scheduled.set()

    async def _list_tools(self, context: RequestContext, params: types.PaginatedRequestParams) -> JsonObject:
        session = self._sessions.of(context)  # registers it, so that it is notified of changes from now on
        await self._wait_for_servers(context)
        tools, missing = await self._tools(), self._missing_sources()
        if session is not None and session.loaded:
            tools = tools.with_loaded(session.loaded)
        try:
            page, cursor = tools.page(params.cursor)
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"{error}; begin without a cursor") from None
        reply: JsonObject = {"tools": [*page]}
        reply |= {} if cursor is None else {"nextCursor": cursor}
        return _with_faults(reply | {"ttlMs": 0} if missing else reply, missing)

    async def _wait_for_servers(self, context: RequestContext) -> None:
        """Wait for the servers that start for the first time, each for its `start_timeout_s`; report which are missing.

        A server that has failed is not awaited: clients are notified once it is ready.
        """
        starting = {
            each.name: each
            for each in self._runtime.sources.all_of(McpSource)
            if each.is_starting and has_source(self._options.role, each.name)
        }
        if not starting:
            return
        async with asyncio.TaskGroup() as group:
            waiting = {group.create_task(each.check()): name for name, each in starting.items()}
            progress = 0.0
            while waiting:
                message = f"waits for the start of {', '.join(map(repr, sorted(waiting.values())))}"
                await context.session.report_progress(progress, len(starting), message)
                ended, _ = await asyncio.wait(waiting, timeout=REPORT_S, return_when=asyncio.FIRST_COMPLETED)
                for each in ended:
                    del waiting[each]
                progress = max(len(starting) - len(waiting), progress + 0.001)

    def _missing_sources(self) -> dict[str, str]:
        """Return the sources of the profile whose tools cannot be used now, each with the reason."""
        found = sorted(each for each in self._runtime.sources.not_ready if has_source(self._options.role, each))
        for each in found:
            if each not in self._logged:
                log.warning("the list of tools lacks the server %r, which is not connected", each)
        self._logged = frozenset(found)
        return dict.fromkeys(found, "it is not connected, and is tried again; the list changes once it is")

    async def _tools(self) -> ToolList:
        try:
            return await self._lister.current()
        except ConfigError as error:  # the runtime is closed
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error

    async def _call_tool(self, context: RequestContext, params: types.CallToolRequestParams) -> JsonObject:
        tools, name = await self._tools(), params.name
        arguments = object_of(params.arguments)
        if tools.is_searched and name == TOOL_SEARCH:
            return await self._search(context, tools, arguments)
        if tools.is_searched and name == TOOL_CALL:
            given, arguments = arguments.get("name"), object_of(arguments.get("arguments"))
            name = given if isinstance(given, str) else ""
        found = tools.find(name)
        if found is None and (meant := tools.without_source(name)):
            advice = " or ".join(map(repr, meant))
            return text_result(f"unknown_tool: no tool is named {name!r}; did you mean {advice}?")
        called = self._lister.absent_name(tools, name) if found is None else found.qualified_name
        identity = self._identity(context, f"tools/call {called}", arguments)
        refuse_without_tasks(context, found)
        exchange = await self._find_exchange(context, params, identity)
        exchange.task_after_s = task_after_s(context, found)
        if exchange.task is None:
            run, started = self._new_run(exchange, identity), exchange.ended
            started = started or await self._waiting.take(identity, exchange)
            if started is None:
                # A tool of the profile is called on the surface of all tools, where none has to be loaded first.
                started = await run.start(called, arguments, tools.surface if found is None else None)
                if exchange.task_after_s is None and await self._ends_plainly(run):
                    return await run.resume(started)
            self._runs[exchange.exchange_id] = run
            exchange.start(self._group, partial(run.resume, started))
        return await self._attend(context, exchange, identity)

    async def _ends_plainly(self, run: ToolRun) -> bool:
        """Wait until a call has ended, or needs its client meanwhile; return whether it has ended without that.

        Most calls do, and need no task that asks the client.
        """
        self._exchanges.add(run.identity.actor, run.exchange.exchange_id, run.exchange)
        try:
            return not await run.exchange.changed() and run.result is not None
        except asyncio.CancelledError:
            run.exchange.start(self._group, run.cancel)
            raise
        finally:
            self._drop(run.exchange.exchange_id)

    def _new_run(self, exchange: ClientExchange, identity: CallIdentity, *, denies_questions: bool = False) -> ToolRun:
        return ToolRun(
            runtime=self._conversation(identity.actor),
            exchange=exchange,
            identity=identity,
            waiting=self._waiting,
            options=self._options,
            denies_questions=denies_questions,
        )

    def _governed(
        self, exchange: ClientExchange, identity: CallIdentity, *, denies_questions: bool = False
    ) -> GovernedCall:
        """Return what calls the tools that read for a request, each in a run of its own."""

        def call(name: str, arguments: JsonObject) -> Awaitable[ToolResult]:
            return self._new_run(exchange, identity, denies_questions=denies_questions).read(name, arguments)

        return call

    def _conversation(self, actor: str | None) -> Runtime:
        """Return the runtime in the conversation of an actor on this profile, which bounds the output that it reads."""
        caller, profile = actor or "", self._options.profile
        thread = Thread.of_caller(caller, f"mcp.{profile}" if profile else None)
        return self._runtime.in_thread(thread, caller=caller)

    def _resume_task(self, context: RequestContext, invocation: ToolInvocation) -> ToolRun:
        """Return the run of a call that an earlier process started as a task."""
        invocation_id = invocation.invocation_id
        exchange = ClientExchange(context, secrets.token_hex(8), task_after_s=0.0)
        run = self._new_run(exchange, self._identity(context, f"tasks/get {invocation_id}", {}))
        exchange.start(self._group, lambda: run.resume(invocation_id))
        return run

    async def _find_exchange(
        self, context: RequestContext, params: types.InputResponseRequestParams, identity: CallIdentity
    ) -> ClientExchange:
        """Return the exchange that a request continues, with the replies of the client; otherwise a new one."""
        replies = {key: reply_members(each) for key, each in (params.input_responses or {}).items()}
        if params.request_state is None:
            self._exchanges.check(identity.actor)
            return ClientExchange(context, secrets.token_hex(8), self._sessions.log_level(context), replies)
        exchange_id, _, call = self._states.verify(params.request_state, identity, time.time()).partition(" ")
        found = self._exchanges.get(exchange_id)
        if found is not None:
            found.reply(replies)
            return found
        if call and await self._runtime.journal.result(call) is not None:  # the reply with its result was lost
            return ClientExchange(context, exchange_id, ended=InvocationId(call))
        if self._waiting.find(identity) is None:
            message = "the call of this requestState has ended, or its process was restarted; make the call again"
            raise MCPError(types.INVALID_PARAMS, message)
        return ClientExchange(context, exchange_id, replies=replies)

    async def _attend(self, context: RequestContext, exchange: ClientExchange, identity: CallIdentity) -> JsonObject:
        """Return the result of an exchange, the input that it needs, or a task."""
        self._exchanges.add(identity.actor, exchange.exchange_id, exchange)
        result = None
        try:
            result = await exchange.attend(context)
        finally:
            if exchange.has_ended or (exchange.task is not None and exchange.task.cancelling()):
                self._drop(exchange.exchange_id)
        if result is not None:
            return result
        after_s = exchange.task_after_s
        if after_s is not None and (exchange.is_long or not exchange.pending or not after_s):
            created = await self._tasks.create(self._runs[exchange.exchange_id])
            self._drop(exchange.exchange_id)
            return created
        run = self._runs.get(exchange.exchange_id)
        continues = f"{exchange.exchange_id} {run.invocation_id}" if run is not None else exchange.exchange_id
        state = self._states.sign(identity, continues, time.time())
        return {"resultType": "input_required", "inputRequests": exchange.input_requests(), "requestState": state}

    def _drop(self, exchange_id: str) -> None:
        self._exchanges.pop(exchange_id)
        self._runs.pop(exchange_id, None)

    def _identity(self, context: RequestContext, target: str, arguments: JsonObject) -> CallIdentity:
        return CallIdentity(
            caller=self._caller(context), profile=self._options.profile, target=target, arguments=arguments
        )

    def _caller(self, context: RequestContext) -> Principal | str | None:
        return principal_of(context) or self._options.actor

    def _actor(self, context: RequestContext) -> str | None:
        return name_of_actor(self._caller(context))

    async def _list_offers(
        self, kind: OfferKind, context: RequestContext, params: types.PaginatedRequestParams
    ) -> JsonObject:
        page = await self._offers.entries_for(kind, self._caller(context))
        return _with_faults({kind.value: [*page.entries]}, page.faults)

    async def _read_resource(self, context: RequestContext, params: types.ReadResourceRequestParams) -> JsonObject:
        identity = self._identity(context, f"resources/read {params.uri}", {})

        async def work(call: GovernedCall) -> JsonObject:
            if params.uri.startswith(PAYLOAD_SCHEME):
                members = await read_stored_output(self._conversation(identity.actor), params.uri, identity.actor)
            else:
                members = await self._offers.read(OfferKind.RESOURCES, params.uri, {}, identity.caller, call)
            if members is None:
                code = types.INVALID_PARAMS if is_stateless(context) else OLD_NOT_FOUND
                raise MCPError(code, "Resource not found", {"uri": params.uri})
            # Rules decide per caller, so no cache may serve it to another one.
            return {"ttlMs": 0, **valid_reply(members, types.ReadResourceResult), "cacheScope": "private"}

        return await self._run_exchange(context, params, identity, work)

    async def _get_prompt(self, context: RequestContext, params: types.GetPromptRequestParams) -> JsonObject:
        arguments = params.arguments or {}
        identity = self._identity(context, f"prompts/get {params.name}", {**arguments})

        async def work(call: GovernedCall) -> JsonObject:
            given: JsonObject = {"arguments": {**arguments}}
            members = await self._offers.read(OfferKind.PROMPTS, params.name, given, identity.caller, call)
            if members is None:
                raise MCPError(types.INVALID_PARAMS, f"no prompt is named {params.name!r}; list the prompts")
            return valid_reply(members, types.GetPromptResult)

        return await self._run_exchange(context, params, identity, work)

    async def _run_exchange(
        self,
        context: RequestContext,
        params: types.InputResponseRequestParams,
        identity: CallIdentity,
        work: Callable[[GovernedCall], Awaitable[JsonObject]],
    ) -> JsonObject:
        """Run work that may make governed calls and send requests to the client; return its result."""
        exchange = await self._find_exchange(context, params, identity)
        if exchange.task is None:
            exchange.start(self._group, lambda: work(self._governed(exchange, identity)))
        return await self._attend(context, exchange, identity)

    async def _subscribe(self, context: RequestContext, params: types.SubscribeRequestParams) -> JsonObject:
        session, uri = self._sessions.of(context), params.uri
        if session is None or uri in session.subscriptions:
            return {}

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
        return {}

    async def _subscribed(self, context: RequestContext, uri: str, notify: Notice) -> Unsubscribe | None:
        """Notify a client of each change of a resource that it may still read; None if no change is noticed."""
        key = object()

        async def notify_allowed(is_allowed: StillAllowed) -> None:
            if await is_allowed():
                await notify()

        return await self._offers.subscribe(
            uri, self._caller(context), lambda is_allowed: self._schedule(key, partial(notify_allowed, is_allowed))
        )

    async def _unsubscribe(self, context: RequestContext, params: types.UnsubscribeRequestParams) -> JsonObject:
        session = self._sessions.of(context)
        if session is not None:
            session.unsubscribe(params.uri)
        return {}

    async def _listen(
        self, context: RequestContext, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of changes; it acknowledges only the resources whose changes are noticed."""
        if len(self._streams) >= MAX_STREAMS:
            raise MCPError(types.INTERNAL_ERROR, f"{MAX_STREAMS} streams are open, which is the limit; try again later")
        stream, wanted = ListenStream(self._sessions.bus), params.notifications
        uris = tuple(dict.fromkeys(wanted.resource_subscriptions or ()))
        limit = PER_CALLER["resource subscriptions"]
        if len(uris) > limit:
            message = f"a caller can subscribe to {limit} resources, got {len(uris)}; send fewer"
            raise MCPError(types.INVALID_PARAMS, message)
        with ExitStack() as ending:
            ending.enter_context(self._streams_quota.hold(self._actor(context)))

            async def subscribe(uri: str) -> bool:
                with suppress(MCPError, QuotaError):
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

    async def _set_log_level(self, context: RequestContext, params: types.SetLevelRequestParams) -> JsonObject:
        session = self._sessions.of(context)
        if session is not None:
            session.log_level = params.level
        return {}

    async def _complete(self, context: RequestContext, params: types.CompleteRequestParams) -> JsonObject:
        members = wire(params)
        members.pop("_meta", None)
        identity = self._identity(context, "completion/complete", members)
        exchange = ClientExchange(context, secrets.token_hex(8), self._sessions.log_level(context))
        call = self._governed(exchange, identity, denies_questions=True)
        return await self._offers.completion(members, identity.caller, call)

    async def _search(self, context: RequestContext, tools: ToolList, arguments: JsonObject) -> JsonObject:
        query, limit = arguments.get("query"), arguments.get("limit", _DEFAULT_MATCHES)
        if not isinstance(query, str) or not isinstance(limit, int):
            return text_result("invalid_arguments: query is a text and limit a number; correct them")
        try:
            found = await self._runtime.search(query, surface=tools.surface, limit=limit)
        except ConfigError as error:
            return text_result(f"invalid_arguments: {error}")
        matches = definitions(tools, [str(each.name) for each in found.matches if isinstance(each, SearchMatch)])
        session = self._sessions.of(context)
        if session is not None:
            await session.load(str(each["name"]) for each in matches)
        advice = f"run one with {TOOL_CALL}" if matches else "nothing matches: use other words, or fewer"
        reply: JsonObject = {"matches": [*matches], "next_step": advice}
        return text_result(json_bytes(reply).decode(), structured=reply)


def _with_faults(reply: JsonObject, faults: Mapping[str, str]) -> JsonObject:
    """Return a list with the sources whose entries may be missing or old."""
    return {**reply, "_meta": {FAULTS_KEY: {**faults}}} if faults else reply
