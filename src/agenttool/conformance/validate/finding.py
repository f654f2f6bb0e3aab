"""What the validator reports: flaws of one document, findings with their place, and the figures of a run.

Nothing here quotes the document, except short words without digits and ids: any other value may be a secret.
"""

import re
from enum import StrEnum
from functools import cache

import msgspec

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


class RecordFlaw(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a document, whichever file it is in.

    `lines_down` is the number of lines below the start of the document, where that is known.
    """

    message: str
    expected: str
    advice: str
    pointer: str = ""
    requirement: str | None = None
    severity: Severity = Severity.ERROR
    layer: Layer = Layer.SENSE
    lines_down: int = 0


def flaw(name: str, pointer: str = "", /, *, lines_down: int = 0, **values: object) -> RecordFlaw:
    """Return the flaw with this name in `flaws.tsv`; `values` replace the placeholders in its texts."""
    texts = {column: text.format_map(values) for column, text in _flaws()[name].items() if text}
    return msgspec.convert({**texts, "pointer": pointer, "lines_down": lines_down}, RecordFlaw)


def requirements_of(check: str) -> dict[str, str]:
    """Return the requirement of everything that a check covers, by the name of a record, member or enum."""
    rows = read_table("validate/check_requirements.tsv")
    return {row["of"]: row["requirement"] for row in rows if row["check"] == check}


@cache
def _flaws() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in read_table("validate/flaws.tsv")}


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="finding"):
    """A flaw and its place; `requirement` is a row of the ledger or an entry of the list of gaps, such as G-03."""

    file: str
    line: int
    record_type: str | None
    record_id: str | None
    pointer: str
    severity: Severity
    layer: Layer
    requirement: str | None
    message: str
    expected: str
    advice: str


class Origin(msgspec.Struct, frozen=True):
    """Where a document starts, and its kind and id if they are known."""

    file: str
    line: int
    record_type: str | None = None
    record_id: str | None = None

    def finding(self, flaw: RecordFlaw) -> Finding:
        """Return the flaw with its place."""
        texts = {name: _shortened(getattr(flaw, name)) for name in ("pointer", "message", "expected", "advice")}
        return Finding(
            file=self.file,
            line=self.line + flaw.lines_down,
            record_type=self.record_type,
            record_id=self.record_id,
            severity=flaw.severity,
            layer=flaw.layer,
            requirement=flaw.requirement,
            **texts,
        )


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
