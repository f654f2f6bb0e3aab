"""Decide whether and when to retry: only tools that declare it, and never past the deadline."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agenttool.records import ErrorClass, ExecutionProfile, Recoverability, ToolError

_TRANSIENT = frozenset({ErrorClass.RATE_LIMITED, ErrorClass.DEPENDENCY_UNAVAILABLE, ErrorClass.TIMEOUT})
"""Transient errors; a failure of the tool itself is one only if the error is marked as retryable."""


class RetryRefusal(StrEnum):
    """Why there is no further attempt."""

    NOT_DECLARED = "not_declared"
    NOT_RETRYABLE = "not_retryable"
    EFFECTS_POSSIBLE = "effects_possible"
    NO_ATTEMPTS_LEFT = "no_attempts_left"
    NO_TIME_LEFT = "no_time_left"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of attempts and the backoff: waits double from `first_wait` to `longest_wait`, in seconds."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt that failed.

    Attributes:
        number: counted from 1.
        effects_possible: the tool may have had effects; false only if it is known that it never started.
        seconds_left: until the call's deadline.
    """

    number: int
    effects_possible: bool
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatability:
    """The retry declarations of one tool."""

    supports_retries: bool
    idempotent: bool


def repeatability_of(profile: ExecutionProfile, *, idempotent: bool | None) -> Repeatability:
    """Return the declarations of a tool; an undeclared value is false."""
    return Repeatability(supports_retries=profile.supports_retries is True, idempotent=idempotent is True)


def next_attempt(
    error: ToolError, attempt: Attempt, *, tool: Repeatability, policy: RetryPolicy, random: Callable[[], float]
) -> float | RetryRefusal:
    """Return the seconds to wait before the next attempt, or why there is none.

    The wait is random between 0 and the backoff, so that callers do not retry at the same time. It is never shorter
    than the error's `retry_after`. `random` returns numbers from 0 up to 1.
    """
    if not tool.supports_retries:
        return RetryRefusal.NOT_DECLARED
    if not is_retryable(error):
        return RetryRefusal.NOT_RETRYABLE
    if attempt.effects_possible and not tool.idempotent:
        return RetryRefusal.EFFECTS_POSSIBLE
    if attempt.number >= policy.attempts:
        return RetryRefusal.NO_ATTEMPTS_LEFT
    backoff = min(policy.longest_wait, policy.first_wait * 2.0 ** (attempt.number - 1))
    wait = max(random() * backoff, _retry_after(error))
    return RetryRefusal.NO_TIME_LEFT if attempt.seconds_left is not None and wait >= attempt.seconds_left else wait


def is_retryable(error: ToolError) -> bool:
    """Return whether the same call may succeed later, without any other action before."""
    guidance = error.retry
    if guidance is not None and (
        guidance.safe is False
        or guidance.arguments_must_change
        or guidance.discovery_required
        or guidance.approval_required
    ):
        return False
    if error.recoverability is not None and error.recoverability != Recoverability.RETRYABLE:
        return False
    said_so = error.error_class == ErrorClass.EXECUTION_FAILED and error.recoverability == Recoverability.RETRYABLE
    return said_so or error.error_class in _TRANSIENT


def _retry_after(error: ToolError) -> float:
    return error.retry_after if isinstance(error.retry_after, float | int) else 0.0
