"""All RAP servers of one runtime: asked what they offer until they say, told of its ends, heard in between."""

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping

from agenttool.adapters.rap.addresses import PATH, Addresses, secret_of
from agenttool.adapters.rap.callbacks import Callbacks
from agenttool.adapters.rap.cancel_subscription import cancel_subscription_tool
from agenttool.adapters.rap.claims import claim, claimed
from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.declare import Toolset, source_name_in, without_clashes
from agenttool.adapters.rap.discovery import Discovery, Standing
from agenttool.adapters.rap.forgery import Reach
from agenttool.adapters.rap.listen import CallbackApp, Heir, Listener, earlier_listener, listener_of
from agenttool.adapters.rap.notices import Notices
from agenttool.adapters.rap.offers import Offers
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.subscriptions import Subscriptions
from agenttool.adapters.rap.threads import Threads
from agenttool.adapters.rap.views import Views
from agenttool.adapters.rap.wire import CancelToolCall, CloseThread, Migrate, write
from agenttool.ports.source import Host
from agenttool.records import InvocationId, ToolId

log = logging.getLogger("agenttool.rap")

MIGRATE_WITHIN_S = 600.0


class Rap:
    """What a runtime knows of RAP: its servers' tools, its threads, subscriptions and views.

    A server that does not say what it offers is asked again until it does. What it said then holds for as long as the
    runtime does; another runtime asks anew.

    Attributes:
        threads: the threads that calls were made in.
        subscriptions: those that are open, and the events that came of them.
        views: what clients show.
        callbacks: where messages of tools come in.
        moved_from: where they came in before, if that was elsewhere; what was sent from there still goes there.
    """

    moved_from: str | None = None

    def __init__(self, sources: Iterable[RapSource], host: Host, addresses: Addresses) -> None:
        """Join the parts; `open` is the door."""
        self._sources = tuple(sources)
        self._couriers = {each.name: Courier(_reach_of(each)) for each in self._sources}
        self._by_name = {each.name: (each, _reach_of(each)) for each in self._sources}
        self._host = host
        self._discovery = Discovery(self._sources, self._couriers, host.now_ns)
        self._hearing = asyncio.Lock()
        self._notices = Notices()
        for each in self._sources:
            self._notices.add(each, self._couriers[each.name])
        self._own_faults: tuple[str, ...] = ()
        self._refused: tuple[str, ...] = ()
        self._logged: frozenset[str] = frozenset()
        self.threads = Threads(host.shelf)
        self.subscriptions = Subscriptions(host.shelf)
        self.views = Views(host.shelf)
        self.callbacks = Callbacks(
            addresses=addresses,
            door=host.door,
            threads=self.threads,
            views=self.views,
            subscriptions=self.subscriptions,
            source_of=self._source_of,
            now_ns=host.now_ns,
            unique=host.unique,
            withdraw=self._withdraw,
            saw=lambda tool_id: self._discovery.saw(source_name_in(tool_id)),
        )
        self._offers = Offers(
            take=host.declare,
            couriers=self._couriers,
            notices=self._notices,
            addresses=self.callbacks.addresses,
            threads=self.threads,
            now_ns=host.now_ns,
        )
        self._listener: Listener | Heir | None = None

    @classmethod
    async def open(
        cls,
        sources: Iterable[RapSource],
        host: Host,
        callback_url: str | None = None,
        *,
        serves: bool = False,
    ) -> "Rap":
        """Ask every server what it offers, and be ready for callbacks.

        Args:
            sources: the servers.
            host: the runtime.
            callback_url: where callbacks are received, if somebody serves `app` there; without it this listens on a
                port of its own on this machine, after a restart on the same one if it can. Where calls of the store
                were sent from such a port before, this listens there as well, unless somebody else does.
            serves: whether it is this process that callbacks come to there; else an address at which another process
                of the store takes them counts for more.

        Raises:
            ConfigError: this process would have callbacks come in elsewhere than another one of the store.
        """
        secret = await secret_of(host.shelf, host.secret())
        place = Addresses((callback_url or "") + PATH, secret)
        moved_from = await claim(host.shelf, place) if serves else None
        other = None if serves else await claimed(host.shelf, place)
        rap = cls(sources, host, other or place)
        rap.moved_from = None if moved_from is None else moved_from.removesuffix(PATH)
        if other is None and callback_url is None:
            await rap._listen(secret)
        else:
            rap._listener = await earlier_listener(rap.callbacks, host.shelf, secret)
        rap._warn()
        host.declare(cancel_subscription_tool(rap.subscriptions, rap._withdraw))
        await rap._discovery.begin()
        await rap._hear()
        return rap

    def knows(self, tool_id: ToolId) -> bool:
        """Tell whether a tool is of one of these servers, also while its server does not say what it offers."""
        return self._source_of(tool_id) is not None

    async def _listen(self, secret: bytes) -> None:
        self._listener, fault = await listener_of(self.app, self._host.shelf, secret)
        self._own_faults = () if fault is None else (fault,)
        self.callbacks.addresses = self._offers.addresses = Addresses(self._listener.url + PATH, secret)
        self._listener.start()

    def _warn(self) -> None:
        for each in self._sources:
            if each.url.startswith("http://") and not each.allow:
                log.warning("the server %r is spoken to without TLS, for all to read; use https", each.name)

    @property
    def app(self) -> CallbackApp:
        """The ASGI application that callbacks are posted to, below any path."""
        return CallbackApp(self.callbacks)

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong as things stand: why tools are not offered, or callbacks of earlier calls are lost."""
        faults = (each.fault for each in self._toolsets() if each.fault is not None)
        return (*self._own_faults, *faults, *self._refused)

    @property
    def withheld(self) -> Mapping[str, tuple[str, ...]]:
        """The tools of each server that are not offered because of their names, as `faults` says."""
        return {each.source.name: tuple(sorted(each.withheld)) for each in self._toolsets()}

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How far each server is from offering its tools, and when it is asked again."""
        return self._discovery.standings

    def asked_again_in(self, source: str) -> float | None:
        """Tell in how many seconds a server is asked again what it offers; none if it has said so, or is not known."""
        moments = (each.next_try_at_ns for each in self.standings if each.source == source)
        at_ns = next(moments, None)
        return None if at_ns is None else float(max(1, math.ceil((at_ns - self._host.now_ns()) / 1e9)))

    def awaits(self, tool_id: ToolId) -> str | None:
        """Name the server that calls of a tool wait for, because it does not say that it offers it; none if it does."""
        return None if self._offers.knows(tool_id) else source_name_in(tool_id)

    def keep_asking(self) -> None:
        """Ask servers that did not say what they offer again, in the background, until they do or this is closed."""
        self._discovery.go_on(self._hear)

    async def _hear(self) -> None:
        """Let the runtime have what servers said by now; what it offers already, nobody takes away."""
        async with self._hearing:
            self._refused = await self._offers.renew(self._toolsets())
            for fault in self.faults:
                if fault not in self._logged:
                    log.error(fault)
            self._logged = frozenset(self.faults)
            await self._host.hear({each.source: each.state for each in self.standings})

    def _toolsets(self) -> tuple[Toolset, ...]:
        return without_clashes(self._discovery.toolsets, self._offers.offered)

    def _source_of(self, tool_id: ToolId) -> tuple[RapSource, Reach] | None:
        """Find the server of a tool, also while it does not say what it offers: its calls wait all the same."""
        return self._by_name.get(source_name_in(tool_id))

    async def close_thread(self, thread_id: str) -> None:
        """Close a thread: nothing that comes for it counts any more, and every server is told, used or not.

        Its subscriptions and views go; events that came before stay until they are dealt with.
        """
        async with self.callbacks.turn_of(thread_id):
            await self.threads.close(thread_id)
            await self.subscriptions.close_thread(thread_id)
            await self.views.close_thread(thread_id)
        self._notices.send("/close_thread", CloseThread(thread_id=thread_id))

    async def migrate(self, session_id: str, destinations: Mapping[str, str]) -> tuple[str, ...]:
        """Let servers that keep state of a session bring it to their counterparts, and wait until all have.

        The session's calls must have come to rest before, and its own data moves only if nothing went wrong.

        Args:
            session_id: the root thread.
            destinations: the base URL of each server's counterpart, by the name of its source.

        Returns:
            What went wrong, if anything; then nothing should be moved.
        """
        toolsets = self._discovery.toolsets
        flagged = [each for each in toolsets if each.manifest is not None and each.manifest.needs_migration]
        missing = [each.source.name for each in flagged if each.source.name not in destinations]
        if missing:
            return tuple(f"{name!r} keeps state and has no destination; name one" for name in missing)
        moves = (self._migrate(each.source, session_id, destinations[each.source.name]) for each in flagged)
        return tuple(fault for fault in await asyncio.gather(*moves) if fault is not None)

    async def _migrate(self, source: RapSource, session_id: str, destination: str) -> str | None:
        courier = Courier(_reach_of(source), timeout_s=MIGRATE_WITHIN_S)
        try:
            body = write(Migrate(session_id=session_id, destination_url=destination))
            url = source.base + "/migrate"
            reply = await courier.post(url, body, source.headers("POST", url, body))
        finally:
            await courier.close()
        return None if reply.is_accepted else f"{source.name!r} did not migrate: {reply.fault or reply.status}"

    async def stop_listening(self) -> None:
        """Ask and hear nobody any more; whoever posts a callback now tries again later."""
        await self._discovery.stop()
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None

    async def close(self) -> None:
        """Close the connections, once notices that are under way had a moment."""
        await self.stop_listening()
        await self._notices.close()
        for courier in self._couriers.values():
            await courier.close()

    def _withdraw(self, invocation_id: InvocationId, thread_id: str) -> None:
        self._notices.send("/cancel_tool_call", CancelToolCall(thread_id=thread_id, tool_call_id=invocation_id))


def _reach_of(source: RapSource) -> Reach:
    """Keep what goes to a server that is found over TLS on TLS, wherever its manifest or a question leads."""
    return Reach.of(source.allow, https_only=source.url.startswith("https://"))
