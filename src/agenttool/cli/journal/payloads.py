"""The bytes that a journal speaks of, read while it is walked."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from agenttool.cli.journal.opening import SETTINGS
from agenttool.config import read_config
from agenttool.ports.stores import Flaw, PayloadStore
from agenttool.records import Digest
from agenttool.stores.files.payloads import ObjectPayloads
from agenttool.stores.payload_check import flaw_of, is_there


def payloads_of(store: str | None, file: Path, given: str | None) -> PayloadStore | None:
    """Open the place of a journal's payloads: the one that is named, set, or beside it; none is made.

    Raises:
        ConfigError: there is no way to get there.
    """
    place = given or _place(store, file)
    return ObjectPayloads.open(place) if "://" in place or Path(place).is_dir() else None


def folder_of(store: str | None, file: Path) -> Path | None:
    """Find the folder of a journal's payloads; none if there is none, or they are in an object store."""
    place = _place(store, file)
    return Path(place) if "://" not in place and Path(place).is_dir() else None


def _place(store: str | None, file: Path) -> str:
    return (_setting() if store is None else None) or str(file.with_name(f"{file.name}-payloads"))


def _setting() -> str | None:
    setting = read_config(SETTINGS).store if Path(SETTINGS).exists() else None
    if setting is None or setting.payloads is None:
        return None
    return setting.payloads if "://" in setting.payloads else str(setting.folder / setting.payloads)


class PayloadWalk:
    """Checks payloads one by one, from code that cannot wait; each of them once.

    Attributes:
        checked: how many were read to their end.
        gone: how many were not there (any more).
    """

    def __init__(self, payloads: PayloadStore | None) -> None:
        """Take the place of the bytes; without one, all of them are gone."""
        self.checked = self.gone = 0
        self._payloads = payloads
        self._seen: set[Digest] = set()
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Be ready."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of what it took to wait."""
        self._runner.close()

    def look(self, position: int, digest: Digest) -> Iterator[Flaw]:
        """Tell what is wrong with a payload; one that has gone is counted, for that may be as it should."""
        if digest in self._seen:
            return
        self._seen.add(digest)
        flaw = self._runner.run(self._read(position, digest))
        if flaw is not None:
            yield flaw

    async def _read(self, position: int, digest: Digest) -> Flaw | None:
        if self._payloads is None or not await is_there(self._payloads, digest):
            self.gone += 1
            return None
        self.checked += 1
        return await flaw_of(self._payloads, digest, position)
