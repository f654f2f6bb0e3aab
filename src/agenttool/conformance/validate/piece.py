"""What a file is cut into: documents, and the troubles between them."""

from enum import StrEnum
from typing import NamedTuple

from agenttool.conformance.validate.finding import Flaw, Layer, Severity

BLANK = b" \t\r\n"
"""What JSON calls whitespace."""


class Document(NamedTuple):
    """The bytes of one document, and the line they start on."""

    line: int
    data: bytes


class Trouble(StrEnum):
    """What can be wrong with a file apart from its documents."""

    BYTE_ORDER_MARK = "byte_order_mark"
    NOT_UTF8 = "not_utf8"
    TOO_LARGE = "too_large"
    STRAY_TEXT = "stray_text"
    MISSING_COMMA = "missing_comma"
    UNCLOSED_ARRAY = "unclosed_array"
    NO_DOCUMENT = "no_document"


class Gap(NamedTuple):
    """A place where something stands, or is missing, that is no document."""

    line: int
    trouble: Trouble


Piece = Document | Gap


def _flaw(message: str, expected: str, advice: str, severity: Severity = Severity.ERROR) -> Flaw:
    return Flaw(message=message, expected=expected, advice=advice, severity=severity, layer=Layer.READING)


FLAWS = {
    Trouble.BYTE_ORDER_MARK: _flaw(
        "the file starts with a byte order mark", "UTF-8 without a mark", "remove it", Severity.WARNING
    ),
    Trouble.NOT_UTF8: _flaw("the file is written in UTF-16 or UTF-32", "UTF-8", "re-encode the file"),
    Trouble.TOO_LARGE: _flaw(
        "the document is larger than the limit and was passed over",
        "a document within the limit",
        "put large content behind a ref, or raise --max-record",
    ),
    Trouble.STRAY_TEXT: _flaw(
        "there is text between the documents", "JSON objects and nothing else", "remove the text"
    ),
    Trouble.MISSING_COMMA: _flaw("two elements of the array touch", "a comma between them", "add the comma"),
    Trouble.UNCLOSED_ARRAY: _flaw(
        "the file ends before its array does", "a closing bracket", "complete the file: it may have been cut"
    ),
    Trouble.NO_DOCUMENT: _flaw(
        "there is no record in the file", "at least one record", "check what wrote it", Severity.WARNING
    ),
}
"""Each trouble in words."""
