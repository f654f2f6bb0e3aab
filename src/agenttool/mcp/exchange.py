"""The work for one request of a client, such as a call: its progress, its requests to the client, and its result.

Up to revision 2025-11-25 the work sends requests to the client while the client's request is open. From 2026-07-28 on
the client's request ends with `input_required`. The work waits, and continues when the client repeats its request with
the replies.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import is_version_at_least
from pydantic import BaseModel

from agenttool.codec import object_of
from agenttool.errors import CallerError
from agenttool.ports.caller import CALLER
from agenttool.records import InvocationId, JsonObject, ToolProgress

STATELESS_REVISION = "2026-07-28"
"""The first revision without sessions: a request never waits for the client."""

GATHER_S = 0.01
"""How long further requests of the same work are collected before the client receives them."""

RequestContext = ServerRequestContext[dict[str, object], object]
"""The context of a request, as the SDK passes it to a handler."""

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_REQUESTS: dict[str, tuple[type[types.InputRequest], type[types.Result], JsonObject]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult, {"elicitation": {"form": {}}}),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResultWithTools, {"sampling": {}}),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult, {"roots": {}}),
}
"""The requests that a server may make, their replies, and the capability of clients that answer them."""

log = logging.getLogger("agenttool.mcp")


def is_stateless(context: RequestContext) -> bool:
    """Return whether the revision of a request has no sessions, so that the server cannot send requests."""
    return is_version_at_least(context.protocol_version, STATELESS_REVISION)


def missing_capability(members: JsonObject) -> MCPError:
    """Return the error of a request that the server can only serve to a client with some capability."""
    message = f"this request needs a client that declares {', '.join(members)}; use such a client"
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": members})


class PendingRequest(NamedTuple):
    """A request that the client has not answered."""

    request: types.InputRequest
    reply: "asyncio.Future[JsonObject]"


@dataclass(slots=True, eq=False, weakref_slot=True)
class ClientExchange:
    """The work for one request of a client, over all round trips; the `CallingClient` of the calls within it.

    Attributes:
        context: the client's open request; the last one, if none is open.
        session_log_level: the lowest level of log messages that the client's session wants; None without a session.
        replies: replies that arrived before their requests were made, as after a restart.
        pending: the requests to the client that have no reply, by key.
        expected: the keys of requests that will be pending soon, so the client gets all of them at once.
        is_left: whether the server stops; waiting calls are then not canceled, and the next process resumes them.
        missing: the capability that the work needed and the client does not declare, as the protocol writes it.
        task_after_s: after how long the work becomes a task; None if it cannot, or the client cannot follow tasks.
        is_long: whether the work becomes a task at once, if it can.
        ended: the call whose recorded result the client asks for again; None if the work is done now.
    """

    context: RequestContext
    exchange_id: str
    session_log_level: str | None = None
    replies: dict[str, JsonObject] = field(default_factory=dict)
    pending: dict[str, PendingRequest] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    is_left: bool = False
    missing: JsonObject | None = None
    task_after_s: float | None = None
    is_long: bool = False
    ended: InvocationId | None = None
    task: asyncio.Task[JsonObject | Exception] | None = None
    _updates: deque[ToolProgress] = field(default_factory=lambda: deque[ToolProgress](maxlen=1000))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: int = 0
    _progress: float = 0.0

    def start(self, group: asyncio.TaskGroup, work: Callable[[], Awaitable[JsonObject]]) -> None:
        """Start the work in a task of a group."""

        async def run() -> JsonObject | Exception:
            CALLER.set(self)
            try:
                return await work()
            except Exception as error:  # noqa: BLE001 -- it belongs to the request, not to the group
                return error
            finally:
                self._changed.set()  # one turn of the event loop earlier than the callback

        self.task = group.create_task(run())
        self.task.add_done_callback(lambda _: self._changed.set())  # it may be canceled before it begins

    @property
    def has_ended(self) -> bool:
        """Whether the work was started and has ended."""
        return self.task is not None and self.task.done()

    def cancel(self) -> None:
        """Cancel the work; work that has ended stays as it is."""
        if self.task is not None:
            self.task.cancel()

    def leave(self) -> None:
        """Stop the work with the server; the next process resumes a call that waits."""
        self.is_left = True
        self.cancel()

    def wake(self) -> None:
        """Make the request that attends this exchange look at its work again."""
        self._changed.set()

    def progressed(self, update: ToolProgress) -> None:
        """Queue a progress update for the client."""
        self._updates.append(update)
        self._changed.set()

    async def changed(self) -> bool:
        """Wait for the first change of the work; return whether there is something to send to the client."""
        await self._changed.wait()
        return bool(self._updates or self.pending or self.missing)

    async def attend(self, context: RequestContext) -> JsonObject | None:
        """Send progress to the client until the work ends; return its result.

        Return None if the work waits for the client or becomes a task. If the client cancels its request, the work is
        canceled.
        """
        if self.task is None:
            raise AssertionError("an exchange is started first")
        self.context, after_s = context, self.task_after_s
        until = None if after_s is None else asyncio.get_running_loop().time() + after_s
        try:
            while True:
                self._changed.clear()
                await self._send_progress()
                if self.task.done():
                    return self._result_of(self.task.result())
                if self.is_long and after_s is not None:
                    return None
                if self.pending and self.expected <= self.pending.keys() and is_stateless(context):
                    await asyncio.sleep(GATHER_S)
                    return None
                try:
                    async with asyncio.timeout_at(until):
                        await self._changed.wait()
                except TimeoutError:
                    return None
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _result_of(self, outcome: JsonObject | Exception) -> JsonObject:
        """Return the result of the work, or raise its error; a missing capability of the client comes first."""
        is_failure = isinstance(outcome, Exception) or outcome.get("isError")
        if is_failure and self.missing is not None and is_stateless(self.context):
            raise missing_capability(self.missing)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _send_progress(self) -> None:
        while self._updates:
            update = self._updates.popleft()
            percent = update.percent
            # Progress must increase with every notification.
            self._progress = max(percent, self._progress) if percent is not None else self._progress + 0.001
            total = None if percent is None else 100.0
            await self.context.session.report_progress(self._progress, total, update.message or update.current_step)

    def input_requests(self) -> JsonObject:
        """Return the requests that the client has to answer before the work continues."""
        return {key: wire(each.request) for key, each in self.pending.items()}

    def reply(self, responses: Mapping[str, object]) -> None:
        """Deliver replies of the client to the pending requests; unknown keys and unusable replies are ignored."""
        for key, response in responses.items():
            found = self.pending.get(key)
            if found is not None and not found.reply.done() and _fits(found.request, response):
                found.reply.set_result(reply_members(response))
                del self.pending[key]

    def note_long(self) -> None:
        """Note that the work takes long, so that a client that can follow tasks gets one now."""
        self.is_long = True
        self._changed.set()

    @property
    def is_legacy(self) -> bool:
        """Whether the client's revision is at most 2025-11-25."""
        return not is_stateless(self.context)

    @property
    def log_level(self) -> str | None:
        """The lowest level of log messages that the client wants; None if it wants none."""
        meta = object_of(self.context.meta)
        level = self.session_log_level if self.is_legacy else meta.get(types.LOG_LEVEL_META_KEY)
        return level if isinstance(level, str) and level in LEVELS else None

    def note_needed(self, capabilities: JsonObject) -> None:
        """Record the capabilities that the work needs and the client does not declare."""
        declared = self.context.session.client_capabilities
        known = {} if declared is None else wire(declared)
        self.missing = {name: each for name, each in capabilities.items() if name not in known} or self.missing

    @contextmanager
    def expecting(self, key: str) -> Generator[None]:
        """Deliver other requests only after the block has made the request of this key, or has ended."""
        self.expected.add(key)
        try:
            yield
        finally:
            self.drop_expected(key)

    def drop_expected(self, key: str) -> None:
        """Deliver the pending requests without waiting for the one of this key."""
        self.expected.discard(key)
        self._changed.set()

    async def finish_requests(self) -> None:
        """Wait until the client has answered all pending requests."""
        while self.pending:
            await asyncio.wait([each.reply for each in self.pending.values()])

    def accepts(self, method: str) -> bool:
        """Return whether the client declares that it answers a method."""
        declared = self.context.session.client_capabilities
        if declared is None:
            return False
        elicitation = declared.elicitation
        accepted = {
            "elicitation/create": elicitation is not None and (elicitation.form is not None or elicitation.url is None),
            "sampling/createMessage": declared.sampling is not None,
            "roots/list": declared.roots is not None,
        }
        return accepted.get(method, False)

    @property
    def accepts_pages(self) -> bool:
        """Whether the client declares that it opens pages for its user."""
        declared = self.context.session.client_capabilities
        return declared is not None and declared.elicitation is not None and declared.elicitation.url is not None

    async def complete_elicitation(self, elicitation_id: str) -> None:
        """Notify a client that what its user did on a page is complete; later revisions have no such notification."""
        if not is_stateless(self.context):
            with suppress(MCPError):
                await self.context.session.send_elicit_complete(elicitation_id, self.context.request_id)

    async def request(self, method: str, params: JsonObject, *, key: str | None = None) -> JsonObject:
        """Send a request to the client and return its reply.

        Raises:
            CallerError: the client does not declare the method, or gave no usable reply.
        """
        if not (self.accepts_pages if params.get("mode") == "url" else self.accepts(method)):
            self.missing = _REQUESTS[method][2] if method in _REQUESTS else None
            raise CallerError(f"the client cannot answer {method!r}; use a client that declares this capability")
        kind, reply_kind, _ = _REQUESTS[method]
        made = kind.model_validate({"method": method, "params": params} if params else {"method": method})
        if is_stateless(self.context):
            return await self._queue_request(made, key)
        related = ServerMessageMetadata(related_request_id=self.context.request_id)
        try:
            return reply_members(await self.context.session.send_request(made, reply_kind, metadata=related))
        except MCPError as error:
            raise CallerError(f"the client did not answer {method!r}: {error}") from error

    async def _queue_request(self, made: types.InputRequest, key: str | None) -> JsonObject:
        self._asked += 1
        name = key if key is not None and key not in self.pending else f"input_{self._asked}"
        if name in self.replies and _fits(made, self.replies[name]):
            return self.replies.pop(name)
        reply: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self.pending[name] = PendingRequest(made, reply)
        self._changed.set()
        try:
            return await reply
        finally:
            self.pending.pop(name, None)

    async def log(self, level: str, data: object, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants those of this level."""
        lowest = self.log_level
        if lowest is None or level not in LEVELS or LEVELS.index(level) < LEVELS.index(lowest):
            return
        params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
        with suppress(MCPError):
            await self.context.session.send_notification(
                types.LoggingMessageNotification(params=params), self.context.request_id
            )


def _fits(request: types.InputRequest, response: object) -> bool:
    """Return whether a reply is valid for a request; an accepted form must have its required fields."""
    members = reply_members(response)
    try:
        _REQUESTS[request.method][1].model_validate(members, by_name=False)
    except ValueError:
        return False
    params = request.params
    if isinstance(params, types.ElicitRequestFormParams) and members.get("action") == "accept":
        content, required = members.get("content"), params.requested_schema.get("required", [])
        return isinstance(content, dict) and all(name in content for name in cast("list[str]", required))
    return True


def wire(model: BaseModel) -> JsonObject:
    """Return an object of the protocol as JSON."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def reply_members(response: object) -> JsonObject:
    """Return a reply of a client as JSON."""
    return wire(response) if isinstance(response, types.Result) else object_of(response)


_UNDELAYED = frozenset({"initialize", "ping", "server/discover"})


async def has_started(starting: asyncio.Task[None]) -> bool:
    """Wait until the runtime has started; return whether it did."""
    if not starting.done():
        await asyncio.wait([starting])
    return not starting.cancelled() and starting.exception() is None


async def wait_for_start(starting: asyncio.Task[None], ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Handle a request once the runtime has started; one that opens a connection, or a notification, at once."""
    if ctx.request_id is not None and ctx.method not in _UNDELAYED and not await has_started(starting):
        raise MCPError(types.INTERNAL_ERROR, "the server cannot start; its standard error has the reason")
    return await call_next(ctx)
