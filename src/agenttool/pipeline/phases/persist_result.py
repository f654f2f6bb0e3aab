"""Phase 11: inline, preview, store, redact or drop the bytes of the result."""

import asyncio
from functools import partial

from agenttool.codec.moments import timestamp
from agenttool.errors import ToolFailure
from agenttool.journal import steps
from agenttool.pipeline.call import Call
from agenttool.pipeline.evidence import Stored
from agenttool.pipeline.failures import failed_result
from agenttool.pipeline.guard import guard
from agenttool.pipeline.hook_runs import refuse_stop_and_fault, run_hooks_at, visible
from agenttool.pipeline.read_back import read_tool_of
from agenttool.pipeline.tool import Tool
from agenttool.records import (
    PERSISTENCE,
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
from agenttool.results.mapping import Mapped
from agenttool.results.payloads import Payload, expire_payload, stored_at
from agenttool.results.persistence import INLINE, PersistencePlan, apply_plan, decide_persistence

_PHASE = Phase.PERSIST_RESULT
_EVENT = HookEvent.RESULT_PERSISTENCE


async def persist_result(call: Call, mapped: Mapped) -> ToolResult:
    """Return the result to deliver; it refers only to payloads that were stored."""
    tool = call.tool
    if tool is None:
        return mapped.result
    read_tool = partial(read_tool_of, call)
    plan = decide_persistence(mapped, tool.persistence, read_tool)
    if _EVENT in tool.hooks and call.started_ns:
        mapped = await _side_hooks(call, tool, mapped, plan)
        plan = decide_persistence(mapped, tool.persistence, read_tool)
    if plan is INLINE and not mapped.payloads:
        return mapped.result
    call.phase = _PHASE
    now = timestamp(call.core.now_ns())
    draft = await _store_all(call, mapped, plan)
    stored = await _store(call, plan.payload) if plan.payload is not None else None
    result, decision = apply_plan(plan, draft, stored, decision_id=PERSISTENCE.compose(call.unique), created_at=now)
    redacted = plan.strategy is PersistenceStrategy.REDACT
    call.note(steps.REDACTED if redacted else steps.PERSISTED, Stored(decision))
    return result


async def _side_hooks(call: Call, tool: Tool, mapped: Mapped, plan: PersistencePlan) -> Mapped:
    """Run the hooks of the decision; a stop or a fault replaces the result by a failure."""
    call.phase = _PHASE
    details: JsonObject = {"strategy": plan.strategy.value}
    outcome = await run_hooks_at(call, tool, _EVENT, call.call_input, output=visible(mapped), details=details)
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
        lambda: call.core.payloads.grant_read(call.core.thread, digest)
    )  # on failure a program can still fetch it by its digest
    call.core.host.offer_read_back(call.surface)
    return stored_at(payload, str(uri))


async def _put(call: Call, data: bytes, digest: Digest) -> str:
    """Store bytes even if the caller is canceled meanwhile, as the tool has run; a second cancel aborts."""
    storing = asyncio.ensure_future(call.core.payloads.store.put(data, digest))
    try:
        return await asyncio.shield(storing)
    except asyncio.CancelledError as crash:
        if storing.cancelled():
            raise
        call.stop.interrupted = call.stop.interrupted or crash
    try:
        return await storing
    except asyncio.CancelledError:
        raise InterruptedError("nobody waited for it to be stored") from None
