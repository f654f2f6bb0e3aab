"""Apply changed settings files to a running server: soon after a file changes, and on SIGHUP."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from agenttool.config import Config, files_of, load_config
from agenttool.errors import ConfigError, StoreError
from agenttool.server.state import SettingsState

POLL_S = 0.5
"""How often the files are checked. A change applies once two checks agree, because a file may be half written."""

log = logging.getLogger("agenttool.settings")

_Versions = tuple[tuple[int, int, int] | None, ...]


class SettingsWatch:
    """Loads the settings files again when they change."""

    def __init__(self, config: str | Path | None) -> None:
        """Take the argument of `load_config`; create this before the first load, so that no change is missed."""
        self.state = SettingsState()
        self._config = config
        self._loaded = self._versions()
        self._requested = asyncio.Event()

    async def run(self, apply: Callable[[Config], Awaitable[tuple[str, ...]]]) -> None:
        """Apply changes until this is canceled; `apply` returns the settings that need a restart."""
        loop, seen = asyncio.get_running_loop(), self._loaded
        loop.add_signal_handler(signal.SIGHUP, self._requested.set)
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._requested.wait()
                is_requested, before, seen = self._requested.is_set(), seen, self._versions()
                self._requested.clear()
                if is_requested or (seen == before and seen != self._loaded):
                    self._loaded = seen
                    await self._reload(apply)
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def _reload(self, apply: Callable[[Config], Awaitable[tuple[str, ...]]]) -> None:
        was_wrong = self.state.fault is not None
        try:
            self.state.needs_restart = await apply(await asyncio.to_thread(load_config, self._config))
            self.state.fault = None
        except (ConfigError, StoreError) as error:
            self.state.fault = str(error)
        except Exception as error:
            # A source of another package may raise anything; the server continues with what it has.
            log.exception("the settings cannot be applied")
            self.state.fault = f"{type(error).__name__}; the log of the server has the details"
        log.log(
            logging.ERROR if self.state.fault else logging.WARNING if self.state.notice or was_wrong else logging.INFO,
            "%s",
            self.state.notice or "the changed settings are in force",
        )

    def _versions(self) -> _Versions:
        return tuple(_version(each) for each in files_of(self._config))


def _version(file: Path) -> tuple[int, int, int] | None:
    """Return the time, size and inode of a file; None if there is no such file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
