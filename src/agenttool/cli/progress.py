"""A bar for long work: on the error stream, if that is a terminal, and if it takes more than a moment."""

from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

A_MOMENT = 0.7


class ByteBar:
    """How much was read of how much, if that is known. Use it as a context."""

    def __init__(self, total: int | None) -> None:
        """Draw nothing yet."""
        self._console = Console(stderr=True)
        self._progress = Progress(
            BarColumn(bar_width=None),
            *self._columns(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=5,
        )
        self._task = self._progress.add_task("", total=total)
        self._wakes_at = monotonic() + A_MOMENT
        self._is_drawn = False

    def _columns(self) -> tuple[ProgressColumn, ...]:
        return DownloadColumn(), TransferSpeedColumn()

    def __enter__(self) -> Self:
        """Wait for a moment to pass."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing behind."""
        self.hide()

    def advance(self, size: int) -> None:
        """Count bytes, and draw once it has taken long enough."""
        self._progress.advance(self._task, size)
        if not self._is_drawn and self._console.is_terminal and monotonic() >= self._wakes_at:
            self._is_drawn = True
            self._progress.start()

    def hide(self) -> None:
        """Take the bar away while something else is printed; it comes back by itself."""
        if self._is_drawn:
            self._is_drawn = False
            self._wakes_at = monotonic() + A_MOMENT
            self._progress.stop()


class CountBar(ByteBar):
    """The same for things that are counted one by one; it is drawn anew after so many of them."""

    EVERY = 1000

    def __init__(self, total: int | None) -> None:
        """Draw nothing yet."""
        super().__init__(total)
        self._uncounted = 0

    def _columns(self) -> tuple[ProgressColumn, ...]:
        return (MofNCompleteColumn(),)

    def advance(self, size: int = 1) -> None:
        """Count, and pass it on now and then: a bar costs more than what it counts."""
        self._uncounted += size
        if self._uncounted >= self.EVERY:
            super().advance(self._uncounted)
            self._uncounted = 0
