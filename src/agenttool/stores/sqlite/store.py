"""The file as a whole: opened by its path, used as a log and as the calls under way, copied while it is used."""

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from agenttool.ports.facts import Step
from agenttool.ports.stores import LeaseLost
from agenttool.stores.sqlite.backup import copy
from agenttool.stores.sqlite.connect import Durability, connect, create
from agenttool.stores.sqlite.log import SqliteLog
from agenttool.stores.sqlite.open_calls import SqliteOpenCalls
from agenttool.stores.sqlite.shelf import SqliteDocuments
from agenttool.stores.sqlite.writer import Writer


class SqliteStore:
    """One file. Belongs to one event loop; other loops and processes open the same file for themselves."""

    def __init__(self, path: Path, steps: Mapping[str, Step], durability: Durability, owner: str) -> None:
        """Join the parts around a file that is there; `open` is the door."""
        self.path = path
        self._reader = connect(path)
        writer = Writer(path, durability, owner)
        self.log = SqliteLog(path, self._reader, writer, steps)
        self.open_calls = SqliteOpenCalls(path, self._reader, writer, self.log.group, steps)
        self.shelf = SqliteDocuments(path, self._reader, self.log.group)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        steps: Mapping[str, Step],
        durability: Durability = Durability.FULL,
        owner: str | None = None,
    ) -> Self:
        """Open the file, or make it; an older schema is brought up to date first.

        Args:
            path: the file; beside it two more appear while it is in use.
            steps: every step by its name, to read facts back.
            durability: what it means that something is kept.
            owner: the name of this process among those that hold calls; a fresh one if it is not given.

        Raises:
            ConfigError: the file is not one that we can use; it is left as it was.
        """
        path = Path(path).absolute()
        create(path)
        return cls(path, steps, durability, owner or secrets.token_hex(8))

    async def backup(self, target: str | Path) -> None:
        """Copy everything that is kept into another file, while this one is used.

        Raises:
            StoreError: the target is there already, or a disk failed; no target is left behind.
        """
        await asyncio.to_thread(copy, self.path, Path(target))

    async def close(self) -> None:
        """Write what is left and close the file; calls that are still held may be claimed by others at once.

        Raises:
            StoreError: what was left could not be written.
        """
        try:
            await self.open_calls.release_lease()
        except LeaseLost:  # its calls are others' already, and only what is about none is left to write
            self.open_calls.replace_owner()
            await self.open_calls.release_lease()
        finally:
            try:
                await self.log.group.close()
            finally:
                self._reader.close()
