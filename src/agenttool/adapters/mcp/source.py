"""An MCP server as a source: connects to it, declares its tools, and finds the connection of each call."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx2

from agenttool.adapters.declared_tools import DeclaredTools
from agenttool.adapters.mcp.connection import Connection, Unavailable, Waiting
from agenttool.adapters.mcp.declare import declare, definition_fault
from agenttool.adapters.mcp.elicitation import ask_tool
from agenttool.adapters.mcp.execute import TASKS, McpExecutor
from agenttool.adapters.mcp.http import open_http
from agenttool.adapters.mcp.oauth import Login, LoopbackLogin, make_auth
from agenttool.adapters.mcp.processes import ServerLog, ServerProcess
from agenttool.adapters.mcp.resources import (
    OPERATIONS,
    TASKS_FEATURE,
    features_of,
    listed_features,
    offered_name,
    reading_tool,
)
from agenttool.adapters.mcp.server_requests import Sample, ServerRequests
from agenttool.adapters.mcp.session import Exchange, McpSession, MessageStreams, SessionId
from agenttool.adapters.mcp.settings import McpServer, read_server
from agenttool.adapters.mcp.stdio import open_pipes
from agenttool.adapters.polled_work import PolledWork
from agenttool.adapters.source_settings import credentials_in, fill_credentials, folder_of, read_all
from agenttool.adapters.tool_review import ReviewedTools, SourceWithReview, ToolReview
from agenttool.config import environment
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, CredentialMissing
from agenttool.ports.executor import Job
from agenttool.ports.resources import OfferChanged, OfferKind, Unsubscribe
from agenttool.ports.source import SourceHost, SourceSettings, SourceStatus
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Json, JsonObject, Lifecycle
from agenttool.records import replace as replace_record

log = logging.getLogger("agenttool.mcp")

LEGACY = "legacy"
"""The mode of a connection that begins with the handshake of revisions up to 2025-11-25."""

FIRST_ANSWER_S = 10.0
"""How long a runtime that opens waits for servers whose tools it does not know yet."""

IDLE_S = 600.0
"""After how long without a call the connection of one actor is closed."""

MAX_ACTORS = 200
"""How many actors are connected at the same time; beyond it, the connection that is idle for longest is closed."""

_INHERITED_ENV = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
FULL_RETRY_S = 5.0
"""The time after which to repeat a call that found too many actors connected."""

LOGIN_S = 600.0
"""How long a user may take to log in."""

_DECISIVE = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""The members of a definition that a model or a person relies on."""


def make_sources(settings: Sequence[SourceSettings]) -> tuple["McpSource", ...]:
    """Return one source for each server.

    Raises:
        ConfigError: a settings table is invalid.
    """
    servers = read_all(settings, McpServer, lambda each: read_server(each.name, each.members, folder_of(each)))
    return tuple(map(McpSource, servers))


class McpSource(SourceWithReview):
    """One MCP server and its tools.

    Attributes:
        server: its settings.
        login: how a user grants access; None if no user is at hand.
    """

    login: Login | None = None
    _sample: Sample | None = None
    _main: Connection

    def __init__(self, server: McpServer) -> None:
        """Take the settings; `connect` starts the server."""
        self.server = server
        self.name = server.name
        self._others: dict[tuple[str | None, str], Connection] = {}
        self.needs_newest = set[str]()
        self._closing: set[asyncio.Task[None]] = set()
        self._declared = DeclaredTools()
        self._review = ToolReview(server.name, "mcp_tools", _DECISIVE)
        self._listed: Mapping[str, JsonObject] = {}
        self._used: tuple[Mapping[str, JsonObject], ReviewedTools] | None = None
        self._invalid: tuple[str, ...] = ()
        self._offering: tuple[McpSession, tuple[str, ...]] | None = None
        self._offers_watched: list[OfferChanged] = []
        self._tools_watched: set[Callable[[str], None]] = set()
        self._headers_with_credentials = {name: text for name, text in server.headers.items() if credentials_in(text)}

    async def connect(self, host: SourceHost) -> None:
        """Declare the tools that are known from before.

        If there are none, or some wait for a review, start the server, and await it for some time.
        """
        self._host = host
        self._main = self._connection(None, self.server.protocol, is_main=True)
        known = await self._review.load(host.documents)
        self._main.start()
        is_known = known is not None and bool(known.accepted)
        if known is not None and is_known:
            self._review.tools = known
            await self._use(known.accepted)
            self._main.assume_ready()
            await self._report_state()
            if not known.waiting:
                return  # otherwise the server may have returned to what was accepted
        first = self._main.want()
        await asyncio.wait([first], timeout=FIRST_ANSWER_S)
        if not first.done() and not is_known:
            fault = f"the server {self.name!r} has not listed its tools after {FIRST_ANSWER_S:g} s; it is awaited"
            self._main.status = replace(self._main.status, fault=fault)
            await self._report_state()

    def health(self) -> tuple[SourceStatus, ...]:
        """Return the state of the server, and why some of its tools are not offered."""
        if not hasattr(self, "_main"):
            return ()
        status = self._main.status
        faults = [each for each in (status.fault, *self._invalid, self._review.fault) if each is not None]
        return (replace(status, fault="; ".join(faults) or None),)

    @property
    def is_starting(self) -> bool:
        """Whether its tools are not known yet, and no attempt to connect has failed."""
        status = self._main.status
        return status.state is ProviderState.CONNECTING and status.next_try_at_ns is None

    async def check(self) -> None:
        """Connect now if it is not connected, and wait for the outcome of the attempt."""
        await asyncio.wait([self._main.want()], timeout=self._start_timeout_s)

    def use_login(self, show: Callable[[str], None]) -> None:
        """Have a user log in when the server requires it; `show` shows the page. Call this before `connect`.

        Raises:
            ConfigError: the settings have no `oauth`.
        """
        if self.server.oauth is None:
            raise ConfigError(f"the source {self.name!r} has no oauth in its settings; write oauth = {{}}")
        self.login = LoopbackLogin(self.server, show)

    def use_sampling(self, sample: Sample) -> None:
        """Answer requests of the server to sample a model: `sample` takes the params and returns the result.

        Call this before `connect`.
        """
        self._sample = sample

    @property
    def _start_timeout_s(self) -> float:
        return self.server.start_timeout_s if self.login is None else LOGIN_S

    @property
    def protocol_version(self) -> str | None:
        """The revision of the open session; None if there is none."""
        return self._main.protocol_version

    @property
    def log(self) -> tuple[str, ...]:
        """The latest lines of the server's standard error and log messages."""
        return self._main.log.lines

    async def close(self) -> None:
        """Close all connections, and stop the processes."""
        connections = [*self._others.values(), *([self._main] if hasattr(self, "_main") else [])]
        await asyncio.gather(*(each.close() for each in connections), *self._closing)
        if self._review_watch is not None:  # the last list that a connection read may have started it
            self._review_watch.cancel()
            await asyncio.wait([self._review_watch])

    def connection_of(self, actor: str | None, /) -> Connection:
        """Return the connection that serves an actor.

        Raises:
            Unavailable: too many actors use the server now.
        """
        owner = None if self.server.sessions == "shared" else actor
        return self._main if owner is None else self._other_connection(owner, self.server.protocol)

    async def older_connection(
        self, actor: str | None, connection: Connection, waiting: Waiting, /
    ) -> Connection | None:
        """Return a connection of an actor with a session of an older revision; None if there can be none now.

        It waits within `waiting`.
        """
        if self.server.url is None or self.server.protocol == LEGACY:
            return None
        try:
            if not (await connection.session(waiting)).is_modern:
                return None
            older = self._other_connection(None if connection is self._main else actor, LEGACY)
            await older.session(waiting)
        except Unavailable as error:
            log.info("a call of an older client has no session of an older revision: %s", error.reason)
            return None
        return older

    def _other_connection(self, actor: str | None, mode: str) -> Connection:
        """Return a connection besides the main one: of one actor, of another revision, or both."""
        found = self._others.get((actor, mode))
        if found is None:
            if len(self._others) >= MAX_ACTORS:
                self._close_idle()
            found = self._others[actor, mode] = self._connection(actor, mode)
            found.start()
        return found

    def _close_idle(self) -> None:
        """Close the connection that has been idle for longest.

        Raises:
            Unavailable: all of them run calls.
        """
        idle = {key: each.idle_since for key, each in self._others.items() if each.idle_since is not None}
        if not idle:
            raise Unavailable(f"{MAX_ACTORS} actors use the server {self.name!r} now", FULL_RETRY_S)
        chosen = self._others.pop(min(idle, key=lambda each: idle[each]))
        closing = asyncio.create_task(chosen.close())  # noqa: TID251 -- `close` is its parent
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def headers_of(self, job: Job, /) -> dict[str, str]:
        """Return the headers that the requests of a call carry."""
        values = {name: secret.value for name, secret in job.credentials.items()}
        return {name: fill_credentials(text, values) for name, text in self._headers_with_credentials.items()}

    def refusal(self, tool: str, session: McpSession, /) -> str | None:
        """Return why a tool may not run in a session now; None if it may."""
        if tool not in self._listed:
            return f"the server {self.name!r} does not offer {tool!r} any more"
        if tool in session.refused_tools:
            review = f"run `agenttool sources review {self.name}`"
            return f"it offers this actor another {tool!r} than the one that was accepted; {review}"
        return self._review.advice(tool)

    def reading_tool(self, operation: str) -> str | None:
        """Return the qualified name of the tool for one of `OPERATIONS`; None if the server lacks the feature."""
        has_feature = self.server.resources and OPERATIONS[operation].feature in self._review.tools.features
        return f"{self.name}.{operation}" if has_feature else None

    async def read(self, operation: str, *, actor_ref: str | None = None, **members: Json) -> JsonObject:
        """Return the result of one of `OPERATIONS`, as the server sent it: `await source.read("list_resources")`.

        This is for programs; it passes no permission check, and is not recorded. `actor_ref` is the actor whose
        session and credentials are used.

        Raises:
            ConfigError: there is no such operation.
            CredentialMissing: the actor has no value of a credential.
            Unavailable: the server cannot be used now.
            MCPError: the server answered with an error.
        """
        if operation not in OPERATIONS:
            raise ConfigError(f"no operation is named {operation!r}; {suggestion(operation, OPERATIONS)}")
        session = await self.connection_of(actor_ref).session()
        headers = await self._filled(self._headers_with_credentials, actor_ref)
        return await session.request(OPERATIONS[operation].method, members, Exchange(headers=headers))

    def watch_offers(self, changed: OfferChanged) -> None:
        """Report changes of the lists of resources and prompts from now on."""
        self._offers_watched.append(changed)

    def watch_tools(self, announced: Callable[[str], None]) -> None:
        """Call a function with the name of the source each time the server announces that its tools have changed.

        It is called after they were read again. They may be the same as before.
        """
        self._tools_watched.add(announced)

    def _note_offers(self, kind: OfferKind) -> None:
        if self._offering is not None:
            self._offering = None  # a list may have its first entry now
            self._main.refresh()
        for each in self._offers_watched:
            each(kind)

    async def subscribe(
        self, uri: str, changed: Callable[[], None], actor_ref: str | None = None
    ) -> Unsubscribe | None:
        """Call a function after each change of a resource that the connection of the actor reports.

        This ends when the returned function is called. Returns None if the server does not report changes.

        Raises:
            Unavailable: the server cannot be used now.
            InvalidResult: it does not confirm the subscription in time.
            MCPError: it refused the subscription.
        """
        return await self.connection_of(actor_ref).subscribe(uri, changed)

    def _connection(self, actor: str | None, mode: str, *, is_main: bool = False) -> Connection:
        server = self.server
        return Connection(
            name=server.name,
            open_transport=lambda lines, session_id: self._transport(actor, lines, session_id),
            on_ready=self._load_tools if is_main else self._check_tools,
            is_waiting=lambda: bool(self.waiting),
            on_status=self._report_state,
            on_offers=self._note_offers,
            answers=ServerRequests(server, self._sample),
            start_timeout_s=self._start_timeout_s,
            mode=mode,
            now_ns=self._host.now_ns,
            idle_s=None if is_main else IDLE_S,
            on_end=lambda: self._others.pop((actor, mode), None),
        )

    @asynccontextmanager
    async def _transport(
        self, actor: str | None, lines: ServerLog, session_id: SessionId
    ) -> AsyncGenerator[MessageStreams]:
        server = self.server
        if server.command is None:
            url = await self._filled({"url": server.url or ""}, actor)
            reached = replace_record(server, url=url.get("url", server.url))
            headers, auth = await self._filled(server.headers, actor), await self._auth(actor)
            async with open_http(reached, headers, session_id, auth) as streams:
                yield streams
            return
        words = await self._filled({each: each for each in server.args}, actor)
        command = [server.command, *(words.get(each, each) for each in server.args)]
        env = {**environment((*_INHERITED_ENV, *server.pass_env)), **await self._filled(server.env, actor)}
        process = await ServerProcess.start(command, env=env, cwd=server.cwd, log=lines)
        async with open_pipes(process, lines, server.max_message_bytes) as streams:
            yield streams

    async def _auth(self, actor: str | None) -> httpx2.Auth | None:
        settings = self.server.oauth
        if settings is None:
            return None
        secret = {} if settings.client_secret is None else await self._filled({"secret": settings.client_secret}, None)
        owner = None if self.server.sessions == "shared" else actor
        return make_auth(self.server, settings, owner, secret.get("secret"), self.login)

    async def _filled(self, texts: Mapping[str, str], actor: str | None) -> dict[str, str]:
        """Return texts with an actor's credentials filled in; without an actor, texts that need one are left out.

        Raises:
            ConfigError: a credential is not configured.
            CredentialMissing: it has no value.
        """
        filled: dict[str, str] = {}
        for name, text in texts.items():
            needed = credentials_in(text)
            try:
                values = await self._host.credentials(needed, actor)
            except CredentialMissing:
                if actor is None and (self.server.sessions == "actor" or self.server.url is not None):
                    continue
                raise
            missing = [each for each in needed if each not in values]
            if missing:
                raise ConfigError(f"the credential {missing[0]!r} is not configured; add [credentials.{missing[0]}]")
            filled[name] = fill_credentials(text, values)
        return filled

    async def _load_tools(self, session: McpSession, is_announced: bool) -> None:  # noqa: FBT001 -- a callback
        """Read the definitions of the server's tools, and declare those that are new or changed."""
        definitions = await session.list_tools()
        if self._offering is None or self._offering[0] is not session:
            self._offering = session, await listed_features(session) if self.server.resources else ()
        offering = self._offering[1]
        faults = [definition_fault(each, is_modern=session.is_modern) for each in definitions]
        listed: dict[str, JsonObject] = {}
        again: list[str] = []
        for each, fault in zip(definitions, faults, strict=True):
            if fault is None and listed.setdefault(str(each["name"]), each) != each:
                again.append(f"the tool {each['name']!r} is listed twice; its first definition is used")
        self._invalid = (*(fault for fault in faults if fault is not None), *again)
        shows_new = self.server.new_tools == "show"
        features = (*features_of(session.client.server_capabilities), *offering)
        await self._review.update(self._host.documents, listed, features=features, shows_new=shows_new)
        if self._used != (listed, self._review.tools):
            await self._use(listed)
        for each in self._tools_watched if is_announced else ():
            each(self.name)

    async def _check_tools(self, session: McpSession, is_announced: bool) -> None:  # noqa: FBT001 -- a callback
        """Find the tools whose definitions in the session of an actor are not those that were accepted."""
        accepted, is_same = self._review.tools.accepted, self._review.is_same
        found = [(str(each.get("name")), each) for each in await session.list_tools()]
        session.refused_tools = frozenset(
            name for name, each in found if name in accepted and not is_same(accepted[name], each)
        )
        if session.refused_tools:  # then a review finds the change, if it is not one for this actor alone
            self._main.refresh()

    async def _use(self, listed: Mapping[str, JsonObject]) -> None:
        """Declare the tools that the server lists; those that wait for a review cannot be called."""
        self._listed, reviewed = listed, self._review.tools
        tools = [self._make(reviewed.accepted.get(name, each)) for name, each in listed.items()]
        tools.append(ask_tool(self.server))
        tools += [
            reading_tool(self.server, each, self, is_shown=OPERATIONS[each].shown_with in reviewed.features)
            for each in sorted(OPERATIONS)
            if self.reading_tool(each) is not None
        ]
        await self._declared.update(tools, self._host.declare, (self.name,))
        for each in self._others.values():
            each.refresh()
        self._used = listed, reviewed
        self.needs_newest.clear()
        self._watch_review()

    async def _use_reviewed(self) -> None:
        await self._use(self._listed)

    def _make(self, definition: JsonObject) -> DeclaredTool:
        name, hints = str(definition["name"]), definition.get("annotations")
        offered = offered_name(name)
        may_repeat = self.server.trust and isinstance(hints, dict) and hints.get("idempotentHint") is True
        outlives = self._host.is_durable and TASKS_FEATURE in self._review.tools.features
        task_ids = PolledWork(self._host.documents, TASKS) if outlives else None
        executor = McpExecutor(self.name, name, self, may_repeat, task_ids)
        advice = self._review.advice(name)
        if advice is None:
            return replace(declare(self.server, definition, executor, name=offered), later=task_ids)
        tool = declare(self.server, definition, executor, name=offered, lifecycle=Lifecycle.REQUIRES_SETUP)
        return replace(tool, setup=advice)

    async def _report_state(self) -> None:
        await self._host.set_states({self.name: self._main.status.state})
