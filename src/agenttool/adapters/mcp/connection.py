"""One supervised connection to a server: opened on first use, and opened again after a loss, with backoff.

The session lives in a task of its own, because its streams must be opened and closed by the same task.

A server can change its tools at any time. Up to 2025-11-25 it sends a notification, if the session has a stream for
it. In 2026-07-28 it reports changes on a stream that the client opens, and its lists say for how long they are valid.
A stream may be lost, and some servers report nothing. So no call relies on a list that is older than `MAX_AGE_S`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import cast

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ServerNotification,
    ToolListChangedNotification,
)

from agenttool.adapters.mcp.processes import ServerLog
from agenttool.adapters.mcp.server_requests import RunningCalls, ServerRequests
from agenttool.adapters.mcp.session import (
    CONNECTION_LOST,
    NOT_CONNECTED,
    UNKNOWN_SESSION,
    InvalidResult,
    McpSession,
    SessionId,
    Transport,
    fault_of,
    open_session,
)
from agenttool.adapters.mcp.subscriptions import MAX_DELAY_S, ResourceSubscriptions, reports_changes, retry_delay
from agenttool.errors import ConfigError, CredentialMissing, StoreError, words_of
from agenttool.ports.resources import OfferChanged, OfferKind, Unsubscribe
from agenttool.ports.source import SourceStatus
from agenttool.ports.surfacing import ProviderState

log = logging.getLogger("agenttool.mcp")

STABLE_S = 10.0
"""A session that lasts this long proves that its server works, so that a later loss has a short delay again."""

MAX_AGE_S = 60.0
"""How old the list of tools may be when one of them is called."""

REFRESH_S = 1.0
"""The shortest time between two reads of a list, unless a call waits for a list that changed."""

_SHOWN_CHARS = 300

Waiting = Callable[[], AbstractAsyncContextManager[None]]
"""Returns the context in which a call waits until a server has started, or a user has logged in."""


class Unavailable(Exception):
    """A server cannot be used now; has the reason, and the seconds until the next try if there is one."""

    def __init__(self, reason: str, retry_after_s: float | None) -> None:
        """Take the reason and the delay."""
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


@dataclass(slots=True, eq=False, kw_only=True)
class Connection:
    """The connection to one server, for all callers or for one actor.

    Attributes:
        name: of the server, for messages.
        open_transport: opens the streams; raises `ConfigError` if the server can never be reached this way.
        on_ready: reads the lists of a new session, and again after they may have changed; within `start_timeout_s`.
            Takes whether the server announced changed tools.
        is_waiting: whether tools wait for a review, so that a list without their changes must be noticed.
        on_status: is called after the state changed.
        on_offers: is called after the list of resources or prompts changed.
        answers: answers the requests of the server.
        idle_s: after how long without a call it is closed; None for never. Only calls open such a connection, so that
            it is not opened for an actor that is gone.
        on_end: is called after an idle connection was closed.
        calls: those that run; while there is one, the connection is not idle.
    """

    name: str
    open_transport: Callable[[ServerLog, SessionId], Transport]
    on_ready: Callable[[McpSession, bool], Awaitable[None]]
    is_waiting: Callable[[], bool]
    on_status: Callable[[], Awaitable[None]]
    on_offers: OfferChanged
    answers: ServerRequests
    start_timeout_s: float
    mode: str
    now_ns: Callable[[], int]
    idle_s: float | None = None
    on_end: Callable[[], object] = lambda: None
    log: ServerLog = field(default_factory=ServerLog)
    status: SourceStatus = field(init=False)
    calls: RunningCalls = field(default_factory=RunningCalls)
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _lists: "ListWatch | None" = None
    _attempt: "asyncio.Future[McpSession]" = field(init=False)
    _task: "asyncio.Task[None] | None" = None
    _retry_at: float = 0.0
    _ready_at: float | None = None
    _is_unknown: bool = False
    _is_announced: bool = False
    _subscriptions: ResourceSubscriptions = field(default_factory=ResourceSubscriptions)

    def __post_init__(self) -> None:
        """Start as not connected."""
        self._attempt = self._new_attempt()
        self.status = SourceStatus(source=self.name, state=ProviderState.CONNECTING, since_ns=self.now_ns(), tries=0)

    def start(self) -> None:
        """Connect as soon as the connection is wanted."""
        self._task = asyncio.create_task(self._supervise())  # noqa: TID251 -- `close` is its parent

    def want(self) -> "asyncio.Future[McpSession]":
        """Connect now unless a session is open; return the future of the attempt."""
        if not self._attempt.done():
            self._wanted.set()
        return self._attempt

    def assume_ready(self) -> None:
        """Report the server as ready before it is connected, because its tools are known."""
        self.status = replace(self.status, state=ProviderState.READY)

    @property
    def is_connected(self) -> bool:
        """Whether there is a session."""
        attempt = self._attempt
        return attempt.done() and not attempt.cancelled() and attempt.exception() is None

    @property
    def protocol_version(self) -> str | None:
        """The revision of the session; None if there is none."""
        return self._attempt.result().protocol_version if self.is_connected else None

    async def session(self, waiting: Waiting = nullcontext) -> McpSession:
        """Return the open session; while it is being opened, wait within a context of `waiting`.

        Raises:
            Unavailable: the server cannot be used now.
        """
        if self.is_connected and self._attempt.result().closed.is_set():
            self._attempt = self._new_attempt()
        self.calls.used_at = time.monotonic()
        attempt = self.want()
        if not attempt.done():
            async with waiting():
                await asyncio.wait([attempt])
        try:
            return attempt.result()
        except Unavailable as error:
            raise Unavailable(error.reason, max(self._retry_at - time.monotonic(), 0.0)) from error

    async def session_for_tool(self, waiting: Waiting = nullcontext) -> McpSession:
        """Return the open session, after its tools were read again if they may have changed.

        Raises:
            Unavailable: the server cannot be used now, or its tools cannot be read.
        """
        for is_last in (False, True):
            session = await self.session(waiting)
            lists = self._lists
            if lists is None or lists.session is not session:
                continue  # it has just ended
            if lists.is_known:
                return session
            try:
                async with asyncio.timeout(self.start_timeout_s):
                    is_read = await lists.check()
            except (MCPError, InvalidResult, StoreError, TimeoutError) as error:
                is_lost = isinstance(error, MCPError) and self.drop_if_lost(session, error)
                if is_last or not is_lost:
                    fault = _describe_error(error)
                    reason = f"the tools of the server {self.name!r} cannot be read again: {fault}"
                    raise Unavailable(reason, None) from error
            else:
                if is_read:
                    await self.on_status()
                return session
        raise Unavailable(f"the connection to {self.name!r} ended", None)

    def refresh(self) -> None:
        """Read the lists of the server again soon, and before the next call of a tool."""
        if self._lists is not None:
            self._lists.mark_changed()

    def drop_if_lost(self, session: McpSession, error: MCPError) -> bool:
        """Close a session that was lost, or that the server does not know any more; the next call opens another."""
        fault = fault_of(error)
        if fault not in (NOT_CONNECTED, CONNECTION_LOST, UNKNOWN_SESSION):
            return False
        self._is_unknown = self._is_unknown or fault == UNKNOWN_SESSION
        session.closed.set()
        return True

    async def subscribe(self, uri: str, changed: Callable[[], None]) -> Unsubscribe | None:
        """Call a function after each change of a resource, until the returned function is called.

        Returns None if the server does not report changes of the resource.

        Raises:
            Unavailable: the server cannot be used now.
            InvalidResult: it does not confirm the subscription in time.
            MCPError: it refused the subscription.
        """
        return await self._subscriptions.add(await self.session(), uri, changed)

    @property
    def idle_since(self) -> float | None:
        """The time of the last call; None while one runs, or a caller subscribes to a resource."""
        return None if self.calls or self._subscriptions else self.calls.used_at

    async def close(self) -> None:
        """Close the session, and stop the server if it is a process of ours."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if not self._attempt.done():
            self._attempt.set_exception(Unavailable(f"the connection to {self.name!r} is closed", None))
            self._attempt.exception()

    async def _supervise(self) -> None:
        failures = 0
        while await self._is_wanted():
            self._wanted.clear()
            self._ready_at, self._is_unknown = None, False
            reason, is_final = await self._run_session()
            self.log.add(f"agenttool: {reason}")
            is_stable = self._ready_at is not None and time.monotonic() - self._ready_at >= STABLE_S
            # A server that does not know a session works, and each call opens at most one.
            is_first_loss = self._ready_at is not None and (self._is_unknown or not failures)
            failures = 0 if is_stable else failures if self._is_unknown else failures + 1
            if is_stable or is_first_loss:  # the next call opens a session at once
                self._attempt = self._new_attempt() if self._attempt.done() else self._attempt
                if self._subscriptions:
                    self._wanted.set()
                continue
            delay = MAX_DELAY_S if is_final else retry_delay(failures)
            await self._fail(reason, delay, is_final=is_final)
            await asyncio.sleep(delay)
            self._attempt = self._new_attempt()
            if self.idle_s is None or self._subscriptions:
                self._wanted.set()
        self.on_end()

    async def _is_wanted(self) -> bool:
        """Wait until a session is wanted; return False if no call wants one for `idle_s`."""
        while not self._wanted.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.idle_s):
                    await self._wanted.wait()
            if not self._wanted.is_set() and not self.calls:
                return False
        return True

    async def _run_session(self) -> tuple[str, bool]:
        """Open a session and wait for its end; return why it ended, and whether the settings must change."""
        self.status = replace(self.status, tries=self.status.tries + 1)
        callbacks = self.answers.callbacks(self.calls, self.log, self.on_message, self._subscriptions.note_update)
        session_id = SessionId()
        self.calls.begin_session()
        try:
            with anyio.fail_after(self.start_timeout_s) as limit:
                transport = self.open_transport(self.log, session_id)
                async with open_session(transport, callbacks, session_id, mode=self.mode) as session:
                    lists = ListWatch(session, self)
                    self._lists = lists  # before the first read, during which the server may announce a change
                    await lists.check()
                    limit.deadline = float("inf")
                    await self._succeed(session)
                    await self._run_until_end(session, lists)
        except TimeoutError:
            return f"the server {self.name!r} did not start within {self.start_timeout_s:g} s", False
        except (Exception, BaseExceptionGroup) as error:  # any fault of a server ends here
            found = _innermost(error)
            if not isinstance(found, ConfigError | CredentialMissing | MCPError | InvalidResult | OSError):
                log.debug("the connection to %r failed", self.name, exc_info=error)
            return f"the server {self.name!r} cannot be used: {_describe_error(found)}", isinstance(found, ConfigError)
        return f"the connection to {self.name!r} ended", False

    async def read_tools(self, session: McpSession) -> None:
        """Read the lists of a session, and use them."""
        is_announced, self._is_announced = self._is_announced, False
        await self.on_ready(session, is_announced)

    async def _run_until_end(self, session: McpSession, lists: "ListWatch") -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lists.run)
            if reports_changes(session):
                tasks.start_soon(self._subscriptions.run, session)
            await self._wait_for_end(session)
            tasks.cancel_scope.cancel()

    async def _wait_for_end(self, session: McpSession) -> None:
        while not session.closed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.idle_s):
                    await session.closed.wait()
            idle_since = self.idle_since
            if self.idle_s is not None and idle_since is not None and time.monotonic() - idle_since >= self.idle_s:
                return

    def report_gap(self) -> None:
        """Have all lists read again, because the server may have changed them unnoticed."""
        for kind in OfferKind:
            self.on_offers(kind)
        self.refresh()

    async def on_message(self, message: ServerNotification | Exception) -> None:
        """Report a changed list; read the tools again if they or the prompts changed."""
        match message:
            case ResourceListChangedNotification():
                self.on_offers(OfferKind.RESOURCES)
            case PromptListChangedNotification():
                self.on_offers(OfferKind.PROMPTS)
                self.refresh()
            case ToolListChangedNotification():
                self._is_announced = True
                self.refresh()
            case _:
                pass

    async def _succeed(self, session: McpSession) -> None:
        if not self.status.is_ready or self.status.fault is not None:
            self.status = replace(self.status, since_ns=self.now_ns())
        self.status = replace(self.status, state=ProviderState.READY, fault=None, next_try_at_ns=None, tries=1)
        self._ready_at = time.monotonic()
        if not self._attempt.done():
            self._attempt.set_result(session)
        await self.on_status()

    async def _fail(self, reason: str, delay: float, *, is_final: bool) -> None:
        now = self.now_ns()
        self._retry_at = time.monotonic() + delay
        self.status = replace(
            self.status,
            state=ProviderState.UNAVAILABLE if is_final else ProviderState.CONNECTING,
            fault=f"{reason}; it is tried again automatically",
            since_ns=now if self.status.is_ready or self.status.fault is None else self.status.since_ns,
            next_try_at_ns=now + round(delay * 1e9),
        )
        if self.status.tries.bit_count() == 1:
            log.warning("%s (%d tries); `agenttool sources` shows its log", reason, self.status.tries)
        if self._attempt.done():
            self._attempt = self._new_attempt()
        self._attempt.set_exception(Unavailable(reason, delay))
        self._attempt.exception()  # marks it as retrieved: there may be no call
        await self.on_status()

    def _new_attempt(self) -> "asyncio.Future[McpSession]":
        return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class ListWatch:
    """Keeps the lists of a server up to date during one session.

    Attributes:
        session: the session.
        connection: its connection, which uses the lists.
    """

    session: McpSession
    connection: Connection
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _read_at: float = 0.0
    _is_stale: bool = True
    _is_reported: bool = False

    def mark_changed(self) -> None:
        """Read the lists again soon, and before the next call."""
        self._is_stale = True
        self._wake.set()

    @property
    def _is_current(self) -> bool:
        valid_s = self.session.tools_valid_s
        if self._is_reported or valid_s is None:
            valid_s = MAX_AGE_S
        valid_s = min(max(valid_s, REFRESH_S), MAX_AGE_S)
        return not self._is_stale and time.monotonic() - self._read_at < valid_s

    @property
    def is_known(self) -> bool:
        """Whether the lists are current and not being read, so that a call needs no `check`."""
        return not self._reading.locked() and self._is_current

    async def check(self) -> bool:
        """Read the lists again if they may have changed; return whether they were read.

        Raises:
            MCPError: the server answered with an error, or the connection ended.
            InvalidResult: it sent no list.
            StoreError: the definitions cannot be stored.
        """
        async with self._reading:
            if self._is_current:
                return False
            self._is_stale, self._read_at = False, time.monotonic()
            try:
                await self.connection.read_tools(self.session)
            except BaseException:
                self._is_stale = True
                raise
            self._wake.set()  # `run` must know whether tools wait now
            return True

    async def run(self) -> None:
        """Read the lists again after each change."""
        async with anyio.create_task_group() as tasks:
            if self.session.is_modern:
                tasks.start_soon(self._listen)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(MAX_AGE_S if self.connection.is_waiting() else None):
                        await self._wake.wait()
                await asyncio.sleep(max(self._read_at + REFRESH_S - time.monotonic(), 0.0))
                self._wake.clear()
                try:
                    if await self.check():
                        await self.connection.on_status()
                except (MCPError, InvalidResult, StoreError) as error:
                    log.warning(
                        "the lists of %r cannot be read again: %s",
                        self.connection.name,
                        words_of(error)[:_SHOWN_CHARS],
                    )

    async def _listen(self) -> None:
        """Subscribe to changes of lists, and again after the stream ended, if the server reports them."""
        capabilities = self.session.client.server_capabilities
        features = (capabilities.tools, capabilities.prompts, capabilities.resources)
        tools, prompts, resources = (each is not None and bool(each.list_changed) for each in features)
        if not (tools or prompts or resources):
            return
        failures, is_first = 0, True
        while True:
            opened = time.monotonic()
            try:
                async with self.session.client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as changes:
                    self._is_reported = bool(changes.honored.tools_list_changed)
                    if not is_first:
                        self.connection.report_gap()
                    async for _ in changes:  # the connection gets each as a notification, too
                        pass
            except Exception as error:  # noqa: BLE001 -- whatever ended the stream
                log.debug("the stream of changes of %r ended: %s", self.connection.name, words_of(error)[:_SHOWN_CHARS])
            self._is_reported, self._is_stale, is_first = False, True, False
            failures = 1 if time.monotonic() - opened >= MAX_AGE_S else failures + 1
            await asyncio.sleep(retry_delay(failures))


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _describe_error(error: BaseException) -> str:
    if isinstance(error, MCPError):
        fault = fault_of(error)
        if fault is not None:
            return "it closed the connection" if fault == CONNECTION_LOST else error.message
        return f"it answered with the error {error.code}: {error.message[:_SHOWN_CHARS]}"
    if isinstance(error, httpx2.HTTPError):
        return f"no connection ({type(error).__name__})"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    text = words_of(error)[:_SHOWN_CHARS]
    known = isinstance(error, ConfigError | CredentialMissing | InvalidResult)
    return text if known else f"{type(error).__name__}: {text}"
