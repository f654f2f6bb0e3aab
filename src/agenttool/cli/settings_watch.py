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
"""How often the files are checked. A change applies once a file is the same twice: it may be half written."""

log = logging.getLogger("agenttool.settings")

_Versions = tuple[tuple[int, int, int] | None, ...]


class SettingsWatch:
    """Loads the settings files again when they change.

    Attributes:
        state: whether the files are in force.
    """

    def __init__(self, config: str | Path | None) -> None:
        """Take the settings as `load_config` does; create this before they are loaded, so that no change is missed."""
        self.state = SettingsState()
        self._config = config
        self._loaded = self._versions()
        self._asked = asyncio.Event()

    async def run(self, apply: Callable[[Config], Awaitable[tuple[str, ...]]]) -> None:
        """Apply changes until this is canceled; `apply` returns the settings that need a restart."""
        loop, seen = asyncio.get_running_loop(), self._loaded
        loop.add_signal_handler(signal.SIGHUP, self._asked.set)
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._asked.wait()
                is_asked, before, seen = self._asked.is_set(), seen, self._versions()
                self._asked.clear()
                if is_asked or (seen == before and seen != self._loaded):
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
    """Return what changes with the content of a file; None if there is no such file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
