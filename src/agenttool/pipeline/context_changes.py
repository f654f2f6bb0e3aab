"""Changes that tools request in the shared context (G-63)."""

from agenttool.pipeline.call import Call
from agenttool.records import Json, JsonObject, ToolResult
from agenttool.scheduler.batch_order import ModifierOutcome, modifier_outcome, strictest_modifier_policy


def settle_changes(call: Call, result: ToolResult) -> JsonObject:
    """Apply, defer or reject the requested changes; return what the terminal event records of them."""
    changes = call.wanted_changes or {}
    outcome = ModifierOutcome.REJECTED if result.is_error else _outcome_of_changes(call)
    if outcome is ModifierOutcome.APPLIED:
        call.core.shared.update(changes)
    call.has_deferred_changes = outcome is ModifierOutcome.DEFERRED
    members: list[Json] = [*sorted(changes)]
    return {"fate": outcome.value, "members": members}


def _outcome_of_changes(call: Call) -> ModifierOutcome:
    declared = call.tool.modifier_policy if call.tool is not None else None
    policy = call.scheduler_policy
    permits = [permit for permit in (call.permit, call.batch_permit) if permit is not None]
    return modifier_outcome(
        strictest_modifier_policy(declared, policy.context_modifier_policy if policy is not None else None),
        ran_alone=any(permit.alone for permit in permits),
        supports_context_modifiers=declared is not None,
    )
