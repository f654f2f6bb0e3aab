"""What the validator reports: findings with their place, and the figures of a run.

Nothing here quotes the document, except short words without digits and ids: any other value may be a secret.
"""

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from agenttool.conformance.ledger import read_table
from agenttool.records import Json


class Severity(StrEnum):
    """An error breaks the standard; a warning breaks its advice or loses information."""

    ERROR = "error"
    WARNING = "warning"


class Layer(StrEnum):
    """Which layer reported it: reading of bytes, schemas, or semantic checks."""

    READING = "reading"
    SHAPE = "shape"
    SENSE = "sense"


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="finding"):
    """One thing that is wrong with a document.

    Until `Origin.finding` adds the place, the file is empty and the line is counted from the start of the document.
    `requirement` is a row of the ledger or an entry of the list of gaps, such as G-03.
    """

    file: str = ""
    line: int = 0
    record_type: str | None = None
    record_id: str | None = None
    pointer: str = ""
    severity: Severity = Severity.ERROR
    layer: Layer = Layer.SENSE
    requirement: str | None = None
    message: str
    expected: str
    advice: str


class Origin(NamedTuple):
    """Where a document starts, and its kind and id if they are known."""

    file: str
    line: int
    record_type: str | None = None
    record_id: str | None = None

    def finding(self, flaw: Finding) -> Finding:
        """Return the flaw with its place."""
        texts = {name: _shortened(getattr(flaw, name)) for name in ("pointer", "message", "expected", "advice")}
        return replace(flaw, **self._asdict() | texts | {"line": self.line + flaw.line})


def flaw(name: str, pointer: str = "", /, *, line: int = 0, **values: object) -> Finding:
    """Return the flaw with this name in `flaws.tsv`; `values` replace the placeholders in its texts."""
    texts = {column: text.format_map(values) for column, text in _flaws()[name].items() if text}
    return msgspec.convert({**texts, "pointer": pointer, "line": line}, Finding)


def requirements_of(check: str) -> dict[str, str]:
    """Return the requirement of everything that a check covers, by the name of a record, member or enum."""
    rows = read_table("validate/check_requirements.tsv")
    return {row["of"]: row["requirement"] for row in rows if row["check"] == check}


@cache
def _flaws() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in read_table("validate/flaws.tsv")}


_LONGEST = 600
_ID = re.compile(r"[A-Za-z0-9_.:@/#+~-]{1,120}")
_WORD = re.compile(r"[A-Za-z][A-Za-z_.-]{0,39}")


def shown_id(value: Json) -> str | None:
    """Return an id if it looks like one; other text may be a secret and is not shown."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def shown_word(value: Json) -> str | None:
    """Return a value if it looks like an enum word; other text may be a secret and is not shown."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _shortened(text: str) -> str:
    """Shorten a text: the name of a member can be as long as the record."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class Summary(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="summary"):
    """Counts of a run; `unreadable` counts the documents that could not be checked."""

    files: int
    bytes: int
    records: dict[str, int]
    unreadable: int
    errors: int
    warnings: int


def json_line(report: Finding | Summary) -> bytes:
    """Encode one line of JSON; its `type` is `finding` or `summary`."""
    return msgspec.json.encode(report) + b"\n"
