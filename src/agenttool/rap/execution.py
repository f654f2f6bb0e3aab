"""The execution of accepted calls in the background: each is validated, run, and settled with exactly one result.

Events of subscriptions are sent in order after the confirmation, across restarts, with nothing after the final one.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from agenttool.adapters.rap.wire import Invocation, read
from agenttool.errors import RecordError, ToolFailure
from agenttool.http.client import HttpClient
from agenttool.http.limiter import ConcurrencyLimiter, Quota, RequestKey
from agenttool.rap import tables
from agenttool.rap.background import BackgroundTasks, error_location
from agenttool.rap.call import Questions, RapCall
from agenttool.rap.declare import RapTool, message_for_caller
from agenttool.rap.oauth import GrantStore
from agenttool.rap.outbox import Outbox
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import (
    Declined,
    Event,
    Subscribed,
    confirmation_message,
    error_message,
    event_message,
    result_message,
    text_of,
)
from agenttool.records import JsonObject

CANCELED = "the call was canceled on request; what was done before that remains"
UNKNOWN = "the tool's server was restarted while the tool ran; it may or may not have done its work, so check first"

LIFETIME_S = 30 * 86_400.0
"""How long a subscription lasts by default."""

BACKPRESSURE_S = 60.0
POLL_S = 1.0
"""A generator waits while its oldest event is undelivered for this long; it is polled this often."""

_BEHIND = "Error: the subscription has ended, because {limit} undelivered events wait; subscribe again."
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class CallRun:
    """One call that is being executed; its invocation is None if it is not decoded yet."""

    stored: tables.StoredCall
    invocation: Invocation | None
    call: RapCall | None = None
    timeout: asyncio.Timeout | None = None
    is_canceled: bool = False
    has_started: bool = False
    has_permit: bool = False
    is_over: bool = False
    task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Cancel the work once; a result that is being stored is not interrupted."""
        if self.call is not None:
            self.call.is_canceled = True
        if self.task is not None and self.has_started and not (self.is_canceled or self.is_over):
            self.task.cancel()
        self.is_canceled = True


@dataclass(slots=True, kw_only=True, eq=False)
class CallRunner:
    """Executes the calls of this process, and sends the events of subscriptions."""

    store: ProviderStore
    outbox: Outbox
    questions: Questions
    grants: GrantStore
    client: HttpClient
    tools: Mapping[str, RapTool]
    quota: Quota
    limiter: ConcurrencyLimiter
    tasks: BackgroundTasks
    _running: dict[int, CallRun] = field(default_factory=dict)

    def start(self, stored: tables.StoredCall, invocation: Invocation | None = None) -> None:
        """Start a new call, or recover one of an earlier process as far as that is safe."""
        run = self._running[stored.number] = CallRun(
            stored, invocation, is_canceled=stored.is_canceled
        )  # at once, so that a cancellation finds it
        self.quota.acquire(stored.number, stored.caller)
        run.task = self.tasks.start(self._execute(run))

    def cancel(self, call: int) -> None:
        """Cancel a call, if it is running."""
        run = self._running.get(call)
        if run is not None:
            run.cancel()

    @asynccontextmanager
    async def pause(self, call: int) -> AsyncGenerator[None]:
        """Release a call's permit and stop its timeout while it waits for its user."""
        run, loop = self._running[call], asyncio.get_running_loop()
        ends_at = None if run.timeout is None else run.timeout.when()
        left_s = None if ends_at is None else ends_at - loop.time()
        had_permit = run.has_permit
        if run.timeout is not None:
            run.timeout.reschedule(None)
        self._release(run)
        try:
            yield
        except asyncio.CancelledError:
            had_permit = False  # a canceled call needs no permit to end
            raise
        finally:
            if had_permit:
                await self._acquire(run)
            if run.timeout is not None and left_s is not None:
                run.timeout.reschedule(loop.time() + left_s)

    async def _acquire(self, run: CallRun) -> None:
        await self.limiter.acquire(RequestKey(run.stored.caller, None))
        run.has_permit = True

    def _release(self, run: CallRun) -> None:
        if run.has_permit:
            run.has_permit = False
            self.limiter.release(RequestKey(run.stored.caller, None))

    async def _execute(self, run: CallRun) -> None:
        """Execute a call and settle it; only the shutdown of this process leaves it unsettled."""
        stored, run.has_started = run.stored, True
        try:
            body = await self._attempt(run)
        except asyncio.CancelledError:
            if not run.is_canceled:
                raise
            await self.store.run(tables.cancel_subscription, stored.number)
            body = error_message(stored, CANCELED)
        except Exception as error:  # noqa: BLE001 -- whatever a tool raises becomes its result
            reference = stored.key[:12]
            if not isinstance(error, ToolFailure | RecordError):
                _log.warning("call %d (reference %s) failed: %s", stored.number, reference, error_location(error))
            body = error_message(stored, message_for_caller(error, reference))
        finally:
            run.is_over = True
            del self._running[stored.number]
            self.quota.release(stored.number, stored.caller)
        if body is not None:
            messages: list[tuple[tables.MessageKind, bytes]] = [("result", body), *self.outbox.last_view(stored)]
            self.outbox.send(await self.store.run_until_stored(tables.settle_call, stored.number, messages))

    async def _attempt(self, run: CallRun) -> bytes | None:
        """Run the tool and return the result to send; None for a subscription, which sent its confirmation.

        A subscription of an earlier process runs again only if a generator yields its events.

        Raises:
            ToolFailure: the call is invalid, or its tool declined it.
        """
        stored = run.stored
        if run.is_canceled:
            raise asyncio.CancelledError
        invocation = run.invocation or read(stored.body, Invocation)
        run.invocation = None  # the call may take days, and its arguments are stored
        tool = self._find_tool(invocation)
        if stored.state == "subscribed" and not tool.is_subscription:
            return None
        await self.client.check_target(stored.callback_url, stored.caller)  # before any work is done
        if stored.state == "started" and not tool.is_repeatable:
            raise Declined(UNKNOWN)
        run.call = RapCall(stored, invocation, self.questions, self.grants, self.pause, tool.requires_auth)
        value = await self._run_tool(run, run.call, tool, invocation.arguments)
        if tool.is_subscription:
            await self._run_generator(run.call, cast("AsyncGenerator[object]", value))
        elif isinstance(value, Subscribed):
            await self._subscribe(run.call, value)
        else:
            return result_message(stored, value)
        return None

    def _find_tool(self, invocation: Invocation) -> RapTool:
        tool = self.tools.get(invocation.operation)
        if tool is None:
            raise Declined(f"there is no operation {invocation.operation!r}; use one of {', '.join(self.tools)}")
        tool.check(invocation.arguments)
        return tool

    async def _run_tool(self, run: CallRun, call: RapCall, tool: RapTool, arguments: JsonObject) -> object:
        """Run a tool once it has a permit; first record that it may act, unless it may be repeated."""
        if not tool.limits_itself:
            await self._acquire(run)
        try:
            must_record = run.stored.state == "accepted" and not tool.is_repeatable
            if must_record and not await self.store.run(tables.mark_started, call.number):
                raise Declined(CANCELED)
            async with asyncio.timeout(tool.timeout_s) as run.timeout:
                value = await tool.run(call, arguments)
                if tool.is_subscription:
                    await self._confirm(call, cast("AsyncGenerator[object]", value))
            return value
        finally:
            self._release(run)

    async def _confirm(self, call: RapCall, events: "AsyncGenerator[object]") -> None:
        """Send the first item of a generator as its confirmation, unless it was confirmed before a restart."""
        is_confirmed = call.stored.state == "subscribed"
        if is_confirmed:
            call.bookmark = await self.store.run(tables.bookmark_of, call.number)
        try:
            text = text_of(await anext(events))
        except StopAsyncIteration:
            raise Declined("there is nothing to subscribe to") from None
        if not is_confirmed:
            await self._subscribe(call, Subscribed(topic="", text=text))

    async def _subscribe(self, call: RapCall, opened: Subscribed) -> None:
        expires_at = time.time_ns() + int((opened.lasts_s or LIFETIME_S) * 1e9)
        confirmation = confirmation_message(call.stored, opened.text)
        message = await self.store.run_until_stored(
            tables.open_subscription, call.number, confirmation, opened.topic or None, expires_at
        )
        self.outbox.send(message)

    async def publish(self, topic: str, event: Event) -> int:
        """Send an event to all subscribers of a topic, and return how many there are.

        A subscriber with too many undelivered events gets a final event instead, so that it neither fills the disk nor
        delays the others.

        Raises:
            ToolFailure: the value cannot be sent.
        """
        limit = self.outbox.limits.max_events
        last = Event(value=_BEHIND.format(limit=limit), final=True)
        sent, ended = await self.store.run(
            tables.publish_event,
            topic,
            lambda each: event_message(each, event),
            lambda each: event_message(each, last),
            final=event.final,
            limit=limit,
        )
        for message in ended:
            _log.warning("subscription %d has ended: %d of its events are undelivered", message.call, limit)
        for message in (*sent, *ended):
            self.outbox.send(message)
        return len(sent)

    async def _run_generator(self, call: RapCall, events: AsyncGenerator[object]) -> None:
        """Send what a generator yields, until it or the subscription ends."""
        subscriber = tables.Subscriber(call.number, call.thread_id, call.id)
        try:
            async with aclosing(events) as yielded:
                async for item in yielded:
                    event = item if isinstance(item, Event) else Event(value=item)
                    oldest = await self._emit(subscriber, event)
                    if oldest is None or event.final:
                        return
                    await asyncio.sleep(1 / self.outbox.limits.events_per_second)
                    await self._wait_for_delivery(oldest)
            last = "The subscription has ended."
        except ToolFailure as failure:
            last = f"Error: {failure.error.message}"
        except Exception as error:  # noqa: BLE001 -- whatever a generator raises ends its subscription
            _log.error("subscription %d failed: %s", call.number, error_location(error))
            reference = call.idempotency_key[:12]
            last = f"Error: the subscription failed; subscribe again, or give its operator the reference {reference}"
        await self._emit(subscriber, Event(value=last, final=True))

    async def expire(self) -> list[int]:
        """End expired subscriptions with a final event, and return their calls."""
        expired = await self.store.run(tables.expired_subscriptions, time.time_ns())
        for each in expired:
            last = Event(value="The subscription has expired; subscribe again to continue.", final=True)
            await self._emit(each, last)
        return [each.call for each in expired]

    async def _wait_for_delivery(self, oldest: tables.OutgoingMessage | None) -> None:
        """Wait while a runtime accepts nothing, because undelivered events would fill the disk."""
        while oldest is not None and time.time_ns() - oldest.queued_at > BACKPRESSURE_S * 1e9:
            await asyncio.sleep(POLL_S)
            oldest = await self.store.run_until_stored(tables.next_message, oldest.call)

    async def _emit(self, to: tables.Subscriber, event: Event) -> tables.OutgoingMessage | None:
        body = event_message(to, event)
        message = await self.store.run_until_stored(
            tables.append_event, to.call, body, event.bookmark, final=event.final
        )
        self.outbox.send(message)
        return message
