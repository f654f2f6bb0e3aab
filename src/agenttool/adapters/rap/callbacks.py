"""The handling of callbacks from tools: each is verified, matched to one pending call, and processed in thread order.

A callback that matches no pending call is logged and dropped. The status of the reply guides the sender: 4xx means that
a retry is useless, 5xx means that a retry may succeed, and 200 also covers repeated and late messages.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from weakref import WeakValueDictionary

from starlette.exceptions import HTTPException

from agenttool.adapters.rap import wire
from agenttool.adapters.rap.callback_urls import CallbackUrls
from agenttool.adapters.rap.discovery import WatchedServer
from agenttool.adapters.rap.settings import DEFAULT_MAX_SUBSCRIPTIONS, source_name_in
from agenttool.adapters.rap.subscriptions import (
    CANCEL_SUBSCRIPTION,
    MAX_EVENT_CHARS,
    EventOutcome,
    SubscribeOutcome,
    Subscription,
    SubscriptionStore,
)
from agenttool.adapters.rap.threads import ThreadRegistry, View, ViewStore
from agenttool.adapters.rap.translate import ERROR_PREFIX
from agenttool.errors import RecordError, StoreError
from agenttool.http.limiter import RateLimiter
from agenttool.http.request_body import BodyBudget, is_json
from agenttool.http.ssrf import auth_url_error, check_url
from agenttool.ports.deferred import AnswerStatus, PendingCall, Prompt, PromptKind, PromptOutcome
from agenttool.ports.limits import RateLimit
from agenttool.ports.source import SourceHost
from agenttool.records import InvocationId

log = logging.getLogger("agenttool.rap")

_DIGEST_LENGTH = 12
MAX_CONCURRENT = 1000
"""How many callbacks are processed at a time; further ones are answered with 503."""

CALLBACK_RATE = RateLimit(per_second=50, burst=500)
"""How often a call may send callbacks other than its result."""


class CallbackHandler:
    """Processes the messages to every callback URL of a runtime."""

    def __init__(
        self,
        host: SourceHost,
        urls: CallbackUrls,
        servers: Mapping[str, WatchedServer],
        withdraw: Callable[[InvocationId, str], None],
    ) -> None:
        """Take the servers by name, and what notifies them that a call is canceled."""
        self.urls = urls
        self.results, self.now_ns = host.results, host.now_ns
        self.threads = ThreadRegistry(host.documents)
        self.views = ViewStore(host.documents)
        self.subscriptions = SubscriptionStore(host.documents)
        self.withdraw = withdraw
        self.bodies = BodyBudget()
        self._unique = host.unique
        self._servers = servers
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._concurrent = 0
        self._rates = RateLimiter(CALLBACK_RATE)

    async def receive(
        self, token: str, content_type: str | None, body: bytes, idempotency_key: str | None = None
    ) -> None:
        """Process one message; its sender is acknowledged unless this raises.

        Messages with the same idempotency key are attempts to deliver one message; others are separate messages.

        Raises:
            HTTPException: the message is rejected.
        """
        call = self.verify_token(token)
        message, status, fault = None, 415, "a callback is application/json"
        if content_type is None or is_json(content_type):
            try:
                message = wire.read_callback(body)
            except RecordError as error:
                status, fault = 400, str(error)
        if not isinstance(message, wire.ToolResultMessage) and self._rates.take(call):
            raise _rejected(call, 503, "callbacks for this call come too often; retry later")
        if message is None:
            raise _rejected(call, status, fault)
        if not self.urls.belongs_to_thread(token, message.group_id) or _call_named_in(message) not in (None, call):
            raise _dropped(call, "it names another call, or a thread other than its call's")
        if self._concurrent >= MAX_CONCURRENT:
            raise _rejected(call, 503, "too many callbacks at once; retry later")
        delivery = None if idempotency_key is None else _digest(idempotency_key)
        self._concurrent += 1
        try:
            async with self.thread_lock(message.group_id):
                await self._process(call, message, body, delivery)
        except StoreError as error:
            log.error("a callback for %s could not be stored: %s", call, error)  # noqa: TRY400 -- no traceback needed
            raise HTTPException(503, "the message could not be stored; retry later") from error
        finally:
            self._concurrent -= 1

    def verify_token(self, token: str) -> InvocationId:
        """Return the call of a callback URL; called before the body is read.

        Raises:
            HTTPException: the URL is forged or expired.
        """
        call = self.urls.verify(token)
        if call is not None and self.now_ns() <= self.urls.expires_at_ns(call):
            return call
        log.warning("a callback was sent to a URL that is %s", "forged" if call is None else "expired")
        raise HTTPException(404 if call is None else 410, "no such callback URL")

    def thread_lock(self, thread_id: str) -> asyncio.Lock:
        """Return the lock that serializes changes to a thread."""
        return self._locks.setdefault(thread_id, asyncio.Lock())

    def _process(
        self, call: InvocationId, message: wire.Callback, body: bytes, delivery: str | None
    ) -> Awaitable[None]:
        match message:
            case wire.ToolResultMessage():
                return self._result(call, message, body)
            case wire.SubscriptionEvent():
                return self._event(call, message, delivery)
            case wire.OAuth() | wire.UserChoice():
                return self._ask(call, message, delivery)
            case wire.ViewUpdate():
                return self._view(call, message, delivery)

    async def _result(self, call: InvocationId, message: wire.ToolResultMessage, body: bytes) -> None:
        """Settle a pending call; a subscription is valid only if this message settles the call."""
        awaited = await self.results.get(call)
        if awaited is None:
            return _log_late(call)
        opened = await self._subscribe(awaited) if message.subscription else None
        is_over_limit = opened == "limit_reached"
        taken = await self.results.deliver(call, wire.write(_subscription_rejected(message)) if is_over_limit else body)
        if taken is not AnswerStatus.ACCEPTED:
            _log_late(call)
            if opened == "new":
                await self.subscriptions.end(message.group_id, call)
        elif is_over_limit:
            log.warning("%s exceeds the subscription limit of its thread; it is canceled", call)
            self.withdraw(call, message.group_id)
        return None

    async def _subscribe(self, awaited: PendingCall) -> SubscribeOutcome:
        """Store a subscription, also of a server that only another process of the store configures."""
        name, thread = source_name_in(awaited.tool_id), awaited.thread
        server = self._servers.get(name)
        subscription = Subscription(
            thread=thread,
            tool_call_id=awaited.invocation_id,
            source=name,
            name=awaited.tool_id.rpartition(".")[2],
            arguments=awaited.call_input,
            opened_at_ns=self.now_ns(),
        )
        limit = DEFAULT_MAX_SUBSCRIPTIONS if server is None else server.source.max_subscriptions
        return await self.subscriptions.open(subscription, limit)

    async def _event(self, call: InvocationId, message: wire.SubscriptionEvent, delivery: str | None) -> None:
        if len(message.text) > MAX_EVENT_CHARS:
            raise _rejected(call, 413, f"the text of an event has at most {MAX_EVENT_CHARS} characters; send less")
        outcome: EventOutcome = "unknown"
        if await self.threads.find(message.group_id) is not None:
            outcome = await self.subscriptions.receive(message, f"evt_{self._unique()}", delivery)
        if outcome == "limit_reached":
            raise _rejected(call, 503, "too many events of this thread wait; retry later")
        if outcome == "unknown":
            raise _rejected(call, 410, "no such subscription")

    async def _ask(self, call: InvocationId, message: wire.OAuth | wire.UserChoice, delivery: str | None) -> None:
        """Show a prompt of a pending call; its id contains the delivery, so that a repeated one shows it once."""
        awaited = await self.results.get(call)
        if awaited is None:
            return _log_late(call)
        server = self._servers.get(source_name_in(awaited.tool_id))
        if server is None:  # a server without SSRF and display rules may not prompt a person
            raise _rejected(call, 503, "the server of this call is not configured here now; retry later")
        try:
            fields = _prompt_fields(message, awaited.name, server)
        except RecordError as error:
            raise _rejected(call, 400, str(error)) from None
        prompt = Prompt(
            prompt_id=f"prm_{call.partition('_')[2]}-{delivery or self._unique()[-_DIGEST_LENGTH:]}",
            invocation_id=call,
            tool_id=awaited.tool_id,
            tool_name=awaited.name,
            thread_id=awaited.thread.thread_id,
            asked_at_ns=self.now_ns(),
            **fields,  # pyright: ignore[reportArgumentType] -- the members in which the two kinds differ
        )
        most = server.source.max_prompts
        outcome = await self.results.ask(prompt, most)
        if outcome is PromptOutcome.TOO_MANY:
            raise _rejected(call, 409, f"a call may ask {most} times; send its result")
        return None if outcome is PromptOutcome.PUT_UP else _log_late(call)

    async def _view(self, call: InvocationId, message: wire.ViewUpdate, delivery: str | None) -> None:
        if await self.threads.find(message.group_id) is None:
            raise _dropped(call, "its thread is closed")
        view = View(thread_id=message.group_id, view_type=message.view_type, content=message.content)
        own = None if delivery is None else _digest(f"{call}/{delivery}")  # two servers may use equal keys
        if not await self.views.update(view, own):
            raise _rejected(call, 413, "the view is too large, or there are too many; clear one first")


def _call_named_in(message: wire.Callback) -> str | None:
    """Return the call that a message is about; None for a view, which is of a thread."""
    if isinstance(message, wire.ViewUpdate):
        return None
    return message.tool_call_id if isinstance(message, wire.SubscriptionEvent) else message.id


def _prompt_fields(message: wire.OAuth | wire.UserChoice, tool_name: str, server: WatchedServer) -> dict[str, object]:
    """Return the members of a prompt in which the two kinds differ.

    Raises:
        RecordError: its URL may not be shown or contacted.
    """
    if isinstance(message, wire.OAuth):
        error = auth_url_error(message.auth_url, allows_http=server.source.shows_http_urls)
        if error is not None:
            raise RecordError(error)
        text = f"{tool_name} needs an authorization; open the page, and the call continues by itself"
        return {"kind": PromptKind.AUTHORIZATION, "message": text, "url": message.auth_url}
    try:
        check_url(message.response_url, server.policy)
    except RecordError as error:
        raise RecordError(f"response_url: {error}") from None
    return {
        "kind": PromptKind.CHOICE,
        "message": message.prompt,
        "choices": message.choices,
        "default": message.default,
        "reply_to": {"id": message.id, "response_url": message.response_url},
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]


def _subscription_rejected(message: wire.ToolResultMessage) -> wire.ToolResultMessage:
    """Return the error result that replaces the confirmation of a subscription beyond the limit."""
    text = (
        f"{ERROR_PREFIX}the subscription was not opened, and its tool is asked to end it: this thread has reached its"
        f" limit; end one with {CANCEL_SUBSCRIPTION}, and call again"
    )
    return wire.ToolResultMessage(group_id=message.group_id, id=message.id, call_id=message.call_id, text=text)


def _rejected(call: InvocationId, status: int, message: str) -> HTTPException:
    log.warning("a callback for %s was rejected: %s", call, message)
    return HTTPException(status, message)


def _dropped(call: InvocationId, reason: str) -> HTTPException:
    log.warning("a callback for %s was dropped: %s", call, reason)
    return HTTPException(404, "no call waits for this message")


def _log_late(call: InvocationId) -> None:
    """Log a message that comes after the end of its call; it is acknowledged, so that it is not sent again."""
    log.info("a callback for %s was dropped: the call no longer waits", call)
