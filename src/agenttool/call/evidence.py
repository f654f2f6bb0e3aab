"""The evidence of all that is beyond plain calls: surfaces, inputs, decisions, hooks, progress, results."""

from collections.abc import Mapping
from typing import cast

from agenttool.codec import parse_object, read, sorted_json
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError
from agenttool.hooks.execution import HookRun
from agenttool.policy.verdict import NO_UPDATES, SuggestedUpdates, Verdict, decision_record
from agenttool.ports.evidence import Redacts, SharedDecision, hides, input_digest, shown
from agenttool.ports.facts import Evidence, Fact
from agenttool.records import (
    Cancellation,
    DecisionId,
    EventType,
    ExternalMapping,
    HookEvent,
    HookId,
    InputMutation,
    InvocationId,
    Json,
    JsonObject,
    MutationId,
    MutationSource,
    NativeMapping,
    PermissionDecision,
    ProgressId,
    ProgressStatus,
    Record,
    ResultPersistence,
    SchedulerPolicy,
    SchedulingFacts,
    Timestamp,
    ToolHook,
    ToolInvocation,
    ToolProgress,
    ToolSurface,
)
from agenttool.results.redaction import Scrubber

MAX_SHARED = 1024
"""The number of tools whose shared decision is cached."""

_shared: dict[int, tuple[Verdict, SchedulingFacts, SharedDecision]] = {}


def shared_decision(verdict: Verdict, facts: SchedulingFacts) -> SharedDecision:
    """Return what the plain calls to a tool have in common; the decision has neither ids nor a time."""
    known = _shared.get(id(facts))
    if known is None or known[0] is not verdict or known[1] is not facts:
        if len(_shared) >= MAX_SHARED:
            _shared.clear()
        no_id, no_call, no_time = DecisionId(""), InvocationId(""), Timestamp("")
        decision = decision_record(verdict, decision_id=no_id, invocation_id=no_call, decided_at=no_time)
        known = _shared[id(facts)] = (verdict, facts, SharedDecision(decision, facts))
    return known[2]


class SurfaceMade(Evidence, frozen=True):
    """The surface of one context; its record is read from here once the runtime has dropped it."""

    surface: ToolSurface
    replaces: str | None = None

    def members(self, event: EventType) -> JsonObject:
        """Return its id, the surface that it replaces, and the reason."""
        members: JsonObject = {"surface_id": self.surface.surface_id}
        if self.replaces is not None:
            members["replaces"] = self.replaces
        if self.surface.surface_reason is not None:
            members["reason"] = self.surface.surface_reason
        return members

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the surface."""
        return (self.surface,)


class Decided(Evidence, frozen=True):
    """A verdict of the rules on one input. The digest of the input is computed when the record is read."""

    verdict: Verdict
    permission_input: bytes
    decision_id: DecisionId
    redactor: Redacts | None = None
    suggestions: SuggestedUpdates = NO_UPDATES
    approval_id: str | None = None
    digest_key: bytes = b""

    def members(self, event: EventType) -> JsonObject:
        """Return the decision and its source; or whether an approver is asked, and how the digest is keyed."""
        if event is EventType.PERMISSION_REQUESTED:
            members: JsonObject = {"prompted": self.approval_id is not None, "decision_id": self.decision_id}
            members["sealed"] = hides(self.redactor, parse_object(self.permission_input))
            if members["sealed"]:
                members["salted"] = True
            return {**members, "approval_id": self.approval_id} if self.approval_id else members
        return {"decision_id": self.decision_id, "behavior": self.verdict.behavior.value, "source": self.verdict.source}

    def contributes(self) -> Mapping[str, object]:
        """Return the input that was judged, and the decision."""
        value = shown(self.permission_input, self.redactor)
        fields: dict[str, object] = {"permission_decision_refs": (self.decision_id,), "permission_input": value}
        if self.verdict.policy_refs:
            fields["policy_refs"] = self.verdict.policy_refs
        return {**fields, "approval_request_ref": self.approval_id} if self.approval_id else fields

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the decision."""
        return (
            decision_record(
                self.verdict,
                decision_id=self.decision_id,
                invocation_id=cast("InvocationId", fact.invocation_id),
                decided_at=timestamp(fact.at_ns),
                input_digest=input_digest(parse_object(self.permission_input), self.redactor, self.digest_key),
                suggestions=self.suggestions,
            ),
        )


class AnswerGiven(Evidence, frozen=True):
    """The answer to an approval request, or its expiry."""

    decision: PermissionDecision

    def members(self, event: EventType) -> JsonObject:
        """Return the decision and the approver."""
        members: JsonObject = {"decision_id": self.decision.decision_id, "behavior": self.decision.behavior.value}
        reason = self.decision.reason
        approver = None if reason is None else (reason.details or {}).get("approver")
        members["decided_by"] = self.decision.decided_by
        return members if approver is None else {**members, "approver": approver}

    def contributes(self) -> Mapping[str, object]:
        """Return the ref of the decision."""
        return {"permission_decision_refs": (self.decision.decision_id,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the decision."""
        return (self.decision,)


class HookRan(Evidence, frozen=True):
    """One run of one hook."""

    run: HookRun
    hook_event: HookEvent
    hook_id: HookId

    def members(self, event: EventType) -> JsonObject:
        """Return which hook ran, the types of its outputs, and its message to observers."""
        reply = self.run.reply
        members: JsonObject = {"hook_id": self.hook_id, "hook_event": self.hook_event.value}
        members["hook"] = self.run.hook.name
        members["outputs"] = [output.type.value for output in reply.outputs()]
        if reply.message is not None:
            members["message"] = reply.message
        return {**members, "fault": True} if self.run.fault else members

    def contributes(self) -> Mapping[str, object]:
        """Return the ref of the run."""
        return {"hook_refs": (self.hook_id,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the run."""
        reply = self.run.reply
        hint = reply.permission_result
        return (
            ToolHook(
                hook_id=self.hook_id,
                hook_event=self.hook_event,
                name=self.run.hook.name,
                invocation_id=fact.invocation_id,
                tool_id=fact.tool_id,
                matcher={"tools": [*self.run.hook.tools]},
                outputs=reply.outputs(),
                permission_result={"behavior": hint.value, "reason": reply.permission_reason} if hint else None,
                additional_context=reply.additional_context or None,
                stop={"reason": reply.stop} if reply.stop is not None else None,
                started_at=timestamp(self.run.started_ns),
                ended_at=timestamp(self.run.ended_ns),
            ),
        )


class BatchPlanned(Evidence, frozen=True):
    """The scheduler policy of a batch; the fact belongs to no single call."""

    policy: SchedulerPolicy

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the policy."""
        return (self.policy,)


class Scheduled(Evidence, frozen=True):
    """The seven scheduling facts of a call (AT-SCHED-07)."""

    facts: SchedulingFacts

    def contributes(self) -> Mapping[str, object]:
        """Return the facts; the state in the queue follows from the status of the call."""
        return {"scheduler": self.facts}


class Progressed(Evidence, frozen=True):
    """A progress update; its message is scrubbed before it gets here."""

    number: int
    status: ProgressStatus
    message: str | None = None
    percent: float | None = None
    step: str | None = None
    elapsed_ms: int | None = None
    facts: JsonObject | None = None
    partial_result_refs: tuple[str, ...] | None = None

    def members(self, event: EventType) -> JsonObject:
        """Return what the tool reported."""
        reported = {"progress": self.number, "message": self.message, "percent": self.percent, "step": self.step}
        return {name: value for name, value in reported.items() if value is not None}

    def contributes(self) -> Mapping[str, object]:
        """Return the ref of the remote task that does the work, if there is one."""
        task = (self.facts or {}).get("task_id")
        return {} if task is None else {"runtime_refs": (task,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the update."""
        return (self.record(cast("InvocationId", fact.invocation_id), fact.at_ns),)

    def record(self, invocation_id: InvocationId, at_ns: int) -> ToolProgress:
        """Return the update as a record."""
        return ToolProgress(
            progress_id=ProgressId(f"prg_{invocation_id.partition('_')[2]}-{self.number}"),
            invocation_id=invocation_id,
            sequence=self.number,
            status=self.status,
            message=self.message,
            percent=self.percent,
            current_step=self.step,
            elapsed_ms=self.elapsed_ms,
            partial_result_refs=self.partial_result_refs,
            timestamp=timestamp(at_ns),
            **(self.facts or {}),  # pyright: ignore[reportArgumentType] -- counters that the record has fields for
        )


_COUNTERS = frozenset(
    """
    current_step_index total_steps timeout_ms bytes_read bytes_written stdout_bytes stderr_bytes line_count exit_code
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
_MAX_COUNT = 2**63


def counters(facts: Mapping[str, int | str], scrubber: Scrubber | None) -> JsonObject:
    """Return the counters that a progress record has fields for; others and those out of range are dropped."""
    found: JsonObject = {
        name: value
        for name, value in facts.items()
        if name in _COUNTERS and type(value) is int and abs(value) < _MAX_COUNT
    }
    task = facts.get("task_id")
    if isinstance(task, str):
        found["task_id"] = scrubber.text(task) if scrubber else task
    return found


class NativeIds(Evidence, frozen=True):
    """The ids of this run in the native system (G-64)."""

    mapping: ExternalMapping

    def contributes(self) -> Mapping[str, object]:
        """Return them as a mapping of the call."""
        return {"external_mappings": (self.mapping,)}


def native_ids(source: str, ids: JsonObject, scrubber: Scrubber | None) -> NativeIds:
    """Return the ids that an adapter reports, without the call's secrets.

    The tool has run by then and must not fail because of its ids: ids that do not fit their source become text.
    """
    try:
        own: Json = {**ids, "source": source}
        if scrubber is not None:
            own = scrubber.value(parse_object(sorted_json(own)))
        call = read(sorted_json({**_ENVELOPE, "external_mappings": [own]}), ToolInvocation)
    except (RecordError, TypeError, ValueError):
        text = str(ids).encode(errors="replace").decode()
        return NativeIds(NativeMapping(native_id=text if scrubber is None else scrubber.text(text)))
    return NativeIds((call.external_mappings or (NativeMapping(),))[0])


_ENVELOPE: JsonObject = {"invocation_id": "", "tool_id": "", "status": "running", "created_at": ""}
"""The required members of an invocation, so that its mappings can be decoded."""


class CancelState(Evidence, frozen=True):
    """The current state of a cancellation."""

    cancellation: Cancellation

    def members(self, event: EventType) -> JsonObject:
        """Return the reason, why it failed, and the person in the event of the request."""
        known = {"abort_reason": self.cancellation.abort_reason, "message": self.cancellation.message}
        found: JsonObject = {name: str(value) for name, value in known.items() if value is not None}
        if event is EventType.CANCEL_REQUESTED and self.cancellation.requested_by is not None:
            found["requested_by"] = self.cancellation.requested_by
        return found

    def contributes(self) -> Mapping[str, object]:
        """Return the cancellation."""
        return {"cancellation": self.cancellation}


class OutputReplaced(Evidence, frozen=True):
    """A hook replaced the output of the tool. The original is not stored, because the hook may have hidden it."""

    hook_name: str

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the change, as a mutation between two outputs (G-28)."""
        invocation_id = cast("InvocationId", fact.invocation_id)
        return (
            InputMutation(
                mutation_id=MutationId(f"mut_{invocation_id.partition('_')[2]}-output"),
                invocation_id=invocation_id,
                source_type=MutationSource.HOOK,
                source_ref=self.hook_name,
                from_output_ref=f"{invocation_id}#native_output",
                to_output_ref=f"{invocation_id}#updated_output",
                created_at=timestamp(fact.at_ns),
            ),
        )


class Stored(Evidence, frozen=True):
    """Where the bytes of the result were stored."""

    decision: ResultPersistence

    def members(self, event: EventType) -> JsonObject:
        """Return the decision and the result that it concerns."""
        decision = self.decision
        return {
            "decision_id": decision.decision_id,
            "result_id": decision.result_id,
            "strategy": decision.strategy.value,
        }

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the decision."""
        return (self.decision,)
