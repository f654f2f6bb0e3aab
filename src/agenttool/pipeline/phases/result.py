"""Phases 9 to 11: map the output to a result, run the hooks that see it, and store its bytes."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from agenttool.codec import QUICK_CHARS, is_quick
from agenttool.codec.moments import timestamp
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import OutputReplaced, Stored
from agenttool.pipeline.failures import failed_result
from agenttool.pipeline.guard import guard
from agenttool.pipeline.hook_runs import refuse_stop_and_fault, run_hooks_at, visible
from agenttool.pipeline.read_back import read_tool_of
from agenttool.pipeline.services import PayloadReader
from agenttool.pipeline.tool import Tool
from agenttool.records import (
    PERSISTENCE,
    UNSET,
    Digest,
    ErrorClass,
    HookEvent,
    JsonObject,
    PersistenceStrategy,
    Phase,
    Ref,
    ToolResult,
    replace,
)
from agenttool.results.mapping import Mapped, map_output
from agenttool.results.mapping_plan import PLAIN, MappingPlan
from agenttool.results.payloads import Payload, expire_payload
from agenttool.results.persistence import (
    INLINE,
    PersistencePlan,
    apply_plan,
    decide_persistence,
    mapped_payloads,
    native_payloads,
    with_stored_output,
)

_T = TypeVar("_T")
_MAP_RESULT = Phase.MAP_RESULT
_POST_HOOKS = Phase.POST_HOOKS
_PERSIST_RESULT = Phase.PERSIST_RESULT


def map_result(call: Call, output: object) -> Mapped:
    """Map the output to a draft of the result; if that fails, store the output beside the error."""
    call.phase = _MAP_RESULT
    plan = PLAIN if call.tool is None else call.tool.mapping
    scrubber = None if call.secrets is None else call.secrets.mask.scrubber
    call.mapped_ns = moment = call.core.now_ns()
    try:
        return map_output(output, plan, call.invocation_id, timestamp(moment), scrubber, call.mutation_refs)
    except ToolFailure as failure:
        return with_stored_output(failed_result(call, failure.error), _encodable_payloads(call, plan, output))


async def map_any_result(call: Call, output: object) -> Mapped:
    """Map an output; a large one in a worker thread, so that other calls continue meanwhile."""
    if is_quick(output):
        return map_result(call, output)
    call.phase = _MAP_RESULT
    call.publish()
    return await _in_worker(call, partial(map_result, call, output))


async def _in_worker(call: Call, work: Callable[[], _T]) -> _T:
    return await _despite_cancel(call, call.core.timing.loop.run_in_executor(None, work))


def _encodable_payloads(call: Call, plan: MappingPlan, output: object) -> tuple[Payload, ...]:
    """Return the payloads of an output that can be encoded; none if all of it is redacted."""
    if plan.redactor is not None and plan.redactor.is_whole:
        return ()
    try:
        return native_payloads(output, redactor=plan.redactor, scrubber=call.scrubber)
    except ToolFailure:
        return ()


async def post_hooks(call: Call, mapped: Mapped) -> Mapped:
    """Run the hooks of success or failure; a stop or a fault turns a success into a failure."""
    tool = call.tool
    if tool is None:
        return mapped
    event = HookEvent.POST_TOOL_USE_FAILURE if mapped.result.is_error else HookEvent.POST_TOOL_USE
    if event not in tool.hooks or not call.started_ns:
        return mapped
    call.phase = _POST_HOOKS
    outcome = await run_hooks_at(call, tool, event, call.final_input, output=visible(mapped))
    try:
        refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.POST_HOOK_FAILED)
    except ToolFailure as failure:
        payloads = () if mapped.result.is_error else mapped_payloads(mapped)
        return with_stored_output(failed_result(call, failure.error), payloads)
    update = next((run for run in reversed(outcome.runs) if run.reply.updated_output is not UNSET), None)
    if update is None:
        return mapped
    call.note(steps.OUTPUT_CHANGED, OutputReplaced(update.hook.name))
    return await map_any_result(call, update.reply.updated_output)


async def persist_result(call: Call, mapped: Mapped) -> ToolResult:
    """Return the result to deliver; it refers only to payloads that were stored."""
    tool = call.tool
    if tool is None:
        return mapped.result
    plan = await _decide(call, tool, mapped)
    if HookEvent.RESULT_PERSISTENCE in tool.hooks and call.started_ns:
        mapped = await _persistence_hooks(call, tool, mapped, plan)
        plan = await _decide(call, tool, mapped)
    if plan is INLINE and not mapped.payloads:
        return mapped.result
    call.phase = _PERSIST_RESULT
    now = timestamp(call.core.now_ns())
    draft = await _store_all(call, mapped, plan)
    stored = await _store(call, plan.payload) if plan.payload is not None else None
    result, decision = apply_plan(plan, draft, stored, decision_id=PERSISTENCE.compose(call.unique), created_at=now)
    redacted = plan.strategy is PersistenceStrategy.REDACT
    call.note(steps.REDACTED if redacted else steps.PERSISTED, Stored(decision))
    return result


async def _decide(call: Call, tool: Tool, mapped: Mapped) -> PersistencePlan:
    """Decide how a result is stored; a large one is encoded and digested in a worker thread."""
    if mapped.chars <= QUICK_CHARS:
        return decide_persistence(mapped, tool.persistence, partial(read_tool_of, call))
    read_tool = read_tool_of(call)
    return await _in_worker(call, lambda: decide_persistence(mapped, tool.persistence, lambda: read_tool))


async def _persistence_hooks(call: Call, tool: Tool, mapped: Mapped, plan: PersistencePlan) -> Mapped:
    """Run the `result_persistence` hooks; a stop or a fault replaces the result by a failure."""
    call.phase = _PERSIST_RESULT
    details: JsonObject = {"strategy": plan.strategy.value}
    outcome = await run_hooks_at(
        call, tool, HookEvent.RESULT_PERSISTENCE, call.final_input, output=visible(mapped), details=details
    )
    try:
        refuse_stop_and_fault(call, outcome, fault_class=ErrorClass.POST_HOOK_FAILED)
    except ToolFailure as failure:
        return failed_result(call, failure.error)
    return mapped


async def _store_all(call: Call, mapped: Mapped, plan: PersistencePlan) -> ToolResult:
    """Store the payloads of the draft; return it without refs to payloads that could not be stored."""
    draft = mapped.result
    for payload in mapped.payloads:
        if plan.stores_media and await _store(call, payload) is not None:
            continue
        if plan.stores_media:
            draft = expire_payload(draft, payload.ref.id or "", expires_at=timestamp(call.core.now_ns()))
        if draft.native_output_ref == payload.ref.id:
            draft = replace(draft, native_output_ref=None)
    return draft


async def _store(call: Call, payload: Payload) -> Ref | None:
    """Store a payload and return its ref; none if the store failed."""
    digest = payload.ref.digest
    if digest is None:
        return None
    uri, fault = await guard(lambda: _put(call, payload.data, digest))
    if fault is not None:
        return None
    await guard(
        lambda: call.core.payloads.grant_read(PayloadReader(call.core.thread, call.actor_ref), digest)
    )  # on failure a program can still fetch it by its digest
    call.core.host.offer_read_back(call.surface)
    return replace(payload.ref, uri=str(uri))


async def _put(call: Call, data: bytes, digest: Digest) -> str:
    """Store bytes and return their address."""
    return await _despite_cancel(call, asyncio.ensure_future(call.core.payloads.store.put(data, digest)))


async def _despite_cancel(call: Call, work: "asyncio.Future[_T]") -> _T:
    """Wait for work even if the caller is canceled meanwhile, as the tool has run; a second cancel aborts."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError as crash:
        if work.cancelled():
            raise
        call.stop.interrupted = call.stop.interrupted or crash
    try:
        return await work
    except asyncio.CancelledError:
        raise InterruptedError("storing the result was canceled") from None
