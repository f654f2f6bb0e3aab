"""What an author may say of a function beyond its signature; what is left unsaid takes its fail-closed default."""

from collections.abc import Sequence
from typing import TypedDict

from agenttool.ports.tool import Check, Locks, Normalize
from agenttool.records import AccessKind, InterruptBehavior, Lifecycle, RiskLevel, ToolKind, WriteEffect


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`."""

    name: str
    namespace: str
    title: str
    description: str
    aliases: Sequence[str]
    search_hint: str
    kind: ToolKind
    lifecycle: Lifecycle
    read_only: bool
    concurrency_safe: bool
    destructive: bool
    open_world: bool
    requires_user_interaction: bool
    interrupt_behavior: InterruptBehavior
    timeout_s: float
    idempotent: bool
    risk: RiskLevel
    access: Sequence[AccessKind]
    write_effects: Sequence[WriteEffect]
    approval_required: bool
    approval_reason: str
    max_inline_chars: int
    should_defer: bool
    always_load: bool
    sensitive: Sequence[str]
    examples: Sequence[dict[str, object]]
    check: Check
    normalize: Normalize
    locks: Locks
