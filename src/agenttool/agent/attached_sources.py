"""The sources of a runtime: connect them, report their states, replace some while calls run, close them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast

from agenttool.agent.agent import Agent
from agenttool.agent.builtin_tools import reject_builtin_names
from agenttool.errors import ConfigError, StoreError
from agenttool.ports.deferred import ResultReceiver
from agenttool.ports.source import Source, SourceHost, SourceStatus
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import InvocationId, Lifecycle, ToolId
from agenttool.records import replace as replace_record

CONNECT_TIMEOUT_S = 30.0
"""How long a runtime waits for a source to connect."""

CLOSE_TIMEOUT_S = 30.0
"""How long a runtime waits for a source to close."""

log = logging.getLogger("agenttool.sources")

_S = TypeVar("_S")

_REMOVED = "the source was removed from the settings"
_FORMER = ""
"""The owner of tools whose source was removed; another source may declare them."""


@dataclass(frozen=True, slots=True)
class SourceFaults:
    """Why tools of sources are not offered.

    Attributes:
        failed: the states of the sources that could not connect.
        rejected: for each source, its tools that the runtime rejected, each with its namespace and the reason.
    """

    failed: dict[str, SourceStatus] = field(default_factory=dict[str, SourceStatus])
    rejected: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict[str, dict[str, tuple[str, str]]])


class AttachedSources:
    """The sources of a runtime: `rt.sources`."""

    def __init__(self, sources: Sequence[Source], faults: SourceFaults) -> None:
        self._sources = sources
        self._failed = faults.failed
        self._rejected = faults.rejected

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all sources."""
        return tuple(each.name for each in self._sources)

    async def status(self) -> tuple[SourceStatus, ...]:
        """Return the state of each server, and why tools of it are not offered, if any are not."""
        return self._statuses()

    def get(self, name: str) -> Source | None:
        """Return the source of a name; None if there is none."""
        return next((each for each in self._sources if each.name == name), None)

    def find(self, kind: type[_S]) -> _S | None:
        """Return the first connected source of a class, for what only its kind can do; None if there is none."""
        return next(iter(self.all_of(kind)), None)

    def all_of(self, kind: type[_S]) -> tuple[_S, ...]:
        """Return the connected sources of a class or of a runtime-checkable protocol."""
        connected = (each for each in self._sources if each.name not in self._failed)
        return tuple(each for each in connected if isinstance(each, kind))

    def status_of(self, name: str) -> SourceStatus | None:
        """Return the state of one server; None if there is none with that name."""
        return next((each for each in self._statuses() if each.source == name), None)

    @property
    def not_ready(self) -> frozenset[str]:
        """The names of the servers whose tools cannot be used, which are the namespaces of these tools."""
        failed = (each for each in self._sources if each.name in self._failed)
        return frozenset(
            (
                *(each.source for each in self._statuses() if not each.is_ready),
                *(each.source for source in failed for each in _health_of(source)),
            )
        )

    def _statuses(self) -> tuple[SourceStatus, ...]:
        return tuple(
            status
            for each in self._sources
            for status in ((self._failed[each.name],) if each.name in self._failed else self._health_of(each))
        )

    def _health_of(self, source: Source) -> Sequence[SourceStatus]:
        """Return the health of a source, with the reasons of its rejected tools."""
        statuses, rejected = _health_of(source), self._rejected.get(source.name)
        if not rejected:
            return statuses
        servers = {each.source for each in statuses}
        reasons: dict[str, list[str]] = {}
        for name, (namespace, reason) in rejected.items():
            server = namespace if namespace in servers else statuses[0].source if statuses else source.name
            reasons.setdefault(server, []).append(f"{name!r} is not offered: {reason}")
        return tuple(
            replace(each, fault="; ".join(filter(None, (each.fault, *reasons.get(each.source, ())))) or None)
            for each in statuses
        )


class SourceManager:
    """Connects and closes the sources of an agent, and is the host that they use."""

    def __init__(
        self,
        sources: list[Source],
        faults: SourceFaults,
        *,
        agent: Agent,
        results: ResultReceiver,
        public_url: str | None,
        is_served: bool,
    ) -> None:
        """Take the sources, whose list changes in place, and what their host needs.

        `faults` receives why tools are not offered.
        """
        self._sources = sources
        self._failed = faults.failed
        self._rejected = faults.rejected
        self._agent = agent
        self._results = results
        self._public_url = public_url
        self._is_served = is_served
        self._owners: dict[ToolId, str] = {}
        self._namespaces: dict[str, str] = {}
        self._leaving: dict[asyncio.Task[None], Source] = {}

    async def connect(self) -> None:
        """Connect all sources concurrently; those that cannot connect cost only their own tools.

        Raises:
            ConfigError: a source rejects the deployment, or there is no store.
            StoreError: the store cannot be written.
        """
        await self._connect(self._sources)

    async def _connect(self, sources: Sequence[Source]) -> None:
        if not sources:
            return
        outcomes = await asyncio.gather(*(_connect(each, self._host(each)) for each in sources), return_exceptions=True)
        for source, outcome in zip(sources, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is not None:
                self._failed[source.name] = SourceStatus(
                    source=source.name,
                    state=ProviderState.UNAVAILABLE,
                    fault=outcome,
                    since_ns=self._agent.core.now_ns(),
                )
        if self._failed:
            await self._update_surfaces({name: status.state for name, status in self._failed.items()})

    @asynccontextmanager
    async def replacing(self, removed: Collection[str], added: Sequence[Source]) -> AsyncGenerator[None]:
        """Connect sources in place of others. An exception in this context undoes that.

        The tools of removed sources cannot be called any more. A removed source is closed once the calls that use it
        have ended.

        Raises:
            ConfigError: an added source rejects the deployment; nothing has changed then.
            StoreError: the store cannot be written; nothing has changed then.
        """
        before, faults = [*self._sources], ({**self._failed}, {**self._rejected})
        names = {*removed, *(each.name for each in added)}
        tools = {entry.tool_id: entry.tool for entry in self._agent.catalog if self._owners.get(entry.tool_id) in names}
        self._sources[:] = [*(each for each in before if each.name not in names), *added]
        for each in names:
            self._failed.pop(each, None)
            self._rejected.pop(each, None)
        try:
            await self._connect(added)
            self._withdraw(names, tools)
            await self._update_surfaces({})
            yield
        except BaseException:
            self._sources[:] = before
            self._failed.clear()
            self._rejected.clear()
            self._failed.update(faults[0])
            self._rejected.update(faults[1])
            self._restore(names, tools)
            await self._close(added)
            raise
        for each in before:
            if each.name in names:
                self._close_later(each, tools)

    def _is_attached(self, source: Source) -> bool:
        return any(each is source for each in self._sources)

    def _withdraw(self, sources: Collection[str], tools: Mapping[ToolId, DeclaredTool]) -> None:
        """Withdraw the tools that no source declared again, and release the namespaces of removed sources."""
        attached = {each.name for each in self._sources}
        for tool_id, tool in tools.items():
            found = self._agent.catalog.find(tool_id)
            if found is not None and found.tool is tool:
                self._agent.declare(_disabled(tool))
                self._owners[tool_id] = _FORMER
        for namespace in [
            each for each, owner in self._namespaces.items() if owner in sources and owner not in attached
        ]:
            del self._namespaces[namespace]

    def _restore(self, sources: Collection[str], tools: Mapping[ToolId, DeclaredTool]) -> None:
        """Declare the tools of sources as they were before."""
        owners = {**self._owners}
        for entry in [*self._agent.catalog]:
            tool_id = entry.tool_id
            if tool_id in tools and entry.tool is not tools[tool_id]:
                self._agent.declare(tools[tool_id])
            elif tool_id not in tools and owners.get(tool_id) in sources:
                self._agent.declare(_disabled(entry.tool))
                self._owners[tool_id] = _FORMER

    def _close_later(self, source: Source, tools: Mapping[ToolId, DeclaredTool]) -> None:
        """Close a removed source once the open calls of its tools have ended."""
        calls = [each.invocation_id for each in self._agent.core.registry.calls.values() if each.tool_id in tools]
        task = self._agent.core.timing.loop.create_task(self._close_after(source, calls))
        self._leaving[task] = source
        task.add_done_callback(self._leaving.pop)

    async def _close_after(self, source: Source, calls: Sequence[InvocationId]) -> None:
        registry = self._agent.core.registry
        for each in calls:
            with registry.waiter(each) as ended:
                if each in registry.calls:
                    await ended.wait()
        await self._close((source,))

    async def close(self) -> None:
        """Close all sources, each whatever happens to the others.

        Raises:
            asyncio.CancelledError: the caller's own task was canceled; the sources were closed first.
        """
        leaving = [*self._leaving.values()]
        for task in [*self._leaving]:
            task.cancel()
        await self._close((*self._sources, *leaving))

    async def _close(self, sources: Sequence[Source]) -> None:
        interrupt: BaseException | None = None
        for source in sources:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await source.close()
            except BaseException as error:
                if _is_for_caller(error):
                    interrupt = error
                else:
                    log.exception("the source %r cannot be closed", source.name)
        if interrupt is not None:
            raise interrupt

    def _host(self, source: Source) -> SourceHost:
        core = self._agent.core
        return SourceHost(
            declare=partial(self._declare, source, source.name),
            set_states=partial(self._set_states, source, source.name),
            results=self._results,
            documents=core.durability.documents,
            credentials=_no_credentials if core.vault is None else core.vault.fetch,
            thread=core.thread,
            public_url=self._public_url,
            is_served=self._is_served,
            is_durable=core.durable,
            now_ns=core.now_ns,
            unique=core.ids.unique,
            secret=core.ids.secret,
        )

    def _declare(self, owner: Source, source: str, tool: DeclaredTool) -> str | None:
        """Add or update a tool of a source; return why it is rejected, if it is. That costs only this tool.

        `source` is the name with which it was connected: one that renames itself gets no tools of another.
        """
        if not self._is_attached(owner):
            return _REMOVED
        is_tool = isinstance(cast("object", tool), DeclaredTool)
        name, namespace = (tool.declaration.name, tool.declaration.namespace) if is_tool else (repr(tool), source)
        try:
            self._add(source, tool)
        except ConfigError as error:
            rejected, reason = self._rejected.setdefault(source, {}), str(error)
            if rejected.get(name) != (namespace, reason):
                log.warning("the tool %r of the source %r is not offered: %s", name, source, reason)
            rejected[name] = namespace, reason
            return reason
        self._rejected.get(source, {}).pop(name, None)
        return None

    def _add(self, source: str, tool: DeclaredTool) -> None:
        """Add or update a tool of a source.

        Raises:
            ConfigError: it is invalid, its id or namespace belongs to another one, or the runtime is closed.
        """
        if not isinstance(cast("object", tool), DeclaredTool):
            raise ConfigError(f"the source {source!r} declared {tool!r}; declare a DeclaredTool")
        tool_id = tool.declaration.tool_id
        if self._agent.surfacing.surfaces.is_closed:
            raise ConfigError(f"{tool_id!r} cannot be declared: the runtime is closed")
        owner = self._owners.get(tool_id)
        if owner not in (source, _FORMER) and self._agent.catalog.find(tool_id) is not None:
            raise ConfigError(f"another tool has the id {tool_id!r} already; give that one or the source another name")
        reject_builtin_names(tool)
        self._claim(source, tool.declaration.namespace)
        self._agent.declare(tool)
        self._owners[tool_id] = source

    def _claim(self, source: str, namespace: str) -> None:
        """Reserve a namespace for a source.

        Raises:
            ConfigError: another source has it.
        """
        owner = self._namespaces.setdefault(namespace, source)
        if owner != source:
            raise ConfigError(f"the source {owner!r} has the namespace {namespace!r}; use another one in {source!r}")

    async def _set_states(self, owner: Source, source: str, states: Mapping[str, ProviderState]) -> None:
        """Set the states of the servers of a source.

        Raises:
            ConfigError: a namespace belongs to another source, or a state is unknown.
        """
        if not self._is_attached(owner):
            return
        for namespace in states:
            self._claim(source, namespace)
        try:
            await self._update_surfaces({namespace: ProviderState(state) for namespace, state in states.items()})
        except ValueError as error:
            raise ConfigError(f"the source {source!r} set {states!r}; use members of ProviderState") from error

    async def _update_surfaces(self, states: Mapping[str, ProviderState]) -> None:
        """Update surfaces after a server connected or was lost, and recover calls that waited for its tools."""
        agent = self._agent
        if agent.surfacing.surfaces.is_closed:
            return
        # Tools of the program may have the namespace of a server; they are ready whatever its state is.
        own = (entry for entry in agent.catalog if entry.tool_id not in self._owners)
        others = {entry.tool.declaration.namespace for entry in own}
        await agent.surfacing.set_provider_states(
            {name: ProviderState.READY if name in others else state for name, state in states.items()}
        )
        if agent.core.durability.has_lease:
            with suppress(StoreError):  # recovery runs again soon
                await agent.recovery.recover()


def _disabled(tool: DeclaredTool) -> DeclaredTool:
    return replace(tool, declaration=replace_record(tool.declaration, lifecycle=Lifecycle.DISABLED))


async def _no_credentials(names: tuple[str, ...], actor: str | None) -> Mapping[str, str]:
    return {}


def _is_for_caller(error: BaseException) -> bool:
    """Return whether an exception is meant for the caller: an interrupt, or the cancellation of the running task."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def _health_of(source: Source) -> Sequence[SourceStatus]:
    """Return the health of a source; if that fails, a status that says so."""
    try:
        return tuple(source.health())
    except Exception as error:
        log.exception("the health of the source %r is unknown", source.name)
        fault = f"its health is unknown ({type(error).__name__}); the log has the details"
        return (SourceStatus(source=source.name, state=ProviderState.UNAVAILABLE, fault=fault),)


async def _connect(source: Source, host: SourceHost) -> str | None:
    """Connect a source; return why it cannot connect, if it cannot. Only the log has the text, which may be secret."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await source.connect(host)
    except (ConfigError, StoreError):
        raise
    except BaseException as error:
        if _is_for_caller(error):
            raise
        log.exception("the source %r cannot connect; its tools are not offered", source.name)
        return f"the source {source.name!r} cannot connect ({type(error).__name__}); the log has the details"
    return None
