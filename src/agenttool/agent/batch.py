"""Run many calls under one scheduler policy: dependencies, sibling failures and the order of results."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from agenttool.call.call import Call
from agenttool.call.call_state import BatchMembership
from agenttool.call.checkpoint import CheckpointKind, save_checkpoint, when_durable
from agenttool.call.completion import release_result
from agenttool.call.evidence import Complete
from agenttool.call.failures import can_park, park, request_cancel
from agenttool.call.run import run_call
from agenttool.call.running import run_stoppable
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.ports.calls import ToolCall
from agenttool.records import (
    AbortReason,
    ResultStatus,
    SchedulerPolicy,
    ToolProgress,
    ToolResult,
    complete_policy,
    replace,
)
from agenttool.scheduler.batch_order import OrderedStream, Readiness, Siblings, delivery_of, siblings_of
from agenttool.scheduler.limiter import CallLimiter

START_AT_ONCE = 16
"""How many calls of a batch are started before other tasks of the event loop run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """An item of a batch's stream: the result of the call at `index`, or its progress."""

    index: int
    result: ToolResult | None = None
    progress: ToolProgress | None = None


@dataclass(slots=True, eq=False)
class Batch:
    """The run of several calls. Each call has a task, and all tasks end with the batch.

    Attributes:
        on_idle: called when some calls wait, and each other one has ended or depends on one that waits.
    """

    calls: Sequence[Call]
    policy: SchedulerPolicy
    siblings: Siblings
    on_idle: Callable[[], object] | None = None
    ended: dict[int, ResultStatus] = field(default_factory=dict[int, ResultStatus])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: set[int] = field(default_factory=set[int])

    async def stream(self) -> AsyncGenerator[BatchItem]:
        """Run all calls and yield items in the order of the policy; apply deferred context changes at the end.

        Raises:
            QuotaError: the authenticated caller has too many open calls.
        """
        delivery = delivery_of(self.policy)
        for call in self.calls[:1]:
            call.core.registry.check_quota(self.calls)
        for call in self.calls:
            call.core.registry.add(call)
        outlet = OrderedStream[BatchItem](len(self.calls), delivery)
        slots = asyncio.Semaphore(1 if delivery.serial else max(len(self.calls), 1))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._start_all(group, slots, outlet))
                async for item in outlet:
                    yield await self._on_record(item)
        finally:
            for call in self.calls:  # a consumer that stops early leaves results that wait for earlier ones
                release_result(call)
                if call.result is None:  # its task was canceled before it began
                    call.core.registry.remove(call.invocation_id)
        for call in self.calls:
            if call.batch is not None and call.batch.has_deferred_changes:
                call.core.shared.update(call.wanted_changes or {})

    async def _start_all(
        self, group: asyncio.TaskGroup, slots: asyncio.Semaphore, outlet: OrderedStream[BatchItem]
    ) -> None:
        """Start the calls a few at a time, so that the first ones run while others are started."""
        for index in range(len(self.calls)):
            group.create_task(self._run(index, slots, outlet))
            if not (index + 1) % START_AT_ONCE:
                await asyncio.sleep(0)

    async def _on_record(self, item: BatchItem) -> BatchItem:
        """Return a result once its delivery is on disk, if the store is durable."""
        call = self.calls[item.index]
        if item.result is None or not call.core.durable:
            return item
        return BatchItem(index=item.index, result=await when_durable(call, item.result))

    async def _run(self, index: int, slots: asyncio.Semaphore, outlet: OrderedStream[BatchItem]) -> None:
        call = self.calls[index]
        if call.batch is not None:
            call.batch.on_progress = lambda update: outlet.progress(index, BatchItem(index=index, progress=update))
            call.batch.on_idle = lambda: self._note_waiting(index)
        has_slot = await self._has_turn(index, call, slots)
        try:
            await run_call(call)
        finally:
            if has_slot:
                slots.release()
            result = call.result
            if result is not None:
                self._end(index, result, outlet.result)

    def _end(self, index: int, result: ToolResult, deliver: Callable[[int, BatchItem], list[BatchItem]]) -> None:
        if self.calls[index].is_parked:
            for other in self.siblings.dependents(index):
                _stop_dependent_of_parked(self.calls[other], self.calls[index])
        else:
            self.ended[index] = result.status
        if result.is_error and index in self.ended:
            unfinished = [other for other in range(len(self.calls)) if other not in self.ended]
            for other in self.siblings.canceled_by(index, result.status, unfinished):
                _cancel_sibling(self.calls[other])
        self._changed.set()
        self._changed = asyncio.Event()
        for item in deliver(index, BatchItem(index=index, result=result)):
            if item.result is not None:
                release_result(self.calls[item.index])
        self._report_idle()

    def _note_waiting(self, index: int) -> None:
        self._waiting.add(index)
        self._report_idle()

    def _report_idle(self) -> None:
        blocked: set[int] = set()
        for index in range(len(self.calls)):  # a call depends on earlier ones only
            if index in self.ended:
                continue
            if index not in self._waiting and blocked.isdisjoint(self.siblings.depends_on[index]):
                return
            blocked.add(index)
        if blocked and self.on_idle is not None:
            self.on_idle()

    async def _has_turn(self, index: int, call: Call, slots: asyncio.Semaphore) -> bool:
        """Wait for the dependencies of a call and a slot; return whether it has one.

        A call that is stopped meanwhile has none. It has not started, and ends with a result that says so.
        """
        readiness = self.siblings.readiness(index, self.ended)
        if readiness is Readiness.WAIT or slots.locked():
            try:
                await run_stoppable(call, self._wait_for_turn(index, slots))
            except ToolFailure:
                if call.stop.reason is None:  # the caller's own task was canceled
                    request_cancel(call, AbortReason.USER_INTERRUPTION)
                return False
            readiness = self.siblings.readiness(index, self.ended)
        else:
            await slots.acquire()
        if readiness is Readiness.CANCEL:
            _cancel_sibling(call)
        return True

    async def _wait_for_turn(self, index: int, slots: asyncio.Semaphore) -> None:
        while self.siblings.readiness(index, self.ended) is Readiness.WAIT:
            await self._changed.wait()
        await slots.acquire()


def make_batch(
    calls: Sequence[Call],
    wanted: Sequence[ToolCall],
    policy: SchedulerPolicy,
    on_idle: Callable[[], object] | None = None,
) -> Batch:
    """Return a batch of calls that have not started.

    Raises:
        ConfigError: the policy allows no call to run.
    """
    depends_on = {index: each.depends_on for index, each in enumerate(wanted)}
    fault = None
    try:
        siblings = siblings_of(depends_on, policy.sibling_failure_policy)
    except ValueError as error:  # then every call fails, and has a result
        fault, depends_on = str(error), dict.fromkeys(depends_on, ())
        siblings = siblings_of(depends_on, policy.sibling_failure_policy)
    has_limits = policy.max_parallel is not None or policy.parallel_classes is not None or bool(policy.resource_locks)
    limiter = CallLimiter(policy) if has_limits else None
    for index, call in enumerate(calls):
        needed = tuple(calls[other].invocation_id for other in depends_on[index])
        call.batch = BatchMembership(policy, limiter, delivers_in_order=delivery_of(policy).results_in_order)
        call.needs_detailed_end = call.batch.delivers_in_order
        attach_request(call, wanted[index])
        call.fault = call.fault or fault
        call.request = replace(call.request, depends_on=needed or None, scheduler_policy_ref=policy.scheduler_policy_id)
    for call in calls[:1]:
        call.core.journal.note_apart(steps.BATCH_PLANNED, Complete(documents=(complete_policy(policy),)))
    return Batch(calls, policy, siblings, on_idle)


def attach_request(call: Call, wanted: ToolCall) -> None:
    """Add to a call what its caller was shown, what is wrong with the request, and the provider's data."""
    call.fault = call.fault or wanted.fault
    call.shown = wanted.shown
    if wanted.mapping is not None:
        call.request = replace(call.request, mapping=wanted.mapping)


def _cancel_sibling(call: Call) -> None:
    """Cancel a call because another one failed; a call that has not started never starts."""
    if not call.is_parked:
        request_cancel(call, AbortReason.SIBLING_ERROR)


def _stop_dependent_of_parked(call: Call, parked: Call) -> None:
    """Leave a call to the process in which the one that it depends on continues, or cancel it if it is not stored."""
    if can_park(call):
        # It is unowned, because this process may still run: it may have lost only the other call, with its lease.
        save_checkpoint(call, CheckpointKind.PLANNED, {}, is_unowned=True)
        park(call)
        return
    if not call.core.journal.log.stored_facts_of(parked.invocation_id):  # it is lost with the lease of this process
        needed = tuple(each for each in call.request.depends_on or () if each != parked.invocation_id)
        call.request = replace(call.request, depends_on=needed or None)
    _cancel_sibling(call)
