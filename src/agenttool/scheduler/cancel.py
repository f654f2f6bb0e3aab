"""How a request to stop reaches a tool, and whether an interruption is one."""

from threading import Event, Lock

from agenttool.records import InterruptBehavior

UNSUPPORTED = "the tool does not support cancellation: it goes on, and its result will be true"
TOO_LATE = "the tool had already ended: its result stands"

_making_events = Lock()
"""Held while an event is made or set; events are made on workers' threads, and seldom."""


def stops_on_interrupt(tool: InterruptBehavior | None, policy: InterruptBehavior | None = None) -> bool:
    """Tell whether interrupting a turn cancels a call: if the tool says so and the policy does not object.

    Otherwise the call goes on and the next turn waits for it (AT-IFACE-24).
    """
    return tool == InterruptBehavior.CANCEL and policy != InterruptBehavior.BLOCK


class StopSignal:
    """What a worker's thread can wait for; given on the event loop's thread, once."""

    __slots__ = ("_event", "is_given")

    def __init__(self) -> None:
        """Begin without a request."""
        self.is_given = False
        self._event: Event | None = None

    def give(self) -> None:
        """Wake whoever waits."""
        with _making_events:
            self.is_given = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker's thread until the signal is given, and tell whether it was."""
        with _making_events:
            if self._event is None:
                self._event = Event()
                if self.is_given:
                    self._event.set()
        return self._event.wait(timeout)
