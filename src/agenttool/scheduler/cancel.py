"""The four facts of a cancellation, kept apart: asked for, acknowledged, why, and how it ended."""

from collections.abc import Callable
from enum import StrEnum
from threading import Event, Lock

from agenttool.records import AbortReason, Cancellation, CancellationOutcome, InterruptBehavior, Timestamp

UNSUPPORTED = "the tool does not support cancellation: it goes on, and its result will be true"

_making_events = Lock()
"""Held while an event is made or set; events are made on workers' threads, and seldom."""


class CancelAnswer(StrEnum):
    """What a request is told at once; what came of it is told at the end."""

    ACCEPTED = "accepted"
    UNSUPPORTED = "unsupported"
    ALREADY_ASKED = "already_asked"
    TOO_LATE = "too_late"


def stops_on_interrupt(tool: InterruptBehavior | None, policy: InterruptBehavior | None = None) -> bool:
    """Tell whether interrupting a turn cancels a call: if the tool says so and the policy does not object.

    Otherwise the call goes on and the next turn waits for it (AT-IFACE-24).
    """
    return tool == InterruptBehavior.CANCEL and policy != InterruptBehavior.BLOCK


class CancelScope:
    """The cancellation of one call, and of the calls that it makes.

    Requests are made on the event loop's thread. `is_requested`, `reason` and `wait` may be used on any thread, so that
    a tool in a worker can look out for a request.
    """

    def __init__(self, parent: "CancelScope | None" = None) -> None:
        """Take the scope of the call that made this one; if that one is stopping, so is this."""
        self.reason: AbortReason | None = None
        self.children: dict[CancelScope, None] = {}
        self._parent = parent
        self._requested: Timestamp | None = None
        self._acknowledged: Timestamp | None = None
        self._outcome: CancellationOutcome | None = None
        self._message: str | None = None
        self._is_stopping = False
        self._is_over = False
        self._supported = True
        self._stop: Callable[[], None] | None = None
        self._event: Event | None = None
        if parent is not None:
            parent.children[self] = None
            asked = parent.record
            if parent.is_stopping and asked is not None and asked.abort_reason and asked.cancel_requested:
                self.request(asked.abort_reason, asked.cancel_requested)

    @property
    def is_requested(self) -> bool:
        """Tell whether somebody asked for this call to stop."""
        return self._requested is not None

    @property
    def is_stopping(self) -> bool:
        """Tell whether a request was accepted, so that the call is on its way to an end."""
        return self._is_stopping

    @property
    def record(self) -> Cancellation | None:
        """Give the facts as they stand; nothing if nobody asked."""
        if self._requested is None:
            return None
        return Cancellation(
            cancel_requested=self._requested,
            cancel_acknowledged=self._acknowledged,
            abort_reason=self.reason,
            outcome=self._outcome,
            message=self._message,
        )

    def bind(self, stop: Callable[[], None], *, supports_cancel: bool | None = True) -> None:
        """Say what stops the call from now on, and whether it can be stopped at all; silence means no.

        A request that came before is obeyed now: until its tool runs, every call can be canceled.
        """
        self._stop = stop
        self._supported = supports_cancel is True
        if self._is_stopping:
            stop()

    def request(self, reason: AbortReason, at: Timestamp) -> CancelAnswer:
        """Ask for the call to stop, and with it every call that it made. The first request is the one on record.

        Where cancellation is unsupported the request is still a fact (AT-PROG-10), and nothing else happens.
        """
        if self._is_over:
            return CancelAnswer.TOO_LATE
        if self._requested is not None:
            return CancelAnswer.ALREADY_ASKED
        with _making_events:
            self.reason = reason
            self._requested = at
            if self._event is not None:
                self._event.set()
        if not self._supported:
            self._message = UNSUPPORTED
            return CancelAnswer.UNSUPPORTED
        self._is_stopping = True
        self.request_children(reason, at)
        if self._stop is not None:
            self._stop()
        return CancelAnswer.ACCEPTED

    def request_children(self, reason: AbortReason, at: Timestamp) -> None:
        """Ask only the calls that this one made to stop, as when it is itself left behind."""
        for child in tuple(self.children):
            child.request(reason, at)

    def acknowledge(self, at: Timestamp) -> None:
        """Take the tool's word that it heard; without a request there is nothing to hear."""
        if self._requested is not None and self._acknowledged is None:
            self._acknowledged = at

    def end(self, *, canceled: bool) -> Cancellation | None:
        """Close the scope with the call's true end; whoever asked and did not get it is told `cancel_failed`."""
        self._is_over = True
        self._stop = None
        if self._requested is not None:
            self._outcome = CancellationOutcome.CANCELED if canceled else CancellationOutcome.CANCEL_FAILED
        if self._parent is not None:
            self._parent.children.pop(self, None)
        return self.record

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker's thread until somebody asks, and tell whether somebody did."""
        with _making_events:
            if self._event is None:
                self._event = Event()
                if self._requested is not None:
                    self._event.set()
        return self._event.wait(timeout)
