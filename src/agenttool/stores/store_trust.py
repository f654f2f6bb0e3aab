"""Trust in a store that a command finds by its name: a process of this user created it, or the user agreed to it.

A store can hold approved calls, remembered rules and keys, so one that came with a cloned project must not be used
unasked. Every store has a random first hash. Its digest is recorded with the path of the file, as for settings files.
"""

import hashlib
import logging
from contextlib import closing
from pathlib import Path

from agenttool.config.trust import is_trusted, trust_file
from agenttool.errors import ConfigError
from agenttool.stores.sqlite.connect import UNREADABLE, open_read_only

STORE_FILE = "agenttool.db"
"""The file of the store if neither options nor settings name one."""

_PREFIX = "store:"
log = logging.getLogger("agenttool.store")


def found_stores(folder: Path) -> list[Path]:
    """Return the stores in a folder that are found by their names: the default one, and those of its tenants."""
    tenants = sorted(each for each in folder.glob("agenttool.*.db") if each.is_file())
    default = folder / STORE_FILE
    return [*([default] if default.is_file() else ()), *tenants]


def store_digest(file: Path) -> str | None:
    """Return the digest that identifies a store; none if there is none yet, or if it cannot be read."""
    try:
        if not file.stat().st_size:
            return None
        with closing(open_read_only(file)) as connection:
            found = connection.execute("SELECT CAST(hash AS BLOB) FROM anchors WHERE position = 0").fetchone()
    except (OSError, *UNREADABLE):
        return None
    return found and _digest(found[0])


def _digest(first_hash: bytes) -> str:
    return f"{_PREFIX}{hashlib.sha256(first_hash).hexdigest()}"


def is_store_digest(digest: str) -> bool:
    """Return whether a record of trust is about a store."""
    return digest.startswith(_PREFIX)


def is_store_trusted(file: Path) -> bool:
    """Return whether this user created the store in a file, or agreed to it; an empty file is a new store."""
    if _is_empty(file):
        return True
    digest = store_digest(file)
    return digest is not None and is_trusted(file, digest)


def _is_empty(file: Path) -> bool:
    """Return whether a file holds nothing yet: another process may be creating it."""
    if not file.exists() or not file.stat().st_size:
        return True
    try:
        with closing(open_read_only(file)) as connection:
            return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except (OSError, *UNREADABLE):
        return False


def record_created_store(file: Path, first_hash: bytes) -> None:
    """Record that this user creates a store, if it can be found by its name; a failure is logged."""
    if file not in found_stores(file.parent):
        return
    try:
        trust_file(file, _digest(first_hash))
    except ConfigError as error:
        log.warning("%s", error)
