"""Decide whether and when to retry a call of a tool that supports retries, never past the deadline."""

from collections.abc import Callable
from typing import NamedTuple

from agenttool.records import ErrorClass, Recoverability, ToolError

TRANSIENT = frozenset({ErrorClass.RATE_LIMITED, ErrorClass.DEPENDENCY_UNAVAILABLE, ErrorClass.TIMEOUT})
"""Transient errors; a failure of the tool itself is one only if the error is marked as retryable."""


class RetryPolicy(NamedTuple):
    """The number of attempts and the backoff: waits double from `first_wait` to `longest_wait`, in seconds."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 30.0


def next_attempt(
    error: ToolError, number: int, *, seconds_left: float | None, policy: RetryPolicy, random: Callable[[], float]
) -> float | None:
    """Return the seconds to wait before the next attempt; None if there is none.

    The wait is random between 0 and the backoff, so that callers do not retry at the same time. It is never shorter
    than the error's `retry_after`.

    Args:
        error: the error of the attempt that failed.
        number: the number of that attempt, from 1.
        seconds_left: the time until the call's deadline; None if it has none.
        policy: the number of attempts and the backoff.
        random: returns numbers from 0 up to 1.
    """
    if not _is_retryable(error) or number >= policy.attempts:
        return None
    backoff = min(policy.longest_wait, policy.first_wait * 2.0 ** (number - 1))
    asked = error.retry_after if isinstance(error.retry_after, float | int) else 0.0
    wait = max(random() * backoff, asked)
    return wait if seconds_left is None or wait < seconds_left else None


def _is_retryable(error: ToolError) -> bool:
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
    is_marked = error.error_class == ErrorClass.EXECUTION_FAILED and error.recoverability == Recoverability.RETRYABLE
    return is_marked or error.error_class in TRANSIENT
