"""The parts of a call's state, one per concern. Most calls need none of them."""

import threading
from collections.abc import Callable

from agenttool.pipeline.credentials import NO_CREDENTIALS, LeasedCredentials
from agenttool.policy.votes import ExternalVote, HookVote
from agenttool.ports.evidence import CallEnded
from agenttool.ports.facts import Fact
from agenttool.records import (
    AbortReason,
    Cancellation,
    Live,
    Part,
    SchedulerPolicy,
    SiblingFailurePolicy,
    Timestamp,
    ToolProgress,
)
from agenttool.results.redaction import InputMask, Scrubber
from agenttool.scheduler.limiter import CallLimiter, Permit
from agenttool.scheduler.timeouts import Deadline, Deadlines, TimeLimit


class StopState(Live, eq=False):
    """Why a call has to stop.

    Attributes:
        reason: set as soon as the call has to stop.
        interrupted: the exception of the caller's task, raised once the result is written.
        cancellation: the first request to cancel.
        is_recorded: the journal has that request.
        signal: wakes a worker thread that waits for the request.
    """

    reason: AbortReason | None = None
    interrupted: BaseException | None = None
    cancellation: Cancellation | None = None
    is_recorded: bool = False
    signal: threading.Event | None = None


class RecordCounts(Live, eq=False, gc=False):
    """How many records of each kind the call has; the number is part of their ids."""

    decisions: int = 0
    hook_runs: int = 0
    progress: int = 0


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


class BackgroundState(Live, eq=False):
    """A call without a waiting caller; it may be parked while its result is deferred.

    Attributes:
        on_idle: called when the call ends or starts to wait.
        facts: the facts of the call, until it is idle; none if they are not needed.
        is_known: its caller has its id or key before it runs, or another process had it.
        ends_with_process: after a crash, no caller takes its result, so a tool that was started is not run again.
    """

    on_idle: Callable[[], object] | None = None
    facts: list[Fact] | None = None
    is_known: bool = True
    on_progress: Callable[[ToolProgress], object] | None = None
    ends_with_process: bool = False

    def become_idle(self) -> None:
        """Report that the call waits, or has ended."""
        if self.on_idle is not None:
            self.on_idle()


class ResumeState(Live, eq=False):
    """What another process needs to know to resume the call.

    Attributes:
        is_parked: this process stops waiting for the call; another process, or a later result, resumes it.
        is_remote: the tool has acknowledged the request, and the result is deferred.
        attempts: how many processes have started the call.
        unreleased: a result that was made and not delivered, because its batch delivers in order.
        is_planned: its checkpoint is from before its permission, so that it can be resumed only before it starts.
        may_finish: closing the runtime does not cancel it at once, because it was answered, or was recovered from
            another process.
    """

    has_checkpoint: bool = False
    is_parked: bool = False
    is_remote: bool = False
    attempts: int = 1
    unreleased: CallEnded | None = None
    is_planned: bool = False
    may_finish: bool = False


class Votes(Part, frozen=True):
    """The votes on the permission of one call, besides those of the rules; `allowed_until` ends the permission."""

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

    __slots__ = ("_cap_at", "_deadline", "_deadlines", "_expire", "_limit", "_pauses")

    def __init__(self, deadlines: Deadlines, expire: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self._expire = expire
        self._cap_at: float | None = None
        self._deadline: Deadline | None = None
        self._limit: TimeLimit | None = None
        self._pauses = 0

    @property
    def left(self) -> float | None:
        """The seconds until the total timeout; none before it started."""
        return None if self._cap_at is None else self._cap_at - self._deadlines.now()

    def start(self, cap: float | None, idle: float | None) -> None:
        """Start both timeouts; the total one continues if it was started before."""
        if cap is not None and self._cap_at is None:
            self._cap_at = self._deadlines.now() + cap
        if idle is not None or (self._pauses and cap is not None):
            self._limit = TimeLimit(self._deadlines, self._expire, cap=self.left, idle=idle)
            if self._pauses:
                self._limit.pause()
        elif self._cap_at is not None:
            self._deadline = self._deadlines.arm(self._cap_at, self._ring)

    def stop(self) -> None:
        """Cancel the timeouts, because the tool has ended."""
        if self._deadline is not None:
            self._deadlines.cancel(self._deadline)
        elif self._limit is not None:
            self._limit.end()

    def progress(self) -> None:
        """Restart the idle timeout."""
        if self._limit is not None:
            self._limit.progress()

    def pause(self) -> None:
        """Suspend the timeouts."""
        self._pauses += 1
        if self._pauses > 1:
            return
        if self._deadline is not None:  # a bare deadline cannot be paused
            self._deadlines.cancel(self._deadline)
            self._deadline = None
            self._limit = TimeLimit(self._deadlines, self._expire, cap=self.left)
        if self._limit is not None:
            self._limit.pause()

    def resume(self) -> None:
        """Continue the timeouts, once every pause has ended."""
        self._pauses -= 1
        if not self._pauses and self._limit is not None:
            self._limit.resume()
            self._cap_at = None if self._cap_at is None else self._limit.cap_at

    def _ring(self) -> None:
        self._expire()
