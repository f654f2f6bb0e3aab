"""The parts of a call's state, one per concern, and the progress of its tool. Most calls need none of them."""

import asyncio
import threading
from collections.abc import Callable
from math import inf

from agenttool.call.services import NO_CREDENTIALS, LeasedCredentials, PayloadAccess, PayloadReader
from agenttool.errors import ToolFailure
from agenttool.policy.votes import ExternalVote, HookVote
from agenttool.ports.evidence import CallEnded
from agenttool.records import (
    AbortReason,
    ApprovalId,
    Cancellation,
    Live,
    OrderingPolicy,
    Part,
    SchedulerPolicy,
    SiblingFailurePolicy,
    Timestamp,
    ToolProgress,
    ToolResult,
)
from agenttool.results.messages import clean_message
from agenttool.results.persistence import PARTIAL_RESULT, native_payloads
from agenttool.results.redaction import InputMask, Redactor, Scrubber, scrubbed_message
from agenttool.scheduler.limiter import CallLimiter, Permit
from agenttool.scheduler.timeouts import Deadlines, TimeLimit

MAX_ATTEMPTS = 3
"""How many processes may start one call; after that, the call counts as the cause of their crashes."""

UNTHROTTLED_UPDATES = 100
"""How many progress updates of a call are recorded without a minimum interval."""

UPDATE_EVERY_S = 0.05
"""The minimum interval of later updates; updates in between are dropped."""


class StopState(Live, eq=False):
    """Why a call has to stop.

    Attributes:
        reason: set as soon as the call has to stop.
        interrupted: the exception of the caller's task, raised once the result is written.
        cancellation: the first request to cancel.
        is_recorded: whether the journal has that request.
        signal: wakes a worker thread that waits for the request.
        unanswered: the question of a nested call that was open when the timeout expired.
    """

    reason: AbortReason | None = None
    interrupted: BaseException | None = None
    cancellation: Cancellation | None = None
    is_recorded: bool = False
    signal: threading.Event | None = None
    unanswered: ApprovalId | None = None


class RecordCounts(Live, eq=False, gc=False):
    """How many records of each kind the call has; the number is part of their ids.

    Attributes:
        reported_at: when a later update of progress was recorded last, by the clock of the event loop.
    """

    decisions: int = 0
    hook_runs: int = 0
    progress: int = 0
    reported_at: float = 0.0

    def count_progress(self, now: float) -> bool:
        """Count an update; return False if it is dropped, so that frequent updates do not fill the journal."""
        if self.progress >= UNTHROTTLED_UPDATES:
            if now - self.reported_at < UPDATE_EVERY_S:
                return False
            self.reported_at = now
        self.progress += 1
        return True


class BatchMembership(Live, eq=False):
    """What a batch adds to each of its calls.

    Attributes:
        limiter: acquired before the limiter of the runtime; none if the batch has no limit.
        delivers_in_order: a result may have to wait for those of earlier calls.
        has_deferred_changes: the context changes of the call are applied at the end of the batch.
        on_idle: called when the call starts to wait for an answer or a deferred result.
    """

    policy: SchedulerPolicy
    limiter: CallLimiter | None = None
    permit: Permit | None = None
    on_progress: Callable[[ToolProgress], object] | None = None
    delivers_in_order: bool = False
    has_deferred_changes: bool = False
    on_idle: Callable[[], object] | None = None

    @property
    def ignores_failures(self) -> bool:
        """Whether a call starts also if one that it depends on fails."""
        return self.policy.sibling_failure_policy in (None, SiblingFailurePolicy.IGNORE)

    def become_idle(self) -> None:
        """Report that the call waits."""
        if self.on_idle is not None:
            self.on_idle()

    def own_permit(self) -> tuple[CallLimiter, Permit] | None:
        """Return the batch permit that the call can release while it waits; none without one, or in a serial batch."""
        if self.limiter is None or self.permit is None or self.policy.ordering_policy == OrderingPolicy.SERIAL:
            return None
        self.permit = self.limiter.own_permit(self.permit)
        return self.limiter, self.permit


class BackgroundState(Live, eq=False):
    """A call without a waiting caller; it may be parked while its result is deferred.

    Attributes:
        idle: set while the call waits for an answer or a deferred result, and once it has ended.
        on_idle: called each time `idle` is set.
        waiting: how many waits of it and its nested calls are open.
        result: the result, once the call has ended in this process and its result is stored.
        is_known: whether the store may have it before it runs: it has an id of `new_id` or a key, or was recovered.
        ends_with_process: whether recovery never runs its tool a second time, because its caller is gone.
        note_for_approver: what an approver is shown in addition to the reason of the question.
    """

    idle: asyncio.Event | None = None
    on_idle: Callable[[], object] | None = None
    waiting: int = 0
    result: ToolResult | None = None
    is_known: bool = True
    on_progress: Callable[[ToolProgress], object] | None = None
    ends_with_process: bool = False
    note_for_approver: str | None = None

    def become_idle(self) -> None:
        """Report that the call waits, or has ended."""
        self.waiting += 1
        if self.idle is not None:
            self.idle.set()
        if self.on_idle is not None:
            self.on_idle()

    def resume(self) -> None:
        """Report that one wait is over."""
        self.waiting -= 1
        if self.idle is not None and not self.waiting:
            self.idle.clear()


class ResumeState(Live, eq=False):
    """What another process needs to know to resume the call.

    Attributes:
        has_checkpoint: whether the store has a checkpoint of the call.
        is_parked: whether this process stops waiting for the call; another process, or a deferred result, resumes it.
        is_remote: whether the tool has acknowledged the request and the call waits for its deferred result.
        attempts: how many processes have started the call.
        unreleased: a result that was made and not delivered, because its batch delivers in order.
        is_planned: whether its checkpoint is from before phase 1, so that a resumed call runs all phases.
        may_finish: whether closing the runtime lets it run for a while, because it was approved or recovered.
    """

    has_checkpoint: bool = False
    is_parked: bool = False
    is_remote: bool = False
    attempts: int = 1
    unreleased: CallEnded | None = None
    is_planned: bool = False
    may_finish: bool = False


class Votes(Part, frozen=True):
    """The votes on one call, besides those of the rules; `allowed_until` is when its permission expires."""

    hooks: tuple[HookVote, ...] = ()
    advisers: tuple[ExternalVote, ...] = ()
    allowed_until: Timestamp | None = None


NO_VOTES = Votes()


class CallSecrets(Live, eq=False):
    """The sensitive values of a call, its own and those of the call that made it, to remove them from all records.

    Attributes:
        salt: the key material of the digests of its inputs; it is stored in the checkpoint only.
        mask: redacts its inputs. It is replaced when another secret becomes known, so evidence can refer to it.
        leased: the values that were leased to it or to its callers; no checkpoint may contain them.
    """

    salt: bytes
    mask: InputMask
    credentials: LeasedCredentials = NO_CREDENTIALS
    leased: Scrubber | None = None


class RunTimer:
    """The timeouts of one call: total and idle. They start when its tool first waits.

    A nested call that waits for an approver pauses the timers of its callers. Pauses nest.
    """

    __slots__ = ("_deadlines", "_expire", "_limit", "_pauses")

    def __init__(self, deadlines: Deadlines, expire: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self._expire = expire
        self._limit: TimeLimit | None = None
        self._pauses = 0

    @property
    def left(self) -> float | None:
        """The seconds until the total timeout; none before it started."""
        if self._limit is None or self._limit.cap_at == inf:
            return None
        return self._limit.cap_at - self._deadlines.now()

    def start(self, cap: float | None, idle: float | None) -> None:
        """Start both timeouts; the total one continues if it was started before."""
        left = self.left
        if cap is not None or idle is not None:
            self._limit = TimeLimit(self._deadlines, self._expire, cap=cap if left is None else left, idle=idle)
            for _ in range(self._pauses):
                self._limit.pause()

    def stop(self) -> None:
        """Cancel the timeouts, because the tool has ended."""
        if self._limit is not None:
            self._limit.end()

    def progress(self) -> None:
        """Restart the idle timeout."""
        if self._limit is not None:
            self._limit.progress()

    def pause(self) -> None:
        """Suspend the timeouts."""
        self._pauses += 1
        if self._limit is not None:
            self._limit.pause()

    def resume(self) -> None:
        """Continue the timeouts, once every pause has ended."""
        self._pauses -= 1
        if self._limit is not None:
            self._limit.resume()


def reported_text(value: object, scrub: Scrubber | None) -> str | None:
    """Return a value as a message without secrets, control and invisible characters; a long one loses its middle."""
    return None if value is None else clean_message(scrubbed_message(str(value), scrub))


def store_partial_result(
    access: PayloadAccess, reader: PayloadReader, redactor: Redactor | None, part: object, scrubber: Scrubber | None
) -> tuple[str, ...] | None:
    """Start to store a scrubbed partial result, and return the id in a tuple; none if it cannot be stored."""
    if redactor is not None and redactor.is_whole:
        return None
    try:
        payloads = native_payloads(part, redactor=redactor, scrubber=scrubber, relation=PARTIAL_RESULT)
    except ToolFailure:
        return None
    for payload in payloads:
        if payload.ref.digest is not None:
            access.put_soon(reader, payload.data, payload.ref.digest)
    name = payloads[0].ref.id
    return None if name is None else (name,)
