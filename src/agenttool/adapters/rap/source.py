"""The RAP client of one runtime: it connects to the servers, declares their tools, and receives their callbacks."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from agenttool.adapters.declared_tools import DeclaredTools
from agenttool.adapters.rap.callback_urls import PATH, CallbackUrls, claim_address, find_claimed, load_secret
from agenttool.adapters.rap.callbacks import CallbackHandler
from agenttool.adapters.rap.declare import declare
from agenttool.adapters.rap.discovery import Toolset, WatchedServer, withhold_clashes
from agenttool.adapters.rap.execute import NoticeSender, RapExecutor
from agenttool.adapters.rap.listener import CallbackApp, Listener, open_listener, open_previous_listener
from agenttool.adapters.rap.settings import RapServer, read_source, source_name_in
from agenttool.adapters.rap.subscriptions import SubscriptionStore, cancel_subscription_tool
from agenttool.adapters.rap.threads import ThreadRegistry, ViewStore
from agenttool.adapters.rap.wire import CloseThread, Migrate, write
from agenttool.adapters.source_settings import read_all
from agenttool.config import environment
from agenttool.http.client import HttpClient
from agenttool.ports.source import SourceHost, SourceSettings, SourceStatus, SourceTable
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Lifecycle, ToolId

log = logging.getLogger("agenttool.rap")

MIGRATION_TIMEOUT_S = 600.0


def make_sources(settings: Sequence[SourceSettings]) -> tuple["RapClient", ...]:
    """Return one client for all servers, since they share a callback address.

    Raises:
        ConfigError: a settings table is invalid.
    """

    def read(table: SourceTable) -> RapServer:
        return read_source(table.name, table.members, lambda name: environment((name,)).get(name))

    return (RapClient(read_all(settings, RapServer, read)),)


class RapClient:
    """The RAP servers of one runtime, with their tools, threads, subscriptions and views.

    A server that does not answer is tried again until it does; meanwhile its tools are pending, as its latest manifest
    declares them. A loaded manifest is valid for as long as its server answers.

    Attributes:
        threads: the threads that calls were made in.
        subscriptions: the open subscriptions and their events.
        views: what clients show.
        callbacks: the handler of messages from tools.
        moved_from: the previous callback address of the store, if it was another; earlier calls still use it.
    """

    name = "rap"
    threads: ThreadRegistry
    subscriptions: SubscriptionStore
    views: ViewStore
    callbacks: CallbackHandler
    moved_from: str | None = None
    _host: SourceHost

    def __init__(self, servers: Iterable[RapServer]) -> None:
        """Take the servers; `connect` contacts them."""
        self.servers = tuple(servers)
        self._watched = {each.name: WatchedServer(each) for each in self.servers}
        self._watches: list[asyncio.Task[None]] = []
        self._declared = DeclaredTools()
        self._update_lock = asyncio.Lock()
        self._notices = NoticeSender(self._watched.values())
        self._listener_faults: tuple[str, ...] = ()
        self._rejections: list[str] = []
        self._logged: frozenset[str] = frozenset()
        self._listener: Listener | None = None

    async def connect(self, host: SourceHost) -> None:
        """Start to receive callbacks, load the manifests of all servers, and declare their tools.

        Callbacks arrive at the public URL of the runtime if a server carries `app` there. If the runtime has none, this
        listens on a port of its own on this machine, the same one after a restart if possible. If earlier calls of the
        store used such a port, this listens there as well, unless another program does. An address that another
        process of the store serves takes precedence, unless this process serves the public URL.

        Raises:
            ConfigError: another process of the store receives callbacks at another address.
        """
        secret = await load_secret(host.documents, host.secret())
        own = CallbackUrls((host.public_url or "") + PATH, secret)
        moved_from = await claim_address(host.documents, own) if host.is_served else None
        other = None if host.is_served else await find_claimed(host.documents, own)
        self.moved_from = None if moved_from is None else moved_from.removesuffix(PATH)
        self._host = host
        self.callbacks = CallbackHandler(host, other or own, self._watched, self._notices.cancel)
        self.threads, self.views = self.callbacks.threads, self.callbacks.views
        self.subscriptions = self.callbacks.subscriptions
        if other is None and host.public_url is None:
            await self._listen(secret)
        else:
            self._listener = await open_previous_listener(self.callbacks, host.documents, secret)
        self._warn_about_http()
        host.declare(cancel_subscription_tool(self.subscriptions, self._notices.cancel))
        await asyncio.gather(*(each.discover_first(host) for each in self._watched.values()))
        await self._update()
        for each in self._watched.values():
            self._watches.append(asyncio.create_task(each.watch(self._update)))  # noqa: TID251 -- `close` is its parent

    async def _listen(self, secret: bytes) -> None:
        self._listener, fault = await open_listener(self.app, self._host.documents, secret)
        self._listener_faults = () if fault is None else (fault,)
        self.callbacks.urls = CallbackUrls(self._listener.url + PATH, secret)
        self._listener.start()

    def _warn_about_http(self) -> None:
        for each in self.servers:
            if each.url.startswith("http://") and not each.allow:
                log.warning(
                    "requests to the server %r are sent without TLS, readable on the network; use https", each.name
                )

    @property
    def app(self) -> CallbackApp:
        """The ASGI application that receives callbacks, below any path."""
        return CallbackApp(self.callbacks)

    @property
    def faults(self) -> tuple[str, ...]:
        """The current faults: why tools are not offered, or why callbacks of earlier calls are lost."""
        faults = (each.fault for each in self._toolsets() if each.fault is not None)
        return (*self._listener_faults, *faults, *self._rejections)

    @property
    def withheld(self) -> Mapping[str, tuple[str, ...]]:
        """The tools of each server that are not offered because of their names."""
        return {each.source.name: tuple(sorted(each.withheld)) for each in self._toolsets()}

    def health(self) -> tuple[SourceStatus, ...]:
        """Return the discovery status of each server."""
        return tuple(each.status for each in self._watched.values())

    def awaits(self, tool_id: ToolId) -> str | None:
        """Return the server that calls of a tool wait for, because it does not offer the tool now; None if it does."""
        return None if tool_id in self._declared.by_id else source_name_in(tool_id)

    async def _update(self) -> None:
        """Declare the loaded tools in the runtime, log new faults, and report the state of each server."""
        async with self._update_lock:
            self._rejections = await self._declare_all()
            for fault in self.faults:
                if fault not in self._logged:
                    log.error(fault)
            self._logged = frozenset(self.faults)
            await self._host.set_states({each.source: each.state for each in self.health()})

    async def _declare_all(self) -> list[str]:
        """Declare the tools of the loaded manifests; return why the runtime rejected any."""
        tools: dict[str, list[DeclaredTool]] = {}
        for each in self._toolsets():
            if each.manifest is not None:
                server, manifest = self._watched[each.source.name], each.manifest
                made = (RapExecutor(server, manifest, tool, self.callbacks) for tool in each.tools)
                tools[each.source.name] = [declare(each, executor) for executor in made]
        return await self._declared.update([*chain(*tools.values())], self._host.declare, tools)

    def _toolsets(self) -> tuple[Toolset, ...]:
        """Return the manifests; a name stays with the source that offers it already."""
        declarations = (each.declaration for each in self._declared.by_id.values())
        offered = {each.name: each.namespace for each in declarations if each.lifecycle is Lifecycle.AVAILABLE}
        return withhold_clashes([each.toolset for each in self._watched.values()], offered)

    async def close_thread(self, thread_id: str) -> None:
        """Close a thread: further callbacks for it are dropped, and every server is notified.

        Its subscriptions and views are deleted; events that arrived before stay until they are handled.
        """
        async with self.callbacks.thread_lock(thread_id):
            await self.threads.close(thread_id)
            await self.subscriptions.close_thread(thread_id)
            await self.views.close_thread(thread_id)
        self._notices.send("/close_thread", CloseThread(thread_id=thread_id))

    async def migrate(self, session_id: str, destinations: Mapping[str, str]) -> tuple[str, ...]:
        """Ask servers that hold state of a session to move it to their counterparts, and wait until all have.

        The session must have no running calls. The caller moves its own data only if there is no fault.

        Args:
            session_id: the root thread.
            destinations: the base URL of each server's counterpart, by the name of its source.

        Returns:
            The faults; empty if all servers moved the session.
        """
        manifests = ((each, each.toolset.manifest) for each in self._watched.values())
        flagged = [each for each, manifest in manifests if manifest is not None and manifest.needs_migration]
        missing = [each.source.name for each in flagged if each.source.name not in destinations]
        if missing:
            return tuple(f"{name!r} stores state and has no destination; name one" for name in missing)
        moves = (_migrate(each, session_id, destinations[each.source.name]) for each in flagged)
        return tuple(fault for fault in await asyncio.gather(*moves) if fault is not None)

    async def close(self) -> None:
        """Stop the watch and the listener, wait briefly for pending notices, and close the connections.

        Senders of callbacks retry later.
        """
        for watch in self._watches:
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches)
        if self._listener is not None:
            await self._listener.stop()
        await self._notices.close()
        for server in self._watched.values():
            await server.client.close()


async def _migrate(server: WatchedServer, session_id: str, destination: str) -> str | None:
    source, client = server.source, HttpClient(server.policy, timeout_s=MIGRATION_TIMEOUT_S)
    try:
        body = write(Migrate(session_id=session_id, destination_url=destination))
        url = source.base + "/migrate"
        reply = await client.post(url, body, source.headers("POST", url, body))
    finally:
        await client.close()
    return None if reply.is_accepted else f"{source.name!r} did not migrate: {reply.fault or reply.status}"
