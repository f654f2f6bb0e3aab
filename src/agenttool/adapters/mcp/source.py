"""The MCP servers of one runtime: they are connected, their tools declared, and calls sent to them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from agenttool.adapters.mcp.connection import Connection, ConnectionOptions
from agenttool.adapters.mcp.declare import declare, definition_fault
from agenttool.adapters.mcp.execute import McpExecutor
from agenttool.adapters.mcp.http import open_http
from agenttool.adapters.mcp.processes import ServerLog, ServerProcess
from agenttool.adapters.mcp.session import McpSession, MessageStreams, SessionId
from agenttool.adapters.mcp.settings import McpServer, credentials_in, fill_credentials, read_server
from agenttool.adapters.mcp.stdio import open_pipes
from agenttool.config import environment
from agenttool.errors import ConfigError, CredentialMissing
from agenttool.ports.executor import Job
from agenttool.ports.source import SourceHost, SourceSettings, SourceStatus, SourceTable
from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject, Lifecycle, ToolId
from agenttool.records import replace as replace_record

log = logging.getLogger("agenttool.mcp")

FIRST_ANSWER_S = 10.0
"""How long a runtime that opens waits for servers whose tools it does not know yet."""

IDLE_S = 600.0
"""After how long without a call the connection of one actor is closed."""

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_DECLARED_AT_A_TIME = 50
"""How many tools are declared before the event loop runs other work."""


def make_sources(settings: Sequence[SourceSettings]) -> tuple["McpSource", ...]:
    """Return one source for each server.

    Raises:
        ConfigError: a settings table is invalid.
    """
    servers: list[McpServer] = []
    for each in settings:
        if isinstance(each, McpServer):
            servers.append(each)
        elif isinstance(each, SourceTable):
            folder = None if each.file is None else Path(each.file).resolve().parent
            with each.locate_errors():
                servers.append(read_server(each.name, each.members, folder))
    return tuple(map(McpSource, servers))


class McpSource:
    """One MCP server and its tools.

    Attributes:
        server: its settings.
    """

    _host: SourceHost
    _main: Connection

    def __init__(self, server: McpServer) -> None:
        """Take the settings; `connect` starts the server."""
        self.server = server
        self.name = server.name
        self._actors: dict[str, Connection] = {}
        self._declared: dict[ToolId, DeclaredTool] = {}
        self._faults: tuple[str, ...] = ()

    async def connect(self, host: SourceHost) -> None:
        """Start the server, and declare its tools; one that takes long is awaited in the background."""
        self._host = host
        self._main = self._connection(None)
        self._main.start()
        first = self._main.want()
        await asyncio.wait([first], timeout=FIRST_ANSWER_S)
        if not first.done():
            fault = f"the server {self.name!r} has not listed its tools after {FIRST_ANSWER_S:g} s; it is awaited"
            self._main.status = replace(self._main.status, fault=fault)
            await self._report_state()

    def health(self) -> tuple[SourceStatus, ...]:
        """Return the state of the server, and why some of its tools are not offered."""
        if not hasattr(self, "_main"):
            return ()
        status = self._main.status
        faults = [each for each in (status.fault, *self._faults) if each is not None]
        return (replace(status, fault="; ".join(faults) or None),)

    @property
    def log(self) -> tuple[str, ...]:
        """The latest lines of the server's standard error and log messages."""
        return self._main.log.lines

    async def close(self) -> None:
        """Close all connections, and stop the processes."""
        connections = [*self._actors.values(), *([self._main] if hasattr(self, "_main") else [])]
        await asyncio.gather(*(each.close() for each in connections))

    def connection_of(self, job: Job, /) -> Connection:
        """Return the connection that serves the actor of a call."""
        if self.server.sessions == "shared" or job.actor_ref is None:
            return self._main
        found = self._actors.get(job.actor_ref)
        if found is None:
            found = self._actors[job.actor_ref] = self._connection(job.actor_ref)
            found.start()
        return found

    def headers_of(self, job: Job, /) -> dict[str, str]:
        """Return the headers that the requests of a call carry."""
        values = {name: secret.value for name, secret in job.credentials.items()}
        named = {name: text for name, text in self.server.headers.items() if credentials_in(text)}
        return {name: fill_credentials(text, values) for name, text in named.items()}

    def refusal(self, tool: str, /) -> str | None:
        """Return why a tool may not run now; None if it may."""
        return None

    def _connection(self, actor: str | None) -> Connection:
        server = self.server
        return Connection(
            ConnectionOptions(
                name=server.name,
                open_transport=lambda lines, session_id: self._transport(actor, lines, session_id),
                on_ready=self._load_tools if actor is None else _list_only,
                on_status=self._report_state,
                start_timeout_s=server.start_timeout_s,
                mode=server.protocol,
                now_ns=self._host.now_ns,
                idle_s=None if actor is None else IDLE_S,
            )
        )

    @asynccontextmanager
    async def _transport(
        self, actor: str | None, lines: ServerLog, session_id: SessionId
    ) -> AsyncGenerator[MessageStreams]:
        server = self.server
        if server.command is None:
            async with open_http(server, await self._filled(server.headers, actor), session_id) as streams:
                yield streams
            return
        command = [server.command, *server.args]
        env = {**environment((*_INHERITED, *server.pass_env)), **await self._filled(server.env, actor)}
        process = await ServerProcess.start(command, env=env, cwd=server.cwd, log=lines)
        async with open_pipes(process, lines, server.max_message_bytes) as streams:
            yield streams

    async def _filled(self, texts: Mapping[str, str], actor: str | None) -> dict[str, str]:
        """Return texts with the credentials of an actor; without an actor, what only actors have is left out.

        Raises:
            ConfigError: a credential is not configured.
            CredentialMissing: it cannot be had.
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

    async def _load_tools(self, session: McpSession) -> None:
        """Read the definitions of the server's tools, and declare those that are new or changed."""
        definitions = await session.list_tools()
        faults = [fault for each in definitions if (fault := definition_fault(each)) is not None]
        usable = {str(each["name"]): each for each in definitions if definition_fault(each) is None}
        tools = [self._make(each) for each in usable.values()]
        self._faults = (*faults, *await self._declare([*tools, *self._gone(tools)]))

    def _make(self, definition: JsonObject) -> DeclaredTool:
        hints = definition.get("annotations")
        may_repeat = self.server.trust and isinstance(hints, dict) and hints.get("idempotentHint") is True
        executor = McpExecutor(self.name, str(definition["name"]), self, may_repeat)
        return declare(self.server, definition, executor)

    async def _declare(self, tools: Iterable[DeclaredTool]) -> tuple[str, ...]:
        """Declare new and changed tools; return why the runtime rejected any."""
        faults: list[str] = []
        for count, tool in enumerate(tools, 1):
            declaration = tool.declaration
            before = self._declared.get(declaration.tool_id)
            if before is None or _records_of(before) != _records_of(tool):
                fault = self._host.declare(tool)
                if fault is None:
                    self._declared[declaration.tool_id] = tool
            if not count % _DECLARED_AT_A_TIME:
                await asyncio.sleep(0)
        return tuple(faults)

    def _gone(self, tools: Iterable[DeclaredTool]) -> list[DeclaredTool]:
        """Return the tools that the server no longer offers, as disabled tools."""
        present = {each.declaration.tool_id for each in tools}
        return [
            replace(each, declaration=replace_record(each.declaration, lifecycle=Lifecycle.DISABLED))
            for tool_id, each in self._declared.items()
            if tool_id not in present
        ]

    async def _report_state(self) -> None:
        await self._host.set_states({self.name: self._main.status.state})


async def _list_only(session: McpSession) -> None:
    """Read the list, which the SDK needs to send arguments as headers."""
    await session.list_tools()


def _records_of(tool: DeclaredTool) -> tuple[object, ...]:
    return tool.declaration, tool.interface, tool.execution_profile, tool.permission_profile
