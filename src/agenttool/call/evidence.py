"""Evidence: the data of a fact, which is projected to events and records when the journal is read.

This module has the evidence of surfaces, decisions, hooks, progress, cancellations and stored results. That of plain
calls and of changed inputs is in `ports.evidence`.
"""

from collections.abc import Mapping
from typing import cast

from agenttool.codec import Lazy, parse_object, read, sorted_json
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


_NOTHING: JsonObject = {}


class Complete(Evidence, frozen=True):
    """Evidence whose parts are known when it is written: data of its events, fields of the call, and records."""

    data: JsonObject = _NOTHING
    fields: Mapping[str, object] = _NOTHING
    documents: tuple[Record, ...] = ()

    def members(self, event: EventType) -> JsonObject:
        """Return the data."""
        return self.data

    def contributes(self) -> Mapping[str, object]:
        """Return the fields."""
        return self.fields

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the records."""
        return self.documents


def surface_made(surface: ToolSurface, replaces: str | None = None) -> Complete:
    """Return the evidence of a surface; the journal has its record after the runtime has dropped the surface."""
    data: JsonObject = {"surface_id": surface.surface_id, "replaces": replaces, "reason": surface.surface_reason}
    return Complete({name: value for name, value in data.items() if value is not None}, documents=(surface,))


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
    """The answer to an approval request, or its expiry; its record is made when it is first read."""

    made: Lazy[PermissionDecision]

    @property
    def decision(self) -> PermissionDecision:
        """The record of the decision."""
        return self.made.value

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


def scheduled(facts: SchedulingFacts | None) -> Complete | None:
    """Return the evidence of the scheduling facts of a call (AT-SCHED-07); its state follows from its status."""
    return None if facts is None else Complete(fields={"scheduler": facts})


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


def native_ids(source: str, ids: JsonObject, scrubber: Scrubber | None) -> Complete:
    """Return the ids of this run in the native system (G-64), as an adapter reports them, without the call's secrets.

    The tool has run by then and must not fail because of its ids: ids that do not fit their source become text.
    """
    mapping: ExternalMapping
    try:
        own: Json = {**ids, "source": source}
        if scrubber is not None:
            own = scrubber.value(parse_object(sorted_json(own)))
        call = read(sorted_json({**_ENVELOPE, "external_mappings": [own]}), ToolInvocation)
        (mapping,) = call.external_mappings or (NativeMapping(),)
    except (RecordError, TypeError, ValueError):
        text = str(ids).encode(errors="replace").decode()
        mapping = NativeMapping(native_id=text if scrubber is None else scrubber.text(text))
    return Complete(fields={"external_mappings": (mapping,)})


_ENVELOPE: JsonObject = {"invocation_id": "", "tool_id": "", "status": "running", "created_at": ""}
"""The required members of an invocation, so that its mappings can be decoded."""


def cancel_state(cancellation: Cancellation, *, is_request: bool = False) -> Complete:
    """Return the current state of a cancellation: the reason, why it failed, and the person if it is the request."""
    known = {"abort_reason": cancellation.abort_reason, "message": cancellation.message}
    data: JsonObject = {name: str(value) for name, value in known.items() if value is not None}
    if is_request and cancellation.requested_by is not None:
        data["requested_by"] = cancellation.requested_by
    return Complete(data, {"cancellation": cancellation})


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


def stored(decision: ResultPersistence) -> Complete:
    """Return the evidence of where the bytes of a result were stored."""
    data: JsonObject = {
        "decision_id": decision.decision_id,
        "result_id": decision.result_id,
        "strategy": decision.strategy.value,
    }
    return Complete(data, documents=(decision,))
