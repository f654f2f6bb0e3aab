"""Invocations: status, four inputs with their changes, and links to decisions, events and results."""

from agenttool.records.content import Ref, TelemetryRef
from agenttool.records.ids import (
    ApprovalId,
    DecisionId,
    HookId,
    InvocationId,
    MutationId,
    SchedulerPolicyId,
    SurfaceId,
    ToolId,
)
from agenttool.records.mapping import ExternalMapping
from agenttool.records.progress import Cancellation
from agenttool.records.record import UNSET, ClosedEnum, Json, Part, Record, Timestamp, UnsetType
from agenttool.records.scheduling import SchedulingFacts
from agenttool.records.status import InvocationStatus


class InputStage(ClosedEnum):
    """The four inputs of a call."""

    MODEL_INPUT = "model_input"  # what the caller sent, unchanged
    OBSERVABLE_INPUT = "observable_input"  # the normalized copy that hooks, prompts and streams see
    PERMISSION_INPUT = "permission_input"  # what rules and approvers decided on
    CALL_INPUT = "call_input"  # what the executor received


class MutationSource(ClosedEnum):
    """What changed an input."""

    HOOK = "hook"
    PERMISSION_PROMPT = "permission_prompt"
    ADAPTER = "adapter"
    MIGRATION = "migration"
    RUNTIME = "runtime"


class InputMutation(Record, frozen=True, kw_only=True, tag="tool_input_mutation"):
    """One change between the input sent and the input run; output changes use the two output refs (G-28)."""

    mutation_id: MutationId
    invocation_id: InvocationId
    source_type: MutationSource
    source_ref: str | None = None
    from_input_ref: str | None = None
    to_input_ref: str | None = None
    from_output_ref: str | None = None
    to_output_ref: str | None = None
    changed_fields: tuple[str, ...] | None = None
    reason: str | None = None
    created_at: Timestamp


def input_ref(invocation_id: InvocationId, stage: InputStage) -> str:
    """Return the ref of one of the four inputs of a call (G-24)."""
    return f"{invocation_id}#{stage}"


class StatusTransition(Part, frozen=True, kw_only=True):
    """One status change of a call, with its time."""

    status: InvocationStatus
    at: Timestamp | None = None
    phase: str | None = None
    reason: str | None = None


class ToolInvocation(Record, frozen=True, kw_only=True, tag="tool_invocation"):
    """The envelope of one call; it outlives the result's bytes (AT-INV-15).

    Attributes:
        native_call_id: the id that the caller or the model's provider has for the call.
        status: the current status.
        model_input: what the model or the caller sent.
        observable_input: the normalized copy that hooks, prompts and streams see.
        permission_input: what rules and approvers decided on.
        call_input: what the tool received.
        actor_ref: who made the call, such as `user:ada`.
        actor_roles: the roles of the actor's key or token, such as `gateway:caller`; none if they are not known. Our
            extension.
        parent_invocation_id: the call that made this call.
        depends_on: the calls that had to end first.
        permission_decision_refs: the decisions on the call.
        approval_request_ref: the approval that the call needed.
        hook_refs: the hooks that ran.
        input_mutation_refs: the changes between the four inputs.
        scheduler: how the call was scheduled.
        cancellation: the state of a requested cancellation.
        external_mappings: the ids of the call in other systems.
        status_transitions: every status of the call with its time.
    """

    invocation_id: InvocationId
    tool_id: ToolId
    surface_id: SurfaceId | None = None
    native_call_id: str | None = None
    status: InvocationStatus
    model_input: Json | UnsetType = UNSET
    model_input_ref: str | None = None
    observable_input: Json | UnsetType = UNSET
    observable_input_ref: str | None = None
    permission_input: Json | UnsetType = UNSET
    permission_input_ref: str | None = None
    call_input: Json | UnsetType = UNSET
    call_input_ref: str | None = None
    actor_ref: str | None = None
    actor_roles: tuple[str, ...] | None = None
    parent_invocation_id: InvocationId | None = None
    retry_of: InvocationId | None = None
    depends_on: tuple[InvocationId, ...] | None = None
    runtime_refs: tuple[str, ...] | None = None
    policy_refs: tuple[str, ...] | None = None
    permission_decision_refs: tuple[DecisionId, ...] | None = None
    approval_request_ref: ApprovalId | None = None
    hook_refs: tuple[HookId, ...] | None = None
    input_mutation_refs: tuple[str, ...] | None = None
    evidence_refs: tuple[str, ...] | None = None
    telemetry_refs: tuple[TelemetryRef, ...] | None = None
    artifact_refs: tuple[Ref, ...] | None = None
    scheduler_policy_ref: SchedulerPolicyId | None = None
    scheduler: SchedulingFacts | None = None
    cancellation: Cancellation | None = None
    external_mappings: tuple[ExternalMapping, ...] | None = None
    status_transitions: tuple[StatusTransition, ...] | None = None
    created_at: Timestamp
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
