"""One supervised connection to a server: opened on first use, and opened again after a loss, with backoff.

The session lives in a task of its own, because its streams must be opened and closed by the same task.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
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

from agenttool.adapters.mcp.list_watch import ListWatch
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

_SHOWN_CHARS = 300


class Unavailable(Exception):
    """A server cannot be used now; has the reason, and the seconds until the next try if there is one."""

    def __init__(self, reason: str, retry_after_s: float | None) -> None:
        """Take the reason and the delay."""
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How one connection is made.

    Attributes:
        name: of the server, for messages.
        open_transport: opens the streams; raises `ConfigError` if the server can never be reached this way.
        on_ready: reads the lists of a new session, and again after they may have changed; within `start_timeout_s`.
        is_waiting: whether tools wait for a review.
        on_status: is called after the state changed.
        on_offers: is called after the list of resources or prompts changed.
        answers: answers the requests of the server.
        idle_s: after how long without a call it is closed; None for never. A connection that may be closed is opened
            by calls alone, so that it is not tried again for an actor that is gone.
        on_end: is called after a connection that was not used any more has ended.
    """

    name: str
    open_transport: Callable[[ServerLog, SessionId], Transport]
    on_ready: Callable[[McpSession], Awaitable[None]]
    is_waiting: Callable[[], bool]
    on_status: Callable[[], Awaitable[None]]
    on_offers: OfferChanged
    answers: ServerRequests
    start_timeout_s: float
    mode: str
    now_ns: Callable[[], int]
    idle_s: float | None = None
    on_end: Callable[[], object] | None = None


@dataclass(slots=True, eq=False)
class Connection:
    """The connection to one server, for all callers or for one actor.

    Attributes:
        calls: those that run; while there is one, the connection is not idle.
    """

    options: ConnectionOptions
    log: ServerLog = field(default_factory=ServerLog)
    status: SourceStatus = field(init=False)
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _lists: ListWatch | None = None
    _attempt: "asyncio.Future[McpSession]" = field(init=False)
    _task: "asyncio.Task[None] | None" = None
    _retry_at: float = 0.0
    _ready_at: float | None = None
    calls: RunningCalls = field(default_factory=RunningCalls)
    _is_unknown: bool = False
    _subscriptions: ResourceSubscriptions = field(default_factory=ResourceSubscriptions)

    def __post_init__(self) -> None:
        """Start as not connected."""
        self._attempt = self._new_attempt()
        self.status = SourceStatus(
            source=self.options.name, state=ProviderState.CONNECTING, since_ns=self.options.now_ns(), tries=0
        )

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

    async def session(self, on_wait: Callable[[], None]) -> McpSession:
        """Return the open session, after a wait if it is being opened; `on_wait` is called before a wait.

        Raises:
            Unavailable: the server cannot be used now.
        """
        if self.is_connected and self._attempt.result().closed.is_set():
            self._attempt = self._new_attempt()
        self.calls.used_at = time.monotonic()
        attempt = self.want()
        if not attempt.done():
            on_wait()
        try:
            return attempt.result() if attempt.done() else await asyncio.shield(attempt)
        except Unavailable as error:
            raise Unavailable(error.reason, max(self._retry_at - time.monotonic(), 0.0)) from error

    async def session_for_tool(self, on_wait: Callable[[], None]) -> McpSession:
        """Return the open session, after its tools were read again if they may have changed.

        Raises:
            Unavailable: the server cannot be used now, or its tools cannot be read.
        """
        for is_last in (False, True):
            session = await self.session(on_wait)
            lists = self._lists
            if lists is None or lists.session is not session:
                continue  # it has just ended
            if lists.is_known:
                return session
            try:
                async with asyncio.timeout(self.options.start_timeout_s):
                    is_read = await lists.check()
            except (MCPError, InvalidResult, StoreError, TimeoutError) as error:
                is_lost = isinstance(error, MCPError) and self.drop_if_lost(session, error)
                if is_last or not is_lost:
                    fault = _describe_error(error)
                    reason = f"the tools of the server {self.options.name!r} cannot be read again: {fault}"
                    raise Unavailable(reason, None) from error
            else:
                if is_read:
                    await self.options.on_status()
                return session
        raise Unavailable(f"the connection to {self.options.name!r} ended", None)

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
        return await self._subscriptions.add(await self.session(lambda: None), uri, changed)

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
            self._attempt.set_exception(Unavailable(f"the connection to {self.options.name!r} is closed", None))
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
            if self.options.idle_s is None or self._subscriptions:
                self._wanted.set()
        if self.options.on_end is not None:
            self.options.on_end()

    async def _is_wanted(self) -> bool:
        """Wait until a session is wanted; return False if no call wants one for `idle_s`."""
        while not self._wanted.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.options.idle_s):
                    await self._wanted.wait()
            if not self._wanted.is_set() and not self.calls:
                return False
        return True

    async def _run_session(self) -> tuple[str, bool]:
        """Open a session and wait for its end; return why it ended, and whether the settings must change."""
        options = self.options
        self.status = replace(self.status, tries=self.status.tries + 1)
        callbacks = options.answers.callbacks(self.calls, self.log, self.on_message, self._subscriptions.note_update)
        session_id = SessionId()
        try:
            with anyio.fail_after(options.start_timeout_s) as limit:
                transport = options.open_transport(self.log, session_id)
                async with open_session(transport, callbacks, session_id, mode=options.mode) as session:
                    lists = ListWatch(options.name, session, options.on_ready, self._report_gap, options.is_waiting)
                    await lists.check()
                    self._lists = lists
                    limit.deadline = float("inf")
                    await self._succeed(session)
                    await self._run_until_end(session, lists)
        except TimeoutError:
            return f"the server {options.name!r} did not start within {options.start_timeout_s:g} s", False
        except (Exception, BaseExceptionGroup) as error:  # any fault of a server ends here
            found = _innermost(error)
            if not isinstance(found, ConfigError | CredentialMissing | MCPError | InvalidResult | OSError):
                log.debug("the connection to %r failed", options.name, exc_info=error)
            return f"the server {options.name!r} cannot be used: {_describe_error(found)}", isinstance(
                found, ConfigError
            )
        return f"the connection to {options.name!r} ended", False

    async def _run_until_end(self, session: McpSession, lists: ListWatch) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lists.run, self.options.on_status)
            if reports_changes(session):
                tasks.start_soon(self._subscriptions.run, session)
            await self._wait_for_end(session)
            tasks.cancel_scope.cancel()

    async def _wait_for_end(self, session: McpSession) -> None:
        idle_s = self.options.idle_s
        while not session.closed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(idle_s):
                    await session.closed.wait()
            idle_since = self.idle_since
            if idle_s is not None and idle_since is not None and time.monotonic() - idle_since >= idle_s:
                return

    def _report_gap(self) -> None:
        """Have all lists read again, because the server may have changed them unnoticed."""
        for kind in OfferKind:
            self.options.on_offers(kind)
        self.refresh()

    async def on_message(self, message: ServerNotification | Exception) -> None:
        """Report a changed list; read the tools again if they or the prompts changed."""
        match message:
            case ResourceListChangedNotification():
                self.options.on_offers(OfferKind.RESOURCES)
            case PromptListChangedNotification():
                self.options.on_offers(OfferKind.PROMPTS)
                self.refresh()
            case ToolListChangedNotification():
                self.refresh()
            case _:
                pass

    async def _succeed(self, session: McpSession) -> None:
        if not self.status.is_ready or self.status.fault is not None:
            self.status = replace(self.status, since_ns=self.options.now_ns())
        self.status = replace(self.status, state=ProviderState.READY, fault=None, next_try_at_ns=None, tries=1)
        self._ready_at = time.monotonic()
        if not self._attempt.done():
            self._attempt.set_result(session)
        await self.options.on_status()

    async def _fail(self, reason: str, delay: float, *, is_final: bool) -> None:
        now = self.options.now_ns()
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
        await self.options.on_status()

    def _new_attempt(self) -> "asyncio.Future[McpSession]":
        return asyncio.get_running_loop().create_future()


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
