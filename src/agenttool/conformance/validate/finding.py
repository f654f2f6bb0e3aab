"""What the validator has to say: a flaw inside one document, and a finding, which also knows where that document is.

Nothing here ever quotes the document, but for short words without digits and for ids: any other value may be a secret.
"""

import re
from enum import StrEnum

import msgspec

from agenttool.records import Json


class Severity(StrEnum):
    """How much it matters: an error breaks the standard, a warning breaks its advice or costs someone information."""

    ERROR = "error"
    WARNING = "warning"


class Layer(StrEnum):
    """Who found it: the reader of bytes, the schemas, or the checks that know what records mean."""

    READING = "reading"
    SHAPE = "shape"
    SENSE = "sense"


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a document, whichever file it is in.

    `lines_down` says how many lines below the start of the document it stands, where that is known.
    """

    message: str
    expected: str
    advice: str
    pointer: str = ""
    requirement: str | None = None
    severity: Severity = Severity.ERROR
    layer: Layer = Layer.SENSE
    lines_down: int = 0


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
    """Where a document starts, and what it is, as far as that can be told."""

    file: str
    line: int
    record_type: str | None = None
    record_id: str | None = None

    def finding(self, flaw: Flaw) -> Finding:
        """Say where a flaw is."""
        return Finding(
            file=self.file,
            line=self.line + flaw.lines_down,
            record_type=self.record_type,
            record_id=self.record_id,
            pointer=_shortened(flaw.pointer),
            severity=flaw.severity,
            layer=flaw.layer,
            requirement=flaw.requirement,
            message=_shortened(flaw.message),
            expected=_shortened(flaw.expected),
            advice=_shortened(flaw.advice),
        )


_LONGEST = 600
_ID = re.compile(r"[A-Za-z0-9_.:@/#+~-]{1,120}")
_WORD = re.compile(r"[A-Za-z][A-Za-z_.-]{0,39}")


def shown_id(value: Json) -> str | None:
    """Give an id as it may be shown; something that does not look like an id is kept back."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def shown_word(value: Json) -> str | None:
    """Give a word that stands where the standard wants one of its own; anything that could be more is kept back."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _shortened(text: str) -> str:
    """Keep a document from filling the report: the name of a member can be as long as the record."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
