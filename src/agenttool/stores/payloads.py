"""Payloads as objects named by their digest, in a folder or in an object store with a URL.

The library is called in threads of this module. Its async functions return from threads that cannot be joined: a
process that exits soon afterwards may be killed by a signal.
"""

import asyncio
import hashlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from agenttool.errors import ConfigError, StoreError
from agenttool.ports.stores import JournalFlaw, PayloadStore
from agenttool.records import Digest, Record, ResultPersistence

PIECE = 1 << 20
"""About how many bytes a stream yields at a time."""

REFRESH_S = 24 * 3600
"""Storing a payload again restarts its retention period, with a precision of one day."""

_PREFIX = "sha256"
"""The folder, or the prefix, of all payloads."""
_DIGEST = re.compile(r"sha256:([0-9a-f]{2})([0-9a-f]{62})")
_NAME = re.compile(r"[0-9a-f]{62}")
"""The name of a complete payload; files that are still written have other names."""


class ObjectPayloads:
    """Bytes by their digest. Each payload is written atomically, and synced to disk if it is in a folder."""

    def __init__(self, store: ObjectStore, *, folder: Path | None = None) -> None:
        """Take an object store, and its folder if it has one."""
        self._store = store
        self._folder = folder

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """Open a folder or the URL of an object store; the payloads in a folder are readable by its owner only.

        Credentials of an object store come from its default configuration.

        Raises:
            ConfigError: the folder or the URL cannot be used.
        """
        try:
            folder = payload_path(place)
            if folder is None:
                return cls(from_url(str(place)))
            _create_folder(folder)
            return cls(LocalStore(folder), folder=folder)
        except (BaseError, OSError, ValueError) as error:
            message = f"cannot store payloads in {str(place)!r}: {_first_line(error)}; name a folder or a URL"
            raise ConfigError(message) from error

    async def put(self, data: bytes, digest: Digest) -> str:
        """Store bytes under their digest."""
        path = _path(digest)
        if path is None:
            raise StoreError(f"a payload is named by its sha256, got {digest!r}; take the digest of its bytes")
        with _converting_errors(digest, missing_is_error=True):
            await asyncio.to_thread(self._put, path, data, digest)
        return f"payload:{digest}"

    def _put(self, path: str, data: bytes, digest: Digest) -> None:
        try:
            self._store.put(path, data, mode="create")
        except AlreadyExistsError:
            if not self._is_good(path, digest):
                self._store.put(path, data)
        self._sync(path)

    def _is_good(self, path: str, digest: Digest) -> bool:
        """Return whether the stored bytes have this digest and are not due for retention soon.

        A power failure may leave a partial file, and any process with access to the folder may change a file.
        """
        try:
            found = self._store.get(path)
        except FileNotFoundError:  # retention deleted it meanwhile
            return False
        if time.time() - found.meta["last_modified"].timestamp() > REFRESH_S:
            return False
        running = hashlib.sha256()
        for piece in found.stream(min_chunk_size=PIECE):
            running.update(piece)
        return digest == f"sha256:{running.hexdigest()}"

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Return bytes, checked against their digest, or a range of them."""
        path = _path(digest)
        if path is None:
            return None
        try:
            with _converting_errors(digest):
                return await asyncio.to_thread(self._get, path, digest, start, length)
        except FileNotFoundError:
            return None

    def _get(self, path: str, digest: Digest, start: int, length: int | None) -> bytes:
        if start == 0 and length is None:
            whole = self._store.get(path).bytes()
            return _checked(digest, hashlib.sha256(whole).hexdigest(), bytes(whole))
        size = self._store.head(path)["size"]
        end = size if length is None else min(start + length, size)
        return bytes(self._store.get_range(path, start=start, end=end)) if start < end else b""

    async def stream(self, digest: Digest) -> AsyncIterator[bytes]:
        """Yield bytes piece by piece, one piece behind, so that the last follows the check of the digest."""
        running, held = hashlib.sha256(), b""
        path = _path(digest)
        try:
            with _converting_errors(digest):
                if path is None:
                    raise FileNotFoundError  # noqa: TRY301 -- an invalid digest is a missing payload
                pieces = (await asyncio.to_thread(self._store.get, path)).stream(min_chunk_size=PIECE)
                while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                    if held:
                        yield held
                    held = bytes(piece)
                    running.update(held)
        except FileNotFoundError:
            raise StoreError(f"the payload {digest!r} is not there; it may have expired") from None
        yield _checked(digest, running.hexdigest(), held)

    async def expire(self, before_ns: int) -> int:
        """Delete bytes that were not stored again since a time, and unfinished writes older than a day."""
        before, count = datetime.fromtimestamp(before_ns / 1e9, UTC), 0
        with _converting_errors("the old ones"):
            if self._folder is not None:
                await asyncio.to_thread(_delete_staged, self._folder, time.time() - REFRESH_S)
            pages = self._store.list(prefix=_PREFIX)  # pyright: ignore[reportUnknownMemberType] -- the other return type needs an optional library
            while (page := await asyncio.to_thread(next, pages, None)) is not None:
                old = [meta["path"] for meta in page if meta["last_modified"] < before]
                count += await asyncio.to_thread(self._delete, old, before)
        return count

    def _delete(self, old: list[str], before: datetime) -> int:
        if self._folder is not None:  # a process may have stored them again since the listing
            old = [path for path in old if self._is_older(path, before)]
        if old:
            self._store.delete(old)
        return len(old)

    def _is_older(self, path: str, before: datetime) -> bool:
        try:
            return self._store.head(path)["last_modified"] < before
        except FileNotFoundError:
            return False

    def _sync(self, path: str) -> None:
        """Sync a file and its folders to disk; an object store needs no sync."""
        if self._folder is not None:
            file = self._folder / path
            for place in (file, file.parent, file.parent.parent, self._folder):
                _sync_path(place)


def payload_path(place: str | Path) -> Path | None:
    """Return the folder of payloads, given by its path or a `file://` URL; none for the URL of an object store."""
    if isinstance(place, str) and place.startswith("file://"):
        return Path(url2pathname(urlsplit(place).path))
    return None if isinstance(place, str) and "://" in place else Path(place).absolute()


def _create_folder(folder: Path) -> None:
    """Create a folder of payloads that only its owner can read, also if its parent exists and is open to others."""
    inner = folder / _PREFIX
    for each in (folder, inner):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    if inner.stat().st_mode & 0o077:
        with suppress(PermissionError):  # another user owns it, and decides who reads it
            inner.chmod(0o700)


def _path(digest: Digest) -> str | None:
    found = _DIGEST.fullmatch(digest)
    return found and f"{_PREFIX}/{found[1]}/{found[2]}"


def _sync_path(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _delete_staged(folder: Path, before_s: float) -> None:
    """Delete files that processes left when they died while they wrote a payload.

    The library writes a staged file `NAME#1` first and then renames it; its listing omits staged files. Every write
    updates the time of its file, so the files of a running process stay. If a process paused for longer, its `put`
    fails; no acknowledged payload is lost.
    """
    for file in folder.glob("sha256/*/*#*"):
        with suppress(FileNotFoundError):  # it was renamed, or another process deleted it
            if file.name.rpartition("#")[2].isdecimal() and file.lstat().st_mtime < before_s:
                file.unlink()


def copy_folder(source: Path, target: Path) -> int:
    """Copy each payload that is not in the target yet, atomically and synced to disk; return how many.

    Processes may add payloads meanwhile. The bytes under a name never change, so a file that exists is skipped.

    Raises:
        StoreError: a disk failed.
    """
    try:
        _create_folder(target)
        stored = (each for each in source.glob("sha256/*/*") if _NAME.fullmatch(each.name) and not each.is_symlink())
        return sum(_copy(each, target / each.relative_to(source)) for each in stored)
    except OSError as error:
        raise StoreError(f"cannot copy the payloads in {str(source)!r} to {str(target)!r}: {error}") from error


def _copy(source: Path, target: Path) -> bool:
    if target.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.unfinished")
    try:
        shutil.copy2(source, unfinished)  # with its modification time, by which it expires
    except FileNotFoundError:  # retention deleted it meanwhile
        return False
    _sync_path(unfinished)
    unfinished.replace(target)
    _sync_path(target.parent)
    return True


def _checked(digest: Digest, found: str, last: bytes) -> bytes:
    if digest != f"sha256:{found}":
        raise StoreError(f"the payload {digest!r} was changed: its bytes are sha256:{found}; do not use them")
    return last


@contextmanager
def _converting_errors(what: str, *, missing_is_error: bool = False) -> Generator[None]:
    """Convert errors of the library to `StoreError`; a missing object only if a write reports it."""
    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError) and not missing_is_error:
            raise
        message = f"cannot write or read the payload {what!r}: {_first_line(error)}; look at the store of payloads"
        raise StoreError(message) from error


def _first_line(error: Exception) -> str:
    """Return the message of the library, without its debugging details."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def digests_in(records: Iterable[Record]) -> list[Digest]:
    """Return the digests of the payloads that records refer to."""
    refs = [record.persisted_ref for record in records if isinstance(record, ResultPersistence)]
    return [ref.digest for ref in refs if ref is not None and ref.digest is not None]


async def is_there(payloads: PayloadStore, digest: Digest) -> bool:
    """Return whether a payload is stored."""
    return await payloads.get(digest, length=0) is not None


async def flaw_of(payloads: PayloadStore, digest: Digest, position: int) -> JournalFlaw | None:
    """Read a payload to its end, piece by piece; return its flaw, or none."""
    try:
        async for _ in payloads.stream(digest):
            pass
    except StoreError as error:
        return JournalFlaw(position, "payload", digest, str(error))
    return None
