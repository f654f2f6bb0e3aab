"""A progress bar on the standard error, for work that takes longer than a moment, and only on a terminal."""

from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

DELAY_S = 0.7
"""The bar appears after this time."""

UPDATE_S = 0.1
"""The bar is updated this often: an update costs more than most items of work do."""


class WorkBar(AbstractContextManager["WorkBar"]):
    """A progress bar for items, or for bytes. Use it as a context."""

    def __init__(self, total: int | None, *, in_bytes: bool = False) -> None:
        """Draw nothing yet; `total` is none if it is not known."""
        columns = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
        console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(bar_width=None),
            *columns,
            TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)
        self._pending = 0
        self._update_at = monotonic() + DELAY_S

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def advance(self, count: int = 1) -> None:
        """Count items, and show the bar once the delay has passed."""
        self._pending += count
        if (now := monotonic()) >= self._update_at:
            self._bar.advance(self._task, self._pending)
            self._bar.start()
            self._pending, self._update_at = 0, now + UPDATE_S

    def hide(self) -> None:
        """Remove the bar while something else is printed; `advance` shows it again after the delay."""
        if self._bar.live.is_started:
            self._bar.stop()
            self._update_at = monotonic() + DELAY_S
