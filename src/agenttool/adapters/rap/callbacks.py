"""Callbacks from tools: checked, matched to the one call they may be about, and taken in one at a time per thread.

Whatever is not for a call that waits is logged and dropped. Replies follow one rule: 4xx means that trying again is of
no use, 5xx that it is our fault for the moment, and 200 also stands for what we had already or want no more.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from agenttool.adapters.rap.addresses import Addresses, Flawed
from agenttool.adapters.rap.bodies import Bodies
from agenttool.adapters.rap.declare import source_name_in
from agenttool.adapters.rap.forgery import Reach, check_url
from agenttool.adapters.rap.paces import Pace, Paces
from agenttool.adapters.rap.settings import MOST_SUBSCRIPTIONS, RapSource
from agenttool.adapters.rap.shown import why_not_shown
from agenttool.adapters.rap.subscriptions import (
    CANCEL_SUBSCRIPTION,
    LONGEST_EVENT,
    Opened,
    Received,
    Subscription,
    Subscriptions,
)
from agenttool.adapters.rap.threads import Threads
from agenttool.adapters.rap.translate import ERROR
from agenttool.adapters.rap.views import View, Views
from agenttool.adapters.rap.wire import (
    Callback,
    OAuth,
    SubscriptionEvent,
    ToolResultMessage,
    UserChoice,
    ViewUpdate,
    read_callback,
    write,
)
from agenttool.errors import RecordError, StoreError
from agenttool.ports.deferred import PendingCall, Prompt, PromptKind, PromptOutcome, ResultReceiver
from agenttool.ports.stores import AnswerStatus
from agenttool.records import InvocationId, ToolId

log = logging.getLogger("agenttool.rap")

TAKEN, BAD, UNKNOWN, GONE, TOO_LARGE, WRONG_TYPE, TOO_MANY, BUSY = 200, 400, 404, 410, 413, 415, 429, 503
_DIGITS = 12
MOST_AT_ONCE = 1000
"""So many callbacks are dealt with at a time; a tool that comes on top of that is asked to come again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool is told."""

    status: int
    message: str = ""


_OK = Outcome(TAKEN)
_TOO_OFTEN = Outcome(BUSY, "callbacks for this call come too often; come again later")
# Nobody is asked on behalf of a server that this deployment does not name: where it may lead a person is not known.
_UNKNOWN_HERE = Outcome(BUSY, "the server of this call is not among those that are known here now; come again")


@dataclass(slots=True, kw_only=True, eq=False)
class Callbacks:
    """The endpoint behind every callback URL of a runtime."""

    addresses: Addresses
    door: ResultReceiver
    threads: Threads
    views: Views
    subscriptions: Subscriptions
    source_of: Callable[[ToolId], tuple[RapSource, Reach] | None]
    now_ns: Callable[[], int]
    unique: Callable[[], str]
    withdraw: Callable[[InvocationId, str], None]
    saw: Callable[[ToolId], None]
    _locks: "WeakValueDictionary[str, asyncio.Lock]" = field(default_factory=WeakValueDictionary["str", "asyncio.Lock"])
    bodies: Bodies = field(default_factory=Bodies)
    _at_once: int = 0
    _paces: Paces = field(default_factory=Paces)

    async def receive(
        self, token: str, content_type: str | None, body: bytes, idempotency_key: str | None = None
    ) -> Outcome:
        """Take one message in, and say what to tell its sender.

        Two messages with the same idempotency key are two tries to deliver one, also where equal messages are two.
        """
        call = self.call_of(token)
        if isinstance(call, Outcome):
            return call
        message = _read(content_type, body)
        if self._is_too_often(call, message):
            return _TOO_OFTEN
        if isinstance(message, Outcome):
            log.warning("a callback for %s was refused: %s", call, message.message)
            return message
        if not self.addresses.is_of(token, message.group_id):
            return _dropped(call, "names a thread that is not its call's")
        delivery = None if idempotency_key is None else _digest(idempotency_key)
        return await self._in_turn(call, message, body, delivery)

    def call_of(self, token: str) -> InvocationId | Outcome:
        """Tell which call a URL is for, before anything is read that was sent there; or what to tell its sender."""
        call = self.addresses.read(token, self.now_ns())
        if not isinstance(call, Flawed):
            return call
        log.warning("a callback came to a URL that is %s", call.value)
        return Outcome(GONE if call is Flawed.EXPIRED else UNKNOWN, "no such callback URL")

    def turn_of(self, thread_id: str) -> asyncio.Lock:
        """Give what whoever changes something about a thread holds meanwhile."""
        return self._locks.setdefault(thread_id, asyncio.Lock())

    def _is_too_often(self, call: InvocationId, message: Callback | Outcome) -> bool:
        """Tell whether too much comes about a call; its result is heard anyway."""
        if isinstance(message, ToolResultMessage):
            return False
        pace = self._paces.pace_of(call)
        if pace is Pace.LEFT:
            log.warning("callbacks for %s come too often; they are sent back for a while", call)
        return pace is not Pace.KEPT

    async def _in_turn(self, call: InvocationId, message: Callback, body: bytes, delivery: str | None) -> Outcome:
        if self._at_once >= MOST_AT_ONCE:
            return Outcome(BUSY, "too many callbacks at once; come again")
        self._at_once += 1
        try:
            async with self.turn_of(message.group_id):
                return await self._take(call, message, body, delivery)
        except StoreError as error:
            log.error("a callback for %s could not be kept: %s", call, error)  # noqa: TRY400 -- the words are enough
            return Outcome(BUSY, "it could not be kept; come again")
        finally:
            self._at_once -= 1

    def _take(self, call: InvocationId, message: Callback, body: bytes, delivery: str | None) -> Awaitable[Outcome]:
        match message:
            case ToolResultMessage():
                return self._result(call, message, body)
            case SubscriptionEvent():
                return self._event(call, message, delivery)
            case OAuth():
                return self._authorization(call, message, delivery)
            case UserChoice():
                return self._choice(call, message, delivery)
            case ViewUpdate():
                return self._view(call, message, delivery)

    async def _result(self, call: InvocationId, message: ToolResultMessage, body: bytes) -> Outcome:
        """Settle a call, if it waits; a subscription counts only if this is what settles it."""
        if message.id != call:
            return _dropped(call, "names another call")
        awaited = await self.door.awaited(call)
        if awaited is None:
            return _late(call)
        self.saw(awaited.tool_id)
        opened = await self._subscribe(awaited) if message.subscription else None
        told = body if opened is not Opened.ONE_TOO_MANY else write(_not_kept(message))
        taken = await self.door.deliver_result(call, told)
        if taken is AnswerStatus.ACCEPTED:
            if opened is Opened.ONE_TOO_MANY:
                log.warning("%s would be one subscription too many for its thread; it is canceled", call)
                self.withdraw(call, message.group_id)
            return _OK
        if opened is Opened.NEW:
            await self.subscriptions.end(message.group_id, call)
        return _late(call)

    async def _subscribe(self, awaited: PendingCall) -> Opened:
        """Remember a subscription, also of a server that only another process knows, unless it is one too many."""
        found, thread = self.source_of(awaited.tool_id), awaited.thread
        subscription = Subscription(
            thread=thread,
            tool_call_id=awaited.invocation_id,
            source=source_name_in(awaited.tool_id),
            name=awaited.tool_id.rpartition(".")[2],
            arguments=awaited.call_input,
            opened_at_ns=self.now_ns(),
        )
        most = MOST_SUBSCRIPTIONS if found is None else found[0].max_subscriptions
        return await self.subscriptions.open(subscription, most)

    async def _event(self, call: InvocationId, message: SubscriptionEvent, delivery: str | None) -> Outcome:
        if message.tool_call_id != call:
            return _dropped(call, "names another call")
        if len(message.text) > LONGEST_EVENT:
            log.warning("an event of %s was dropped: it is too long", call)
            return Outcome(TOO_LARGE, f"the text of an event has at most {LONGEST_EVENT} characters; send less")
        received = Received.UNKNOWN
        if await self.threads.find(message.group_id) is not None:
            received = await self.subscriptions.receive(message, f"evt_{self.unique()}", delivery)
        if received is Received.KEPT:
            return _OK
        if received is Received.TOO_MANY:
            log.warning("an event of %s was sent back: too many of its thread wait to be dealt with", call)
            return Outcome(BUSY, "too many events of this thread wait; come again")
        log.info("an event of %s was dropped: it has no open subscription", call)
        return Outcome(GONE, "no such subscription")

    async def _authorization(self, call: InvocationId, message: OAuth, delivery: str | None) -> Outcome:
        awaited, flaw = await self._asking(call, message)
        if awaited is None:
            return flaw
        found = self.source_of(awaited.tool_id)
        if found is None:
            return _UNKNOWN_HERE
        flawed = why_not_shown(message.auth_url, allows_http=found[0].shows_http_urls)
        if flawed is not None:
            log.warning("%s asked to send a person where nobody is sent: %s", call, flawed)
            return Outcome(BAD, flawed)
        told = f"{awaited.name} needs an authorization; open the page, and it goes on by itself"
        asked = {"kind": PromptKind.AUTHORIZATION, "message": told, "url": message.auth_url}
        return await self._put(awaited, delivery, found[0].max_prompts, asked)

    async def _choice(self, call: InvocationId, message: UserChoice, delivery: str | None) -> Outcome:
        awaited, flaw = await self._asking(call, message)
        if awaited is None:
            return flaw
        found = self.source_of(awaited.tool_id)
        if found is None:
            return _UNKNOWN_HERE
        try:
            check_url(message.response_url, found[1])
        except RecordError as error:
            log.warning("%s wants its choice sent where it may not go: %s", call, error)
            return Outcome(BAD, f"response_url: {error}")
        asked = {
            "kind": PromptKind.CHOICE,
            "message": message.prompt,
            "choices": message.choices,
            "default": message.default,
            "reply_to": {"id": message.id, "response_url": message.response_url},
        }
        return await self._put(awaited, delivery, found[0].max_prompts, asked)

    async def _asking(self, call: InvocationId, message: OAuth | UserChoice) -> tuple[PendingCall | None, Outcome]:
        if message.id != call:
            return None, _dropped(call, "names another call")
        awaited = await self.door.awaited(call)
        if awaited is not None:
            self.saw(awaited.tool_id)
        return awaited, _late(call)

    async def _put(self, awaited: PendingCall, delivery: str | None, most: int, asked: Mapping[str, object]) -> Outcome:
        """Put a prompt up; its name is that of the delivery, so that the same prompt is put up once."""
        unique = awaited.invocation_id.partition("_")[2]
        prompt = Prompt(
            prompt_id=f"prm_{unique}-{delivery or self.unique()[-_DIGITS:]}",
            invocation_id=awaited.invocation_id,
            tool_id=awaited.tool_id,
            tool_name=awaited.name,
            thread_id=awaited.thread.thread_id,
            asked_at_ns=self.now_ns(),
            **asked,  # pyright: ignore[reportArgumentType] -- the fields in which the two kinds differ
        )
        match await self.door.ask(prompt, most):
            case PromptOutcome.PUT_UP:
                return _OK
            case PromptOutcome.NOT_AWAITED:
                return _late(awaited.invocation_id)
            case PromptOutcome.TOO_MANY:
                log.warning("%s has put %d prompts up, and may put up no more", awaited.invocation_id, most)
                return Outcome(TOO_MANY, f"a call may ask {most} times, and this one has; send its result")

    async def _view(self, call: InvocationId, message: ViewUpdate, delivery: str | None) -> Outcome:
        if await self.threads.find(message.group_id) is None:
            return _dropped(call, "is about a thread that is closed")
        view = View(thread_id=message.group_id, view_type=message.view_type, content=message.content)
        own = None if delivery is None else _digest(f"{call}/{delivery}")  # those of two servers may be alike
        if await self.views.update(view, own):
            return _OK
        log.warning("a view of %s was dropped: it is too large, or its thread has too many", call)
        return Outcome(TOO_LARGE, "the view is too large, or there are too many; clear one first")


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()[:_DIGITS]


def _read(content_type: str | None, body: bytes) -> Callback | Outcome:
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        return Outcome(WRONG_TYPE, "a callback is application/json")
    try:
        return read_callback(body)
    except RecordError as error:
        return Outcome(BAD, str(error))


def _not_kept(message: ToolResultMessage) -> ToolResultMessage:
    """Put the truth in place of what a tool says whose subscription is canceled as soon as it is open."""
    told = (
        f"{ERROR}the subscription was not kept, and its tool is told to end it: this thread has as many as it may have;"
        f" end one by {CANCEL_SUBSCRIPTION}, and call again"
    )
    return ToolResultMessage(group_id=message.group_id, id=message.id, call_id=message.call_id, text=told)


def _dropped(call: InvocationId, why: str) -> Outcome:
    log.warning("a callback for %s was dropped: it %s", call, why)
    return Outcome(UNKNOWN, "nobody waits for this here")


def _late(call: InvocationId) -> Outcome:
    """Drop what comes after the end, and say that it is well: nobody has to send it again."""
    log.info("a callback for %s was dropped: the call does not wait any more", call)
    return _OK
