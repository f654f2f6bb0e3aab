"""The bytes of one document to JSON, quickly when all is well, and with an explanation when it is not."""

from typing import NamedTuple, cast

import msgspec

from agenttool.codec import sorted_json
from agenttool.conformance.validate.depth import MAX_DEPTH, is_too_deep
from agenttool.conformance.validate.diagnose import diagnose
from agenttool.conformance.validate.finding import Flaw, Layer
from agenttool.records import Json

_decode = msgspec.json.Decoder().decode
_NUMBERS = bytes.maketrans(b"123456789,[- \t\r\n", b"000000000:::::::")
_LONG_NUMBER = b":" + b"0" * 19
"""What stands before a number, and more digits than every number of 64 bits has, as `_NUMBERS` spells them."""

TOO_DEEP = Flaw(
    message="the document is nested too deeply to be a record",
    expected=f"at most {MAX_DEPTH} levels",
    advice="flatten it",
    layer=Layer.READING,
)


class Parsed(NamedTuple):
    """A document that could be read, perhaps with flaws.

    Attributes:
        value: what it says; where that cannot be said in JSON, the nearest thing that can.
        content: the same for documents that say the same, however they are spelled.
        is_exact: nothing had to be replaced.
    """

    value: Json
    content: int
    is_exact: bool
    flaws: tuple[Flaw, ...]


def parse(data: bytes) -> Parsed | Flaw:
    """Read one document, or say why that cannot be done. Never raises, whatever the bytes."""
    if is_too_deep(data):
        return TOO_DEEP
    try:
        value = cast("Json", _decode(data))
        spelling = sorted_json(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _parse_slowly(data)
    if _may_hide_something(data, spelling):
        return _parse_slowly(data)
    return Parsed(value, hash(spelling), is_exact=True, flaws=())


def _may_hide_something(data: bytes, spelling: bytes) -> bool:
    """Tell whether the quick parser may have swept something under the carpet.

    It takes the last of several members of one name. Each member has a colon, and so a lost member shows in the number
    of colons, unless one is written as an escape. And it takes integers of any size.
    """
    return data.count(b":") != spelling.count(b":") or b"\\u003" in data or _LONG_NUMBER in data.translate(_NUMBERS)


def _parse_slowly(data: bytes) -> Parsed | Flaw:
    diagnosis = diagnose(data)
    if isinstance(diagnosis, Flaw):
        return diagnosis
    value, is_exact, flaws = diagnosis
    return Parsed(value, hash(sorted_json(value)), is_exact, flaws)
