"""Progress bars on the standard error, for work that takes longer than a moment, and only on a terminal."""

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

DELAY_S = 0.7
"""A bar appears after this time."""


class ByteBar:
    """A progress bar for bytes. Use it as a context."""

    def __init__(self, total: int | None) -> None:
        """Draw nothing yet; `total` is none if it is not known."""
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
        self._visible_at = monotonic() + DELAY_S
        self._is_visible = False

    def _columns(self) -> tuple[ProgressColumn, ...]:
        return DownloadColumn(), TransferSpeedColumn()

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        self.hide()

    def advance(self, size: int) -> None:
        """Count bytes, and show the bar once the delay has passed."""
        self._progress.advance(self._task, size)
        if not self._is_visible and self._console.is_terminal and monotonic() >= self._visible_at:
            self._is_visible = True
            self._progress.start()

    def hide(self) -> None:
        """Remove the bar while something else is printed; `advance` shows it again."""
        if self._is_visible:
            self._is_visible = False
            self._visible_at = monotonic() + DELAY_S
            self._progress.stop()


class CountBar(ByteBar):
    """A progress bar for single items; it is updated once for every `BATCH` of them."""

    BATCH = 1000

    def __init__(self, total: int | None) -> None:
        """Draw nothing yet."""
        super().__init__(total)
        self._pending = 0

    def _columns(self) -> tuple[ProgressColumn, ...]:
        return (MofNCompleteColumn(),)

    def advance(self, size: int = 1) -> None:
        """Count items; updating the bar costs more than most items do."""
        self._pending += size
        if self._pending >= self.BATCH:
            super().advance(self._pending)
            self._pending = 0
