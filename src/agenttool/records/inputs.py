"""The four inputs of one call, and the record of every change between them."""

from typing import NewType

from agenttool.records.ids import InvocationId, MutationId
from agenttool.records.record import Record
from agenttool.records.tokens import ClosedEnum
from agenttool.records.values import Timestamp

ModelInput = NewType("ModelInput", object)
"""What the caller sent, unchanged."""

ObservableInput = NewType("ObservableInput", object)
"""The normalized copy that hooks, prompts and streams see."""

PermissionInput = NewType("PermissionInput", object)
"""What rules and approvers decided on."""

CallInput = NewType("CallInput", object)
"""What the executor received."""


class InputStage(ClosedEnum):
    """Which of the four inputs is meant."""

    MODEL_INPUT = "model_input"
    OBSERVABLE_INPUT = "observable_input"
    PERMISSION_INPUT = "permission_input"
    CALL_INPUT = "call_input"


class MutationSource(ClosedEnum):
    """Who changed an input."""

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
