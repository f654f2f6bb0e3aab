"""Where answers come in that come later, and what can be done about the calls that wait for them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import cast

from agenttool.codec import parse_object
from agenttool.errors import RecordError
from agenttool.pipeline.away import give_up
from agenttool.pipeline.call import Call
from agenttool.pipeline.core import Core
from agenttool.pipeline.failed import failed
from agenttool.pipeline.held import Held, Point, hold_late, kept, read_held
from agenttool.pipeline.phases.emit_terminal import emit_terminal
from agenttool.pipeline.resume import recalled
from agenttool.pipeline.resume_late import go_on_late, hand_in
from agenttool.pipeline.run import finish
from agenttool.pipeline.stopping import failure_of_stop, request_cancel
from agenttool.pipeline.tool import Tool
from agenttool.ports.later import LATE, Awaited, late_key
from agenttool.ports.stores import OpenCall, OpenCalls, Taken
from agenttool.ports.world import Moment
from agenttool.records import AbortReason, InvocationId, ToolId, ToolResult

FOREVER_NS = 2**62
"""A moment that nobody here will see: in memory there is one owner, and it lives as long as its calls."""

PAGE = 256

_ANSWERS = 32
"""So many answers are looked through at a time: each may be large."""


@dataclass(slots=True, eq=False)
class Latecomers:
    """The calls of a runtime that wait for an answer from outside, left or not."""

    core: Core
    calls: OpenCalls
    tool_of: Callable[[ToolId], Tool | None]
    _is_alive: bool = False
    _going_on: "set[asyncio.Task[ToolResult | None]]" = field(default_factory=set["asyncio.Task[ToolResult | None]"])

    async def answer(self, invocation_id: InvocationId, body: bytes) -> Taken:
        """Take the answer of a call, once; it is kept when this returns, and the call goes on."""
        await self._live()
        key = late_key(invocation_id)
        taken = await self.calls.answer(key, body, now_ns=self.core.now_ns())
        if taken is Taken.TAKEN and not hand_in(self.core, key, body):
            self._go_on(await self._take(invocation_id))
        return taken

    async def awaited(self, invocation_id: InvocationId) -> Awaited | None:
        """Give a call that waits for an answer and has none; none if it does not."""
        opened = await self.calls.get(invocation_id)
        return None if opened is None or opened.answer is not None else _awaited(opened)

    async def waiting(self, *, after: InvocationId | None = None, limit: int = 1000) -> tuple[Awaited, ...]:
        """List calls that wait for an answer, of every process, the oldest first."""
        begin = None if after is None else late_key(after)
        found = map(_awaited, await self.calls.parked(after=begin, limit=limit, prefix=LATE))
        return tuple(each for each in found if each is not None)

    async def unsettled(self, limit: int = 1000) -> tuple[Awaited, ...]:
        """List calls whose answer was taken and that have not ended, of every process, as their answers came."""
        found: list[Awaited] = []
        after = 0
        while len(found) < limit and (page := await self.calls.answers(after=after, limit=_ANSWERS)):
            after = page[-1].number
            for given in page:
                opened = await self.calls.by_approval(given.approval_id) if given.approval_id.startswith(LATE) else None
                awaited = None if opened is None else _awaited(opened)
                if awaited is not None:
                    found.append(awaited)
        return tuple(found[:limit])

    async def cancel(self, invocation_id: InvocationId, reason: AbortReason) -> bool:
        """End a call that was left, before its answer comes; tell whether it did."""
        found = await self._take(invocation_id)
        if found is None:
            return False
        call, tool, held, opened = found
        if opened.answer is not None:
            self._go_on(found)
            return False
        call.call_input = parse_object(held.call_input)
        if not request_cancel(call, reason):
            hold_late(call, Point.AWAY, opened.expires_at_ns, is_left=True)
            await self.calls.settle()
            return False
        if tool.later is not None:
            await give_up(call, tool.later)
        mapped = failed(call, failure_of_stop(call))
        await kept(call, emit_terminal(call, await finish(call, mapped), mapped.chars))
        return True

    async def tell(self, invocation_id: InvocationId, what: Callable[[Call], None]) -> None:
        """Note something about a call that waits; not if another process has it, which alone may tell its story."""
        here = self.core.calls.get(invocation_id)
        if here is not None:
            what(cast("Call", here))
            return
        found = await self._take(invocation_id)
        if found is None:
            return
        call, _, held, opened = found
        if opened.answer is None:
            call.call_input = parse_object(held.call_input)
            what(call)
            hold_late(call, Point(opened.kind), opened.expires_at_ns, is_left=True)
            await self.calls.settle()
            seen = await self.calls.get(invocation_id)
            found = None if seen is None or seen.answer is None else await self._take(invocation_id)
        self._go_on(found)

    def overdue(self, invocation_id: InvocationId) -> None:
        """End a call whose answer did not come in time, unless it has come."""
        self._spawn(self._end_overdue(invocation_id))

    async def stop(self) -> None:
        """Wait for the calls that go on; where nothing outlives the process, end those that wait, too."""
        if not self.core.durable:
            while found := await self.waiting(limit=PAGE):
                ended = [await self.cancel(each.invocation_id, AbortReason.RUNTIME_SHUTDOWN) for each in found]
                if not any(ended):
                    break
        await asyncio.gather(*self._going_on, return_exceptions=True)

    async def _end_overdue(self, invocation_id: InvocationId) -> ToolResult | None:
        found = await self._take(invocation_id)
        return None if found is None else await go_on_late(*found)

    async def _live(self) -> None:
        """Be somebody who may take calls."""
        if self.core.awake is not None:
            await self.core.awake()
        elif not self.core.durable and not self._is_alive:
            await self.calls.renew(Moment(FOREVER_NS))
            self._is_alive = True

    async def _take(self, invocation_id: InvocationId) -> "tuple[Call, Tool, Held, OpenCall] | None":
        """Take a call that was left, or whose process died; none if it is somebody's, or its tool is not known here."""
        await self._live()
        seen = await self.calls.get(invocation_id)
        held = None if seen is None else _read(seen)
        tool = None if held is None else self.tool_of(held.tool_id)
        if held is None or tool is None:
            return None
        opened = await self.calls.take(invocation_id, now=self.core.moment())
        if opened is None:
            return None
        return recalled(self.core, opened, held, tool), tool, held, opened

    def _go_on(self, found: "tuple[Call, Tool, Held, OpenCall] | None") -> None:
        if found is not None:
            self._spawn(go_on_late(*found))

    def _spawn(self, work: Coroutine[object, object, ToolResult | None]) -> None:
        task = asyncio.create_task(work)  # noqa: TID251 -- `stop` waits for it
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)


def _read(opened: OpenCall) -> Held | None:
    if opened.kind not in (Point.SENDING, Point.AWAY):
        return None
    try:
        return read_held(opened.body)
    except RecordError:
        return None


def _awaited(opened: OpenCall) -> Awaited | None:
    held = _read(opened)
    if held is None or held.thread is None:
        return None
    return Awaited(
        invocation_id=opened.invocation_id,
        tool_id=held.tool_id,
        name=held.name,
        call_input=parse_object(held.call_input),
        thread=held.thread,
        native_call_id=held.native_call_id,
        is_sent=opened.kind == Point.AWAY,
        expires_at_ns=opened.expires_at_ns,
    )
