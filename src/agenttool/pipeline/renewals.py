"""Surfaces under which something changed by itself: each is made anew soon, once for all that happened meanwhile."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from agenttool.catalog.surface import Surface

MOST_TOLD = 5
"""So many causes are told where a surface says why it was made."""


class Renewals:
    """Surfaces that wait to be made anew, one after the other between other work; who asks for one has it at once."""

    def __init__(self, loop: AbstractEventLoop, renew: Callable[[Surface, str], None]) -> None:
        """Take when there is time, and how a surface is made anew."""
        self._loop = loop
        self._renew = renew
        self._causes: dict[Surface, dict[str, None]] = {}

    def mark(self, surface: Surface, cause: str) -> None:
        """Let a surface be made anew."""
        if not self._causes:
            self._loop.call_soon(self._go_on)
        self._causes.setdefault(surface, {})[cause] = None

    def settle(self, surface: Surface) -> None:
        """Make a surface anew now, if it is one of those and nothing else has taken its place."""
        causes = [*self._causes.pop(surface, ())]
        if causes and surface.newer is None:
            more = f" and {len(causes) - MOST_TOLD} more" if len(causes) > MOST_TOLD else ""
            self._renew(surface, f"{', '.join(causes[:MOST_TOLD])}{more}")

    def _go_on(self) -> None:
        if self._causes:
            self.settle(next(iter(self._causes)))
        if self._causes:
            self._loop.call_soon(self._go_on)
