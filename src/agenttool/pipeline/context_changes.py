"""What becomes of the change that a tool wants to make to the context that all calls share (G-63)."""

from agenttool.pipeline.call import Call
from agenttool.records import Json, JsonObject, ToolResult
from agenttool.scheduler.batch_order import ModifierOutcome, modifier_outcome, strictest_modifier_policy


def settle_changes(call: Call, result: ToolResult) -> JsonObject:
    """Make the change, put it off until the batch is over, or refuse it; give what the terminal event says of it."""
    changes = call.wanted_changes or {}
    fate = ModifierOutcome.REJECTED if result.is_error else _fate(call)
    if fate is ModifierOutcome.APPLIED:
        call.core.shared.update(changes)
    call.has_deferred_changes = fate is ModifierOutcome.DEFERRED
    members: list[Json] = [*sorted(changes)]
    return {"fate": fate.value, "members": members}


def _fate(call: Call) -> ModifierOutcome:
    declared = call.tool.modifier_policy if call.tool is not None else None
    policy = call.scheduler_policy
    turns = [turn for turn in (call.turn, call.batch_turn) if turn is not None]
    return modifier_outcome(
        strictest_modifier_policy(declared, policy.context_modifier_policy if policy is not None else None),
        ran_alone=any(turn.alone for turn in turns),
        supports_context_modifiers=declared is not None,
    )
