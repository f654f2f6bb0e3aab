"""Surfaces that held tools which were taken back: each is made anew soon, once for all that went meanwhile."""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from agenttool.catalog.surface import Surface

MOST_NAMED = 5
"""So many tools are named where a surface says why it was made."""


class TakenBack:
    """Surfaces that wait to be made anew, one after the other between other work; who asks for one has it at once."""

    def __init__(self, loop: AbstractEventLoop, renew: Callable[[Surface, str], None]) -> None:
        """Take when there is time, and how a surface is made anew."""
        self._loop = loop
        self._renew = renew
        self._gone: dict[Surface, list[str]] = {}

    def mark(self, surface: Surface, name: str) -> None:
        """Let a surface that held a tool be made anew."""
        if not self._gone:
            self._loop.call_soon(self._go_on)
        self._gone.setdefault(surface, []).append(name)

    def settle(self, surface: Surface) -> None:
        """Make a surface anew now, if it is one of those and nothing else has taken its place."""
        names = self._gone.pop(surface, None)
        if names is not None and surface.newer is None:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            self._renew(surface, f"{', '.join(names[:MOST_NAMED])}{more} taken back")

    def _go_on(self) -> None:
        if self._gone:
            self.settle(next(iter(self._gone)))
        if self._gone:
            self._loop.call_soon(self._go_on)
