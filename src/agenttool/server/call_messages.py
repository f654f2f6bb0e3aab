"""Recorded calls as messages of the HTTP API, which the command line prints, too."""

import time
from collections.abc import Sequence

from msgspec.structs import asdict

from agenttool.agent.call_access import CallHandle
from agenttool.codec.moments import timestamp
from agenttool.history.listed_call import ListedCall, approver_in, owner_text, tool_name
from agenttool.history.recorded_call import RecordedCall
from agenttool.policy.approvals import Question
from agenttool.ports.deferred import RESULT_PREFIX
from agenttool.records import (
    PAYLOAD_SCHEME,
    Digest,
    InvocationStatus,
    PermissionDecision,
    Record,
    Ref,
    ResultPersistence,
    ToolInvocation,
    ToolResult,
)
from agenttool.server.messages import (
    AnswerItem,
    CallDetail,
    CallReply,
    CallSummary,
    PayloadItem,
    PhaseItem,
    raw,
    raw_record,
    raw_with_type,
)

MAX_SUMMARY_CHARS = 200


def summary_of(call: ListedCall) -> CallSummary:
    """Return a call of a list."""
    owner, result = call.owner, call.result
    waits_for = None if owner is None or owner.is_answered else owner.waits_for
    return CallSummary.of(
        call,
        invocation_id=str(call.facts[0][1].invocation_id),
        tool=tool_name(call.tool_id),
        status=call.status.value,
        began=timestamp(call.began_ns),
        at=timestamp(call.at_ns),
        is_open=owner is not None,
        duration_s=call.taken_ns / 1e9,
        summary=call.first_line[:MAX_SUMMARY_CHARS],
        error_class=None if result is None or result.error is None else result.error.error_class.value,
        approval_id=None if waits_for is None or waits_for.startswith(RESULT_PREFIX) else waits_for,
        approvals=[_answer(each) for each in call.approvals],
        process=owner and owner_text(owner),
    )


def _answer(decision: PermissionDecision) -> AnswerItem:
    known = approver_in(decision)
    claim = known.get("claim") if "os_user" in known else None
    return AnswerItem(
        by=decision.decided_by, claim=None if claim is None else str(claim), behavior=decision.behavior.value
    )


def state_of(
    invocation_id: str,
    known: ToolInvocation | CallHandle,
    result: ToolResult | None,
    question: Question | None = None,
    notice: str | None = None,
) -> CallReply:
    """Return the state of a call."""
    asked = known.approval_request_ref if isinstance(known, ToolInvocation) else None
    is_asked = result is None and known.status is InvocationStatus.AWAITING_APPROVAL
    return CallReply(
        invocation_id=invocation_id,
        status=known.status.value,
        tool=tool_name(known.tool_id),
        approval_id=asked if is_asked else None,
        expires_at=question and question.expires_at,
        result=raw(None) if result is None else raw_record(result),
        notice=notice,
    )


def detail_of(call: RecordedCall, question: Question | None, notice: str | None) -> CallDetail:
    """Return everything that is recorded of a call."""
    invocation = call.invocation
    results = (each for each in reversed(call.records) if isinstance(each, ToolResult))
    result = next(results, None) if invocation.status.is_terminal else None
    state = state_of(invocation.invocation_id, invocation, result, question, notice)
    end_ns = call.facts[-1].at_ns if invocation.status.is_terminal else time.time_ns()
    return CallDetail(
        **asdict(state),
        actor=invocation.actor_ref,
        invocation=raw_record(invocation),
        events=[raw_record(each) for each in call.events],
        records=[raw_with_type(each) for each in call.records],
        traceback=call.traceback,
        children=[*call.children],
        began=timestamp(call.began_ns),
        is_open=not invocation.status.is_terminal,
        duration_s=(end_ns - call.began_ns) / 1e9,
        phases=_phases(call, end_ns),
        payloads=[
            PayloadItem(digest=str(each.digest), media_type=each.media_type, size_bytes=each.size_bytes)
            for each in stored_refs(call.records).values()
        ],
        process=call.owner and owner_text(call.owner),
    )


def _phases(call: RecordedCall, end_ns: int) -> list[PhaseItem]:
    """Return the statuses of a call, each with the time until the next one."""
    moves = [
        (fact.at_ns, status.value) for fact in call.facts for _, status in fact.step.transitions if status is not None
    ]
    ends = [*(at for at, _ in moves), end_ns][1:]
    return [
        PhaseItem(
            name=name,
            at=timestamp(at),
            offset_s=round((at - call.began_ns) / 1e9, 6),
            duration_s=max(0, until - at) / 1e9,
        )
        for (at, name), until in zip(moves, ends, strict=True)
    ]


def stored_refs(records: Sequence[Record]) -> dict[Digest, Ref]:
    """Return the references to stored payloads in the records of a call, by digest; other references are left out."""
    refs: list[Ref | None] = []
    for record in records:
        if isinstance(record, ResultPersistence):
            refs.append(record.persisted_ref)
        elif isinstance(record, ToolResult):
            refs += (item.ref for item in (*(record.content or ()), *(record.model_facing_content or ())))
            refs += record.artifact_refs or ()
    return {
        each.digest: each
        for each in refs
        if each is not None and each.digest is not None and (each.id or "").startswith(PAYLOAD_SCHEME)
    }
