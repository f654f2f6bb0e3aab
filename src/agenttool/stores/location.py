"""The URL of a store: `memory:`, or `sqlite:PATH`, also spelled as the URL `sqlite:///PATH`."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agenttool.config import StoreSetting
from agenttool.errors import ConfigError
from agenttool.ports.facts import Step
from agenttool.ports.stores import DocumentStore, EventLog, OpenCalls, PayloadStore
from agenttool.stores.memory import MemoryDocuments, MemoryLog, MemoryOpenCalls, MemoryPayloads

_PAYLOADS = "-payloads"
_SIDE_FILES = ("-wal", "-shm", "-journal", "-withdrawn", _PAYLOADS)
"""The endings of the files that belong to a store, beside the store itself."""

_DATABASE = b"SQLite format 3\0"
"""How the file of a store begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    """The stores at one location."""

    log: EventLog
    payloads: PayloadStore
    open_calls: OpenCalls
    documents: DocumentStore
    close: Callable[[], Awaitable[None]] | None = None


def store_path(place: str) -> Path | None:
    """Return the file of a store, which is given by its path or URL; none for memory.

    Raises:
        ConfigError: it is neither.
    """
    kind, colon, path = str(place).partition(":")
    if not colon and kind not in ("", "memory"):
        return Path(kind)
    if kind == "memory" and not path:
        return None
    path = path.removeprefix("///") if path.startswith("///") else path
    if kind == "sqlite" and path and not path.startswith("//"):
        return Path(path)
    raise ConfigError(f"no store answers to {place!r}; use 'memory:', 'sqlite:PATH' or a PATH")


def store_location(setting: StoreSetting) -> tuple[str, str | None]:
    """Return the locations of a `[store]` table: the store and the payloads. Relative paths begin at its file.

    Raises:
        ConfigError: the URL is not that of a store; the message has the file and line.
    """
    try:
        file = store_path(setting.url)
    except ConfigError as error:
        raise ConfigError(f"{setting.place}: {error}") from error
    if file is None:
        return "memory:", setting.payloads
    payloads = setting.payloads
    if payloads is not None and "://" not in payloads:
        payloads = str(setting.folder / payloads)
    return f"sqlite:{setting.folder / file}", payloads


def payload_folder(file: Path) -> Path:
    """Return the folder of the payloads, if no setting names another: beside the file, also if a link was given."""
    file = file.resolve()
    return file.with_name(file.name + _PAYLOADS)


def belongs_to_database(file: Path) -> bool:
    """Return whether a file is a database, such as a store, or lies beside one and belongs to it."""
    endings = ("", *(each for each in _SIDE_FILES if file.name.endswith(each)))
    for each in (file.with_name(file.name.removesuffix(ending)) for ending in endings if file.name != ending):
        with suppress(OSError), each.open("rb") as opened:
            if opened.read(len(_DATABASE)) == _DATABASE:
                return True
    return False


def store_files(place: str, payloads: str | None, tenant: str) -> tuple[str, ...]:
    """Return path patterns for the files of a store and its payloads, of all tenants; none in memory.

    Raises:
        ConfigError: it is no store URL.
    """
    file = store_path(place)
    if file is None:
        return ()
    found: list[str] = []
    for each in dict.fromkeys((file.absolute(), file.resolve())):
        stem = each.stem.removesuffix(f".{tenant}")
        names = (f"{stem}{each.suffix}", f"{stem}.*{each.suffix}")
        found += [str(each.with_name(name + ending)) for name in names for ending in ("", *_SIDE_FILES)]
    from agenttool.stores.payloads import payload_path  # noqa: PLC0415 -- see `open_store`

    folder = None if payloads is None else payload_path(payloads)
    return (*found, *(() if folder is None else (str(folder),)))


def open_store(place: str, steps: Mapping[str, Step], payloads: str | None = None) -> StoreParts:
    """Open or create a store; `payloads` is a folder or the URL of an object store, by default a folder beside it.

    Raises:
        ConfigError: it is no store URL, or cannot be used.
    """
    file = store_path(place)
    if file is None:
        return StoreParts(
            log=MemoryLog(), payloads=MemoryPayloads(), open_calls=MemoryOpenCalls(), documents=MemoryDocuments()
        )
    # Imported only for a file: they cost more to import than all the rest of a runtime in memory.
    from agenttool.stores.payloads import ObjectPayloads  # noqa: PLC0415 -- see above
    from agenttool.stores.sqlite.store import SqliteStore  # noqa: PLC0415 -- see above
    from agenttool.stores.store_trust import record_created_store  # noqa: PLC0415 -- see above

    store = SqliteStore.open(file, steps=steps, on_create=partial(record_created_store, file.absolute()))
    return StoreParts(
        log=store.log,
        payloads=ObjectPayloads.open(payloads or payload_folder(file)),
        open_calls=store.open_calls,
        documents=store.documents,
        close=store.close,
    )
