"""What the facts of a call rest on until it runs, and how each tells itself as records once somebody asks."""

from collections.abc import Mapping
from typing import cast

from agenttool.codec import parse_object
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError
from agenttool.hooks.execution import HookRun
from agenttool.journal.evidence import Plain
from agenttool.pipeline.digests import input_digest
from agenttool.policy.verdict import Verdict, decision_record
from agenttool.ports.evidence import Launch, Standing
from agenttool.ports.evidence import Launched as LaunchTold
from agenttool.ports.facts import Brief, Fact
from agenttool.records import (
    DecisionId,
    EventType,
    FunctionMapping,
    HookEvent,
    HookId,
    InputMutation,
    InputStage,
    InvocationId,
    Json,
    JsonObject,
    MutationId,
    MutationSource,
    PermissionDecision,
    Record,
    SchedulerPolicyId,
    SchedulingFacts,
    SuggestedUpdate,
    Timestamp,
    ToolHook,
    ToolSurface,
    input_ref,
    replace,
)
from agenttool.results.redaction import MARKER, Redactor


def shown(value: bytes, redactor: Redactor | None) -> Json:
    """Give an input as a record may show it: sensitive fields redacted, everything else as it was.

    What is no JSON object is shown as the text it is, unless it might hold something sensitive.
    """
    try:
        members = parse_object(value)
    except RecordError:
        return MARKER if redactor is not None else value.decode(errors="replace")
    return members if redactor is None else redactor.redact(members)


class SurfaceMade(Plain, frozen=True):
    """The surface of one context; its record is read here once the runtime has forgotten it."""

    surface: ToolSurface
    replaces: str | None = None

    def members(self, event: EventType) -> JsonObject:
        """Tell which, in whose place, and why."""
        told: JsonObject = {"surface_id": self.surface.surface_id}
        if self.replaces is not None:
            told["replaces"] = self.replaces
        if self.surface.surface_reason is not None:
            told["reason"] = self.surface.surface_reason
        return told

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the surface."""
        return (self.surface,)


class Request(Plain, frozen=True):
    """What was asked for. The input is kept as the bytes it came in; nothing changes them."""

    name: str
    model_input: bytes
    surface_id: str | None = None
    native_call_id: str | None = None
    actor_ref: str | None = None
    parent_invocation_id: InvocationId | None = None
    depends_on: tuple[InvocationId, ...] | None = None
    scheduler_policy_ref: SchedulerPolicyId | None = None
    redactor: Redactor | None = None
    mapping: FunctionMapping | None = None

    def with_redactor(self, redactor: Redactor) -> "Request":
        """Give the same with what is sensitive in it."""
        return replace(self, redactor=redactor)

    def members(self, event: EventType) -> JsonObject:
        """Tell the name that was called."""
        return {"name": self.name} if event is EventType.PLANNED else {}

    def contributes(self) -> Mapping[str, object]:
        """Fill in who asked for what."""
        fields = {
            "surface_id": self.surface_id,
            "native_call_id": self.native_call_id,
            "actor_ref": self.actor_ref,
            "parent_invocation_id": self.parent_invocation_id,
            "depends_on": self.depends_on,
            "scheduler_policy_ref": self.scheduler_policy_ref,
            "external_mappings": None if self.mapping is None else (self.mapping,),
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return {**given, "model_input": shown(self.model_input, self.redactor)}


class InputNoted(Plain, frozen=True):
    """One of the later inputs, and who changed it into this; without a source it was not changed."""

    stages: tuple[InputStage, ...]
    value: bytes
    redactor: Redactor | None = None
    source_type: MutationSource | None = None
    source_ref: str | None = None
    from_stage: InputStage | None = None
    changed_fields: tuple[str, ...] = ()
    reason: str | None = None
    mutation_id: MutationId | None = None

    def contributes(self) -> Mapping[str, object]:
        """Fill in the inputs that this is."""
        told: dict[str, object] = {stage.value: shown(self.value, self.redactor) for stage in self.stages}
        return told if self.mutation_id is None else {**told, "input_mutation_refs": (self.mutation_id,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the change, if it was one."""
        invocation_id = fact.invocation_id
        if self.mutation_id is None or self.source_type is None or self.from_stage is None or invocation_id is None:
            return ()
        return (
            InputMutation(
                mutation_id=self.mutation_id,
                invocation_id=invocation_id,
                source_type=self.source_type,
                source_ref=self.source_ref,
                from_input_ref=input_ref(invocation_id, self.from_stage),
                to_input_ref=input_ref(invocation_id, self.stages[0]),
                changed_fields=self.changed_fields,
                reason=self.reason,
                created_at=timestamp(fact.at_ns),
            ),
        )


class Decided(Plain, frozen=True):
    """A verdict of the rules on one input. The digest of that input is taken when somebody reads the record."""

    verdict: Verdict
    permission_input: bytes
    decision_id: DecisionId
    redactor: Redactor | None = None
    suggested_updates: tuple[SuggestedUpdate, ...] = ()
    approval_id: str | None = None
    digest_key: bytes = b""

    def members(self, event: EventType) -> JsonObject:
        """Tell the decision and its reason; a request says if anybody is asked, and how its digest is sealed."""
        if event is EventType.PERMISSION_REQUESTED:
            told: JsonObject = {"prompted": self.approval_id is not None, "decision_id": self.decision_id}
            told["sealed"] = self.redactor is not None
            if self.redactor is not None:
                told["salted"] = True
            return {**told, "approval_id": self.approval_id} if self.approval_id else told
        return {"decision_id": self.decision_id, "behavior": self.verdict.behavior.value, "source": self.verdict.source}

    def contributes(self) -> Mapping[str, object]:
        """Fill in what was judged, and by which decision."""
        value = shown(self.permission_input, self.redactor)
        fields: dict[str, object] = {"permission_decision_refs": (self.decision_id,), "permission_input": value}
        if self.verdict.policy_refs:
            fields["policy_refs"] = self.verdict.policy_refs
        return {**fields, "approval_request_ref": self.approval_id} if self.approval_id else fields

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision."""
        return (
            decision_record(
                self.verdict,
                decision_id=self.decision_id,
                invocation_id=cast("InvocationId", fact.invocation_id),
                decided_at=timestamp(fact.at_ns),
                input_digest=input_digest(parse_object(self.permission_input), self.redactor, self.digest_key),
                suggested_updates=self.suggested_updates,
            ),
        )


class Launched(Plain, frozen=True):
    """All of a plain call up to its start, with what the path had at hand; put into words when somebody wants them."""

    request: Request
    verdict: Verdict
    invocation_id: InvocationId
    facts: SchedulingFacts

    def _launch(self) -> Launch:
        asked = self.request
        return Launch(
            asked.name,
            parse_object(asked.model_input),
            asked.surface_id,
            asked.native_call_id,
            asked.actor_ref,
            asked.depends_on,
            asked.scheduler_policy_ref,
            asked.mapping,
        )

    def _told(self) -> LaunchTold:
        return LaunchTold(self._launch(), _standing_for(self.verdict, self.facts), self.invocation_id)

    def members(self, event: EventType) -> JsonObject:
        """Tell the name that was called, and the decision."""
        return self._told().members(event)

    def contributes(self) -> Mapping[str, object]:
        """Fill in who asked for what, what was judged, and the facts of the tool."""
        return self._told().contributes()

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision."""
        return self._told().records(fact)

    def tell(self, fact: Fact) -> Brief:
        """Tell all of it in few words."""
        return Brief("launch", (self._launch(),), _standing_for(self.verdict, self.facts))


MOST_STANDING = 1024
"""For so many tools it is remembered what their plain calls have in common."""

_standing: dict[int, tuple[Verdict, SchedulingFacts, Standing]] = {}


def _standing_for(verdict: Verdict, facts: SchedulingFacts) -> Standing:
    """Put together what plain calls to a tool have in common; the decision leaves open what differs."""
    known = _standing.get(id(facts))
    if known is None or known[0] is not verdict or known[1] is not facts:
        if len(_standing) >= MOST_STANDING:
            _standing.clear()
        open_id, open_call, open_moment = DecisionId(""), InvocationId(""), Timestamp("")
        judged = decision_record(verdict, decision_id=open_id, invocation_id=open_call, decided_at=open_moment)
        known = _standing[id(facts)] = (verdict, facts, Standing(judged, facts))
    return known[2]


class AnswerGiven(Plain, frozen=True):
    """The answer to a question, or that none came in time."""

    decision: PermissionDecision

    def members(self, event: EventType) -> JsonObject:
        """Tell the decision and who made it."""
        told: JsonObject = {"decision_id": self.decision.decision_id, "behavior": self.decision.behavior.value}
        return {**told, "decided_by": self.decision.decided_by}

    def contributes(self) -> Mapping[str, object]:
        """Add the decision."""
        return {"permission_decision_refs": (self.decision.decision_id,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision."""
        return (self.decision,)


class HookRan(Plain, frozen=True):
    """One run of one hook."""

    run: HookRun
    hook_event: HookEvent
    hook_id: HookId

    def members(self, event: EventType) -> JsonObject:
        """Tell which hook it was, what sort of things it said, and the message it had for whoever listens."""
        reply = self.run.reply
        said: JsonObject = {"hook_id": self.hook_id, "hook_event": self.hook_event.value, "hook": self.run.hook.name}
        said["outputs"] = [output.type.value for output in reply.outputs()]
        if reply.message is not None:
            said["message"] = reply.message
        return {**said, "fault": True} if self.run.fault else said

    def contributes(self) -> Mapping[str, object]:
        """Link the run."""
        return {"hook_refs": (self.hook_id,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the run."""
        reply = self.run.reply
        hint = reply.permission_result
        return (
            ToolHook(
                hook_id=self.hook_id,
                hook_event=self.hook_event,
                name=self.run.hook.name,
                invocation_id=fact.invocation_id,
                tool_id=fact.tool_id,
                matcher=self.run.hook.matcher(),
                outputs=reply.outputs(),
                permission_result={"behavior": hint.value, "reason": reply.permission_reason} if hint else None,
                additional_context=reply.additional_context or None,
                stop={"reason": reply.stop} if reply.stop is not None else None,
                started_at=timestamp(self.run.started_ns),
                ended_at=timestamp(self.run.ended_ns),
            ),
        )
