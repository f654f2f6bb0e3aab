"""Trust in the files of projects: the user agrees to a file once, and to settings again after every change of them.

A record in the configuration folder of the user has the path of a file and the digest of its bytes; for a store, the
digest of its id. A file that was found, and not named by the user, is used only if such a record matches it.
"""

import hashlib
import json
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agenttool.config.effects import effects_line
from agenttool.config.program import program_name
from agenttool.config.reader import SettingsFile, user_folder
from agenttool.config.settings import Config
from agenttool.errors import ConfigError

_FOLDER = "trusted"


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """A file that the user trusted, and its digest at that time."""

    file: Path
    digest: str


def place_of(file: Path) -> Path:
    """Return the absolute path of a file by which it is trusted; a link is a file of its own."""
    return file.parent.resolve() / file.name


def trust_record(file: Path) -> TrustRecord | None:
    """Return the record of a file; none if it was never trusted, or if the record cannot be read."""
    return _read_record(record_file(place_of(file)))


def is_trusted(file: Path, digest: str) -> bool:
    """Return whether the user trusted a file with this digest."""
    return trust_record(file) == TrustRecord(place_of(file), digest)


def require_trust(written: SettingsFile, user: Config) -> None:
    """Check that the user trusted a file as it was read.

    Raises:
        ConfigError: the user did not; the message has the effects of the file, and the command that trusts it.
    """
    if is_trusted(written.file, written.digest):
        return
    state = "is not trusted" if trust_record(written.file) is None else "has changed since you trusted it"
    place = place_of(written.file)
    raise ConfigError(
        f"{place} {state}, so it is not used. It would {effects_line(written, user)}; "
        f"read it, then type `{program_name()} trust {shlex.quote(str(place.parent))}`, or name it with --settings or"
        " config="
    )


def trust_file(file: Path, digest: str) -> None:
    """Record that the user trusts a file as long as it has this digest.

    Raises:
        ConfigError: the record cannot be written.
    """
    place = place_of(file)
    record = record_file(place)
    new = record.with_name(f"{record.name}.{os.getpid()}")
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
            json.dump({"file": str(place), "digest": digest}, opened)
        new.replace(record)
    except OSError as error:
        raise ConfigError(
            f"{record} cannot be written: {error.strerror}, so {place} is not trusted; "
            "name it with --settings or --store"
        ) from error


def revoke_trust(record: TrustRecord) -> None:
    """Delete the record of a file."""
    record_file(record.file).unlink(missing_ok=True)


def trusted_files() -> list[TrustRecord]:
    """Return all records, by path."""
    found = (_read_record(each) for each in (user_folder() / _FOLDER).glob("*.json"))
    return sorted((each for each in found if each is not None), key=lambda each: each.file)


def record_file(place: Path) -> Path:
    """Return the file with the trust record of a settings file, whether it exists or not."""
    return user_folder() / _FOLDER / f"{hashlib.sha256(os.fsencode(place)).hexdigest()}.json"


def _read_record(record: Path) -> TrustRecord | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        members = cast("dict[str, str]", json.loads(record.read_bytes()))
        return TrustRecord(Path(members["file"]), str(members["digest"]))
    return None
