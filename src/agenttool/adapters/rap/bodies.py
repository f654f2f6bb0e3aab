"""How much of long messages is held at a time: whoever sends many of them slowly must not take all the memory."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

SMALL = 1_000_000
"""What is no longer than this is let in whatever else comes in, and so are the first bytes of what is."""

MOST_HELD = 200_000_000
"""So many further bytes are held of all messages that come in, or are dealt with, together."""


class Bodies:
    """The messages that come in, or have come in and are being dealt with."""

    def __init__(self) -> None:
        """Begin with none."""
        self._held = 0

    @contextmanager
    def hold(self) -> Generator[Callable[[int], bool]]:
        """Hold one message; gives what takes its length so far, and tells whether there is room for it."""
        counted = 0

        def has_room(length: int) -> bool:
            nonlocal counted
            further = max(0, length - SMALL)
            self._held += further - counted
            counted = further
            return not further or self._held <= MOST_HELD

        try:
            yield has_room
        finally:
            self._held -= counted
