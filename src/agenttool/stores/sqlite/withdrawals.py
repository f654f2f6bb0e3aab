"""Documents that were withdrawn for good, such as revoked keys, in a file beside the store.

A restored copy of the store may be older than a withdrawal. It does not replace this file, so withdrawn documents stay
withdrawn.
"""

import errno
import logging
import os
from hashlib import sha256
from pathlib import Path

import msgspec

from agenttool.errors import StoreError
from agenttool.stores.sqlite.connect import sync_folder

SUFFIX = "-withdrawn"

log = logging.getLogger("agenttool.store")

_Line = tuple[str, str, str | None]
"""The kind and the key of a document, and the digest of its last body; none if it was deleted."""

_encode, _read = msgspec.json.encode, msgspec.json.Decoder(_Line).decode


class Withdrawals:
    """The withdrawn documents of a store, read once: while the store is open, its own documents are current."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + SUFFIX)
        self._last: dict[tuple[str, str], str | None] = {}
        for line in filter(None, self._path.read_bytes().splitlines() if self._path.exists() else ()):
            try:
                kind, key, digest = _read(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                # A crash cut it, before the withdrawal was confirmed; or the file is damaged.
                log.warning("%s has a line that is not valid; check which keys are revoked", self._path)
                continue
            self._last[kind, key] = digest

    def hides(self, kind: str, key: str, body: bytes) -> bool:
        """Return whether a document is older than its withdrawal."""
        place = kind, key
        return place in self._last and self._last[place] != _digest(body)

    def add(self, kind: str, key: str, last: bytes | None) -> None:
        """Record that a document was withdrawn, and its last body, such as a key that is listed as revoked.

        Raises:
            StoreError: it could not be written.
        """
        digest = self._last[kind, key] = None if last is None else _digest(last)
        try:
            is_new = not self._path.exists()
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                line = b"\n%s\n" % _encode((kind, key, digest))  # a new line, also after one that a crash cut
                if os.write(file, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file)
            finally:
                os.close(file)
            if is_new:
                sync_folder(self._path)
        except OSError as error:
            raise StoreError(
                f"it was withdrawn, but an older copy of the store would bring it back: cannot write"
                f" {str(self._path)!r}: {error.strerror}; free or repair the disk, and replace all copies"
            ) from error


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()
