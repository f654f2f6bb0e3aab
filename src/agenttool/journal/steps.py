"""The steps a call can take, from top to bottom.

A plain call is admitted, judged and started without a wait, so it has two of them: launched and ended.
"""

from agenttool.ports.facts import Step
from agenttool.records import EventType, InvocationStatus

E, S = EventType, InvocationStatus

PLANNED = Step("planned", (E.PLANNED, S.PLANNED))
CHOSEN = Step("chosen", (E.PLANNED, S.PLANNED), (E.SELECTED, S.SELECTED))
ADMITTED = Step("admitted", *CHOSEN.transitions, (E.ARGUMENTS_READY, S.ARGUMENTS_READY))
MISFIT = Step("misfit", (E.VALIDATION_FAILED, None))
INPUT_CHANGED = Step("input_changed", (None, None))

PRE_HOOKS_STARTED = Step("pre_hooks_started", (E.HOOK_PRE_STARTED, S.PRE_HOOKS_RUNNING))
PRE_HOOKS_COMPLETED = Step("pre_hooks_completed", (E.HOOK_PRE_COMPLETED, None))
SIDE_HOOKS_STARTED = Step("side_hooks_started", (E.HOOK_PRE_STARTED, None))
SIDE_HOOKS_COMPLETED = Step("side_hooks_completed", (E.HOOK_PRE_COMPLETED, None))

ASKED = Step("asked", (E.PERMISSION_REQUESTED, S.AWAITING_APPROVAL))
JUDGED = Step("judged", (E.PERMISSION_REQUESTED, None), (E.PERMISSION_DECIDED, S.APPROVED))
ANSWERED = Step("answered", (E.PERMISSION_DECIDED, S.APPROVED))
REFUSED = Step("refused", (E.PERMISSION_REQUESTED, None), (E.PERMISSION_DECIDED, None))
ANSWERED_NO = Step("answered_no", (E.PERMISSION_DECIDED, None))
ANSWER_GIVEN = Step("answer_given", (None, None))
"""An approver answered a question, in any process; the fact belongs to no call."""

QUEUED = Step("queued", (E.QUEUED, S.QUEUED))
STARTED = Step("started", (E.QUEUED, S.QUEUED), (E.STARTED, S.RUNNING))
RESUMED = Step("resumed", (E.STARTED, S.RUNNING))
LAUNCHED = Step("launched", *ADMITTED.transitions, *JUDGED.transitions, *STARTED.transitions)

TAKEN_UP = Step("taken_up", (E.PROGRESS, None))
PROGRESSED = Step("progressed", (E.PROGRESS, None))
RETRYING = Step("retrying", (E.PROGRESS, None))
CREDENTIALS_LEASED = Step("credentials_leased", (E.PROGRESS, None))
PARTIAL = Step("partial", (E.PARTIAL_RESULT, S.PARTIAL_RESULT))
NEEDS_INPUT = Step("needs_input", (E.PROGRESS, S.NEEDS_INPUT))
INPUT_GIVEN = Step("input_given", (E.PROGRESS, S.RUNNING))
BACKGROUNDED = Step("backgrounded", (E.PROGRESS, None))
ANSWERED_LATER = Step("answered_later", (E.PROGRESS, None))
NATIVE_IDS = Step("native_ids", (None, None))

CANCEL_REQUESTED = Step("cancel_requested", (E.CANCEL_REQUESTED, None))
CANCEL_ACKNOWLEDGED = Step("cancel_acknowledged", (E.CANCEL_ACKNOWLEDGED, None))
CANCEL_FAILED = Step("cancel_failed", (E.CANCEL_FAILED, None))
CANCEL_SETTLED = Step("cancel_settled", (None, None))

POST_HOOKS_STARTED = Step("post_hooks_started", (E.HOOK_POST_STARTED, S.POST_HOOKS_RUNNING))
POST_HOOKS_COMPLETED = Step("post_hooks_completed", (E.HOOK_POST_COMPLETED, None))
OUTPUT_CHANGED = Step("output_changed", (None, None))
SIDE_POST_STARTED = Step("side_post_started", (E.HOOK_POST_STARTED, None))
SIDE_POST_COMPLETED = Step("side_post_completed", (E.HOOK_POST_COMPLETED, None))
PERSISTED = Step("persisted", (E.RESULT_PERSISTED, None))
REDACTED = Step("redacted", (E.RESULT_REDACTED, None))

CRASHED = Step("crashed", (None, None))
"""An exception ended a phase. The traceback is for people who read the journal: no record and no event has it."""

CREATED = Step("created", (E.RESULT_CREATED, None))

_TERMINAL = {S.SUCCEEDED: E.SUCCEEDED, S.CANCELED: E.CANCELED, S.TIMED_OUT: E.TIMED_OUT}

ENDED = {
    end: Step(
        f"ended_{end.value}", (E.RESULT_CREATED, None), (E.YIELDED, S.YIELDED), (_TERMINAL.get(end, E.FAILED), end)
    )
    for end in (
        S.SUCCEEDED,
        S.FAILED,
        S.CANCELED,
        S.TIMED_OUT,
        S.DENIED,
        S.BLOCKED,
        S.SCHEMA_PARSE_FAILED,
        S.VALIDATION_FAILED,
    )
}
"""The eight ends: the result is made and delivered, and the one terminal event is written (G-11, G-50)."""

RELEASED = {end: Step(f"released_{end.value}", *step.transitions[1:]) for end, step in ENDED.items()}
"""The same ends without the result event: for a result that was made before and waited for its batch."""

BATCH_PLANNED = Step("batch_planned", (None, None))
COMPLETED = Step("completed", *LAUNCHED.transitions, *ENDED[S.SUCCEEDED].transitions)
"""All of a plain call whose tool never waited: no state in between was visible."""

AFTER_PLAN = {
    step: Step(f"{step.name}_after_plan", *(step.transitions[1:] or [(None, None)]))
    for step in (PLANNED, CHOSEN, ADMITTED, LAUNCHED, COMPLETED)
}
"""The first steps without the event that a call is planned: for a call that was recorded before it started."""

PLAN_SEALED = Step("plan_sealed", (None, None))
"""The keyed digest of the input of a planned call whose tool has sensitive fields."""

DECLARED = Step("declared", (E.DECLARED, None))
SURFACE_CREATED = Step("surface_created", (E.SURFACE_CREATED, None))
SURFACE_UPDATED = Step("surface_updated", (E.SURFACE_UPDATED, None))
DEFERRED_DISCOVERED = Step("deferred_discovered", (E.DEFERRED_DISCOVERED, None))
DEFERRED_LOADED = Step("deferred_loaded", (E.DEFERRED_LOADED, None))

STEPS = {
    step.name: step
    for step in (
        *(each for each in tuple(globals().values()) if isinstance(each, Step)),
        *ENDED.values(),
        *RELEASED.values(),
        *AFTER_PLAN.values(),
    )
}
"""Every step by the name under which a store writes it."""
