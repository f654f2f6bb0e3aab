"""Scheduling of calls: order, concurrency and failures in a batch."""

from agenttool.records.ids import SchedulerPolicyId
from agenttool.records.record import UNSET, ClosedEnum, Json, OpenEnum, Part, Record, UnsetType


class OrderingPolicy(ClosedEnum):
    """Whether terminal results follow the order of the calls."""

    PRESERVE_TERMINAL_ORDER = "preserve_terminal_order"
    ALLOW_UNORDERED = "allow_unordered"
    SERIAL = "serial"


class YieldPolicy(ClosedEnum):
    """When progress and results are delivered."""

    PROGRESS_IMMEDIATE_RESULTS_ORDERED = "progress_immediate_results_ordered"
    ALL_ORDERED = "all_ordered"
    UNORDERED_STREAMING = "unordered_streaming"


class InterruptBehavior(ClosedEnum):
    """What an interruption does to a running call; the default is `block`."""

    CANCEL = "cancel"
    BLOCK = "block"


class SiblingFailurePolicy(ClosedEnum):
    """Which calls the failure of one cancels."""

    IGNORE = "ignore"
    CANCEL_SIBLINGS = "cancel_siblings"
    CANCEL_DEPENDENT = "cancel_dependent"


class ContextModifierPolicy(ClosedEnum):
    """Whether a call that runs beside others may change their context."""

    ALLOW_SERIAL_ONLY = "allow_serial_only"
    DEFER_UNTIL_BATCH_COMPLETE = "defer_until_batch_complete"
    FORBID = "forbid"


class SchedulerState(OpenEnum):
    """The state of a call in the scheduler."""

    QUEUED = "queued"
    EXECUTING = "executing"
    COMPLETED = "completed"
    YIELDED = "yielded"
    DISCARDED = "discarded"


class ResourceLock(Part, frozen=True, kw_only=True):
    """A claim on something that two calls must not hold at once."""

    resource: str | None = None
    mode: str | None = None


class ParallelClasses(Part, frozen=True, kw_only=True):
    """Which classes of calls may run beside others (G-45); a missing value means exclusive."""

    read_only: bool | None = None
    write: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


class SchedulerPolicy(Record, frozen=True, kw_only=True, tag="tool_scheduler_policy"):
    """The rules of one batch of calls."""

    scheduler_policy_id: SchedulerPolicyId
    scope: str | None = None
    max_parallel: int | None = None
    ordering_policy: OrderingPolicy | None = None
    yield_policy: YieldPolicy | None = None
    interrupt_behavior: InterruptBehavior | None = None
    sibling_failure_policy: SiblingFailurePolicy | None = None
    context_modifier_policy: ContextModifierPolicy | None = None
    parallel_classes: ParallelClasses | None = None
    synthetic_results: Json | UnsetType = UNSET
    resource_locks: tuple[ResourceLock, ...] | None = None


class SchedulingFacts(Part, frozen=True, kw_only=True):
    """The seven facts of one call with its input, and its scheduler state (AT-SCHED-07)."""

    is_concurrency_safe: bool | None = None
    is_read_only: bool | None = None
    is_destructive: bool | None = None
    is_open_world: bool | None = None
    requires_exclusive_context: bool | None = None
    interrupt_behavior: InterruptBehavior | None = None
    context_modifier_policy: ContextModifierPolicy | None = None
    resource_locks: tuple[ResourceLock, ...] | None = None
    state: SchedulerState | None = None
