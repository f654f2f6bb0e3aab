"""Payloads as objects named by their digest, in a folder by default, in an object store by its URL.

The library is asked in threads of our own. Its way for event loops answers from threads that nobody can wait for: a
process that ends soon after an answer came is torn down under them, and dies by a signal though all went well.
"""

import asyncio
import hashlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from agenttool.errors import ConfigError, StoreError
from agenttool.records import Digest
from agenttool.stores.files.staged import sweep_staged

PIECE = 1 << 20
"""How many bytes a stream gives at a time, about."""

REFRESH_S = 24 * 3600
"""Bytes that are put again are as good as new for retention, to within a day."""

_DIGEST = re.compile(r"sha256:([0-9a-f]{2})([0-9a-f]{62})")


class ObjectPayloads:
    """Bytes by their digest. Written once under their name, whole or not at all; in a folder they are on disk, too."""

    def __init__(self, store: ObjectStore, *, folder: Path | None = None) -> None:
        """Take an object store, and the folder it stands for if it is one."""
        self._store = store
        self._folder = folder

    @classmethod
    def open(cls, place: str | Path) -> Self:
        """Open a folder, made for its owner's eyes only if it is new, or an object store by its URL.

        Credentials of an object store come from where its own tools look for them.

        Raises:
            ConfigError: there is no such place, or no way to get there.
        """
        try:
            folder = _folder(place)
            if folder is None:
                return cls(from_url(str(place)))
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return cls(LocalStore(folder), folder=folder)
        except (BaseError, OSError, ValueError) as error:
            words = f"cannot keep payloads in {str(place)!r}: {_first_line(error)}; name a folder or a URL"
            raise ConfigError(words) from error

    async def put(self, data: bytes, digest: Digest) -> str:
        """Keep bytes under their digest."""
        path = _path(digest)
        if path is None:
            raise StoreError(f"a payload is named by its sha256, got {digest!r}; take the digest of its bytes")
        with _keeping(digest):
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
        """Tell whether bytes under that name are the ones, and young enough that retention leaves them alone.

        A power cut may have left a part of them, and whoever can write the folder anything.
        """
        try:
            found = self._store.get(path)
        except FileNotFoundError:  # retention was quicker
            return False
        if time.time() - found.meta["last_modified"].timestamp() > REFRESH_S:
            return False
        running = hashlib.sha256()
        for piece in found.stream(min_chunk_size=PIECE):
            running.update(piece)
        return digest == f"sha256:{running.hexdigest()}"

    async def put_stream(self, chunks: AsyncIterable[bytes]) -> tuple[Digest, int]:
        """Keep bytes as they come: under a passing name first, because the last byte decides the digest."""
        running, size = hashlib.sha256(), 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                running.update(chunk)
                size += len(chunk)
                yield chunk

        incoming = f"incoming/{secrets.token_hex(16)}"
        with _keeping(incoming):
            # Only this takes what comes in time; by the end of what follows, the library's threads are done with it.
            await self._store.put_async(incoming, counted())
            digest = Digest(f"sha256:{running.hexdigest()}")
            await asyncio.to_thread(self._name, incoming, _path(digest) or incoming)
        return digest, size

    def _name(self, incoming: str, path: str) -> None:
        self._store.rename(incoming, path)
        self._sync(path)

    async def get(self, digest: Digest, *, start: int = 0, length: int | None = None) -> bytes | None:
        """Give bytes, checked against their digest, or a range of them."""
        path = _path(digest)
        if path is None:
            return None
        try:
            with _failing(digest):
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
        """Give bytes piece by piece, each one behind, so that the last can wait for the check."""
        running, held = hashlib.sha256(), b""
        path = _path(digest)
        try:
            with _failing(digest):
                if path is None:
                    raise FileNotFoundError  # noqa: TRY301 -- a name that cannot be is a payload that is not
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
        """Let go of bytes that nobody has put since a moment, and of what was on its way a day ago and is so still."""
        before = datetime.fromtimestamp(before_ns / 1e9, UTC)
        with _failing("the old ones"):
            # What a process left that died while bytes came is nobody's; one that lives may still be writing.
            left_s = time.time() - REFRESH_S
            await self._let_go("incoming", datetime.fromtimestamp(left_s, UTC))
            if self._folder is not None:
                await asyncio.to_thread(sweep_staged, self._folder, left_s)
            return await self._let_go("sha256", before)

    async def _let_go(self, prefix: str, before: datetime) -> int:
        count = 0
        pages = self._store.list(prefix=prefix)  # pyright: ignore[reportUnknownMemberType] -- the library's other form needs a library we do not have
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            old = [meta["path"] for meta in page if meta["last_modified"] < before]
            count += await asyncio.to_thread(self._delete, old, before)
        return count

    def _delete(self, old: list[str], before: datetime) -> int:
        if self._folder is not None:  # asking again costs little, and somebody may have put them since
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
        """Wait until a file and its name are on disk; an object store says so by itself."""
        if self._folder is not None:
            _sync_file(self._folder, path)


def _folder(place: str | Path) -> Path | None:
    """Give the folder that a place is, also one that is spelled as a URL; none if it is an object store's."""
    if isinstance(place, str) and place.startswith("file://"):
        return Path(url2pathname(urlsplit(place).path))
    return None if isinstance(place, str) and "://" in place else Path(place).absolute()


def _path(digest: Digest) -> str | None:
    found = _DIGEST.fullmatch(digest)
    return None if found is None else f"sha256/{found[1]}/{found[2]}"


def _sync_file(folder: Path, path: str) -> None:
    file = folder / path
    for place in (file, file.parent, file.parent.parent, folder):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _checked(digest: Digest, found: str, last: bytes) -> bytes:
    if digest != f"sha256:{found}":
        raise StoreError(f"the payload {digest!r} was changed: its bytes are sha256:{found}; do not use them")
    return last


@contextmanager
def _failing(what: str) -> Generator[None]:
    """Turn the library's errors into ours; that something is not there is no error."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        raise _failure(what, error) from error


@contextmanager
def _keeping(what: str) -> Generator[None]:
    """Turn the library's errors into ours; here it is one that something is not there, such as the place itself."""
    try:
        with _failing(what):
            yield
    except FileNotFoundError as error:
        raise _failure(what, error) from error


def _failure(what: str, error: Exception) -> StoreError:
    return StoreError(f"cannot keep or read the payload {what!r}: {_first_line(error)}; look at the store of payloads")


def _first_line(error: Exception) -> str:
    """Give what the library says, without what it adds for its own authors."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
