"""What becomes of a change that a call makes to the context of others."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from agenttool.records import ContextModifierPolicy

T = TypeVar("T")


class ModifierFate(StrEnum):
    """What the terminal event says of a context modifier (G-63)."""

    APPLIED = "applied"
    DEFERRED = "deferred"
    REJECTED = "rejected"


_STRICTEST_FIRST = (
    ContextModifierPolicy.FORBID,
    ContextModifierPolicy.ALLOW_SERIAL_ONLY,
    ContextModifierPolicy.DEFER_UNTIL_BATCH_COMPLETE,
)


def strictest_modifier_policy(*policies: ContextModifierPolicy | None) -> ContextModifierPolicy:
    """Join the words of interface, call and scheduler policy (G-19); if nobody says anything, nothing is changed."""
    said = [policy for policy in _STRICTEST_FIRST if policy in policies]
    return said[0] if said else ContextModifierPolicy.FORBID


def fate_of(policy: ContextModifierPolicy, *, ran_alone: bool, supports_context_modifiers: bool | None) -> ModifierFate:
    """Decide on one modifier.

    A tool that did not declare that it changes context does not (AT-EXEC-13). `ran_alone` must mean by right, as
    `Turn.alone` does: to be without company by luck would make the outcome a matter of timing.
    """
    if not supports_context_modifiers or policy == ContextModifierPolicy.FORBID:
        return ModifierFate.REJECTED
    if policy == ContextModifierPolicy.DEFER_UNTIL_BATCH_COMPLETE:
        return ModifierFate.DEFERRED
    return ModifierFate.APPLIED if ran_alone else ModifierFate.REJECTED


def in_asked_order(deferred: Mapping[int, T]) -> tuple[T, ...]:
    """Give the deferred modifiers, known by the index of their call, in the order in which they apply at the end."""
    return tuple(deferred[call] for call in sorted(deferred))
