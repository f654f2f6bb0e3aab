"""Work in the background: validate, begin, run, settle. Whatever happens to the work, there is one result."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import cast

from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.wire import Invocation, read, write
from agenttool.errors import RecordError, ToolFailure
from agenttool.rap.call import Call, Line
from agenttool.rap.declare import RapTool, words_for_caller
from agenttool.rap.faults import told_of
from agenttool.rap.keeping import calls, subscriptions
from agenttool.rap.keeping.calls import KeptCall, State
from agenttool.rap.keeping.messages import Kind
from agenttool.rap.keeping.store import Store
from agenttool.rap.limits import Room
from agenttool.rap.outbox import Outbox
from agenttool.rap.outcome import Declined, Subscribed, confirmation_of, error_of, result_of, text_of
from agenttool.rap.places import Place, Places
from agenttool.rap.subscriptions import LASTS_S, Subscriptions
from agenttool.rap.tasks import Tasks
from agenttool.rap.views import Views
from agenttool.records import JsonObject

CANCELED = "the call was canceled on request; what was done before that stands"
UNKNOWN = "the tool's server was restarted while the tool ran; it may or may not have done its work, so look first"

_log = logging.getLogger(__name__)


class Run:
    """One call under way: its task, its time, and whether somebody stopped it."""

    def __init__(self, kept: KeptCall, message: Invocation | None) -> None:
        """Take the call as it was kept, and what was read of it already."""
        self.kept = kept
        self.message = message
        self.call: Call | None = None
        self.place: Place | None = None
        self.clock: asyncio.Timeout | None = None
        self.is_canceled = kept.is_canceled
        self.has_begun = False
        self.is_over = False
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Stop the work, once; what has not begun is not begun, and what is being written down is written."""
        if self.call is not None:
            self.call.is_canceled = True
        if self.task is not None and self.has_begun and not (self.is_canceled or self.is_over):
            self.task.cancel()
        self.is_canceled = True


class Runs:
    """The calls that are under way in this process."""

    def __init__(  # noqa: PLR0913 -- what the work needs of the others
        self,
        store: Store,
        courier: Courier,
        outbox: Outbox,
        subscribed: Subscriptions,
        views: Views,
        tools: Mapping[str, RapTool],
        *,
        room: Room,
        places: Places,
        tasks: Tasks,
    ) -> None:
        """Take the tools, and what their work needs."""
        self._store = store
        self._courier = courier
        self._outbox = outbox
        self._subscriptions = subscribed
        self._views = views
        self._tools = tools
        self._room = room
        self._places = places
        self._tasks = tasks
        self._under_way: dict[int, Run] = {}

    def start(self, kept: KeptCall, line: Line, message: Invocation | None = None) -> None:
        """Set a call going, as it was just read or was kept; one that went before goes on as far as it safely can."""
        run = self._under_way[kept.number] = Run(kept, message)  # at once, so that a cancellation finds it
        self._room.enter(kept.number, kept.caller)
        run.task = self._tasks.start(self._carry(run, line))

    def cancel(self, number: int) -> None:
        """Stop a call, if it is under way."""
        run = self._under_way.get(number)
        if run is not None:
            run.cancel()

    @asynccontextmanager
    async def paused(self, call: Call) -> AsyncGenerator[None]:
        """Give up a run's place, and stop its clock, while it waits for its user; to be stopped it needs none."""
        run = self._under_way[call.number]
        loop = asyncio.get_running_loop()
        ends_at = None if run.clock is None else run.clock.when()
        left_s = None if ends_at is None else ends_at - loop.time()
        if run.clock is not None:
            run.clock.reschedule(None)
        if run.place is not None:
            run.place.leave()
        is_stopped = False
        try:
            yield
        except asyncio.CancelledError:
            is_stopped = True
            raise
        finally:
            if run.place is not None and not is_stopped:
                await run.place.enter()
            if run.clock is not None and left_s is not None:
                run.clock.reschedule(loop.time() + left_s)

    async def _carry(self, run: Run, line: Line) -> None:
        """Bring a call to its end; only the end of this process leaves it where it is."""
        kept, run.has_begun = run.kept, True
        try:
            body = await self._attempt(run, line)
        except asyncio.CancelledError:
            if not run.is_canceled:
                raise
            await self._subscriptions.cancel(kept.number)
            body = error_of(kept, CANCELED)
        except Exception as error:  # noqa: BLE001 -- whatever a tool raises ends its call, and nothing else
            body = error_of(kept, _words(kept, error))
        finally:
            run.is_over = True
            del self._under_way[kept.number]
            self._room.leave(kept.number, kept.caller)
        if body is not None:
            last = [] if run.call is None else self._views.clearing(run.call)
            self._outbox.send(await self._store.insist(calls.settle, kept.number, [(Kind.RESULT, body), *last]))

    async def _attempt(self, run: Run, line: Line) -> bytes | None:
        """Do the work and give the result to send; none if it opened a subscription, which has confirmed itself.

        Raises:
            ToolFailure: the call makes no sense, or its tool says why not.
        """
        kept = run.kept
        if run.is_canceled:
            raise asyncio.CancelledError
        await self._courier.judge(kept.callback_url, kept.caller)  # before any work is done for somebody who hides
        invocation = run.message or read(kept.body, Invocation)
        run.message = None  # it may take days from here on
        tool = self._tool_of(invocation)
        if kept.state is State.STARTED and not tool.is_repeatable:
            raise Declined(UNKNOWN)
        run.call = Call(kept, line, ancestors=invocation.thread_ancestors or (), user_id=invocation.user_id)
        value = await self._run(run, run.call, tool, invocation.arguments)
        if tool.is_subscription:
            await self._subscriptions.drive(run.call, cast("AsyncGenerator[object]", value))
        elif isinstance(value, Subscribed):
            await self._subscribe(run.call, value)
        else:
            return write(result_of(kept, value))
        return None

    def _tool_of(self, invocation: Invocation) -> RapTool:
        tool = self._tools.get(invocation.operation)
        if tool is None:
            raise Declined(f"there is no operation {invocation.operation!r}; use one of {', '.join(self._tools)}")
        tool.check(invocation.arguments)
        return tool

    async def _run(self, run: Run, call: Call, tool: RapTool, arguments: JsonObject) -> object:
        """Run a tool when it is its turn; from then on it may have acted, which is noted unless it may act twice."""
        async with nullcontext() if tool.has_own_turns else self._places.of(run.kept.caller) as run.place:
            marks = run.kept.state is State.ACCEPTED and not tool.is_repeatable
            if marks and not await self._store.perform(calls.begin, call.number):
                raise Declined(CANCELED)
            async with asyncio.timeout(tool.timeout_s) as run.clock:
                value = await tool.run(call, arguments)
                if tool.is_subscription:
                    await self._confirm(call, cast("AsyncGenerator[object]", value))
            return value

    async def _confirm(self, call: Call, events: "AsyncGenerator[object]") -> None:
        """Take the first thing that a subscription yields, which confirms it; after a restart it was confirmed."""
        is_known = call.kept.state is State.SUBSCRIBED
        if is_known:
            call.bookmark = await self._store.perform(subscriptions.bookmark_of, call.number)
        try:
            text = text_of(await anext(events))
        except StopAsyncIteration:
            raise Declined("there is nothing to subscribe to") from None
        if not is_known:
            await self._subscribe(call, Subscribed(topic="", text=text))

    async def _subscribe(self, call: Call, opened: Subscribed) -> None:
        expires_at = time.time_ns() + int((opened.lasts_s or LASTS_S) * 1e9)
        confirmation = confirmation_of(call.kept, opened.text)
        topic = opened.topic or None
        self._outbox.send(await self._store.insist(calls.subscribe, call.number, confirmation, topic, expires_at))


def _words(kept: KeptCall, error: Exception) -> str:
    reference = kept.key[:12]
    if not isinstance(error, ToolFailure | RecordError):
        _log.warning("call %d (reference %s) failed: %s", kept.number, reference, told_of(error))
    return words_for_caller(error, reference)
