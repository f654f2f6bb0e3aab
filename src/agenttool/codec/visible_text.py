"""Invisible characters in texts for models and terminals: marked, so that no reader misses what is written there."""

import json
import re
from collections.abc import Iterator
from operator import is_

# Controls, zero-width and bidirectional characters, fillers, blanks, variation selectors and tag characters.
_C0 = bytes([*range(9), 0xB, 0xC, *range(0xE, 0x20), 0x7F])
_ALWAYS = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f"
    "\u0080-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffc\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Emoji and symbols have a form as text and one as picture, which a selector after them chooses.
_SYMBOLS = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff"
)
_SELECTOR = "[\ufe0e\ufe0f]"
_KEYCAP = "[0-9#*]\ufe0f(?=\u20e3)"
# Joiners are part of emoji, and of the words of scripts from Hebrew to Mongolian.
_JOINED = (
    f"{_SYMBOLS}\ufe0f\u0590-\u109f\u1700-\u17b3\u17b6-\u180a\u1810-\u1cff\ua800-\uabff\ufb1d-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff"
)
_JOINER = "[\u200c\u200d]"
_CANDIDATES = f"[{_ALWAYS}\u200c\u200d\ufe0e\ufe0f]"
_CANDIDATE = re.compile(_CANDIDATES)
"""A search for this alone is three times as fast; most texts have none."""
# The first part finds candidates; the rest looks at their neighbors.
_INVISIBLE = re.compile(
    f"((?:{_CANDIDATES}"
    f"(?:(?<=[{_ALWAYS}])|(?<={_JOINER})(?:(?<![{_JOINED}]{_JOINER})|(?![{_JOINED}]))"
    f"|(?<={_SELECTOR})(?<![{_SYMBOLS}]{_SELECTOR})(?<!{_KEYCAP})))+)"
)

# A carriage return alone, and codes that move the cursor or set a color or a title, hide or divide what is beside them.
# The escape character alone matches, too: so each one is a match, and no search is long.
_TERMINAL_CODE = re.compile("\x1b(?:\\[[0-?]{0,100}[ -/]{0,100}[@-~]|\\][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\\\)|)")
_HIDDEN = re.compile(f"\r(?!\n)|{_CANDIDATES}")

_DEPENDENT = frozenset("\u200c\u200d\ufe0e\ufe0f\r")
_PIECE = 10_000
_SHORT = 100


class _Escapes(dict[str, str]):
    """The JSON escape of each invisible character that occurred."""

    def __missing__(self, char: str) -> str:
        escape = self[char] = f"\\u{ord(char):04x}" if char.isascii() else json.dumps(char)[1:-1]
        return escape


_ESCAPES = _Escapes()


def visible_text(text: str) -> str:
    r"""Return a text in which each invisible character is written as `\u200b`; the same object if it has none.

    This is the form of JSON, so that text which is JSON stays JSON with the same value.
    Texts for models and terminals are passed through this function: descriptions when a tool is declared, and
    model-facing content and messages when a result is made. Values that programs read are not changed.
    """
    if _is_plain(text):
        return text
    if len(text) <= _PIECE:
        return _marked(text)
    pieces = [*_pieces(text)]
    visible = [*map(_marked, pieces)]
    return text if all(map(is_, visible, pieces)) else "".join(visible)


def has_invisible(text: str) -> bool:
    """Return whether a text has an invisible character; the search stops at the first."""
    return not _is_plain(text) and any(map(_INVISIBLE.search, _pieces(text)))


def may_hide(text: str) -> bool:
    """Return whether `without_hidden` may change a text; quick for plain text."""
    return "\r" in text or not (_is_plain(text) or not any(map(_CANDIDATE.search, _pieces(text))))


def without_hidden(text: str) -> str:
    """Return a text without terminal codes, controls and every character that may be invisible; often the same."""
    if not may_hide(text):
        return text
    return "".join(_HIDDEN.sub("", piece) for piece in _pieces(_TERMINAL_CODE.sub(lambda _: "", text)))


def _is_plain(text: str) -> bool:
    """Return whether a text is ASCII without controls other than line breaks and tabs."""
    is_short_and_plain = len(text) < _SHORT and text.isprintable()
    return text.isascii() and (is_short_and_plain or len(text.encode().translate(None, _C0)) == len(text))


def _marked(text: str) -> str:
    if _CANDIDATE.search(text) is None:
        return text
    parts = _INVISIBLE.split(text)
    if len(parts) == 1:
        return text
    escapes = _ESCAPES
    parts[1::2] = [escapes[run] if len(run) == 1 else "".join(map(escapes.__getitem__, run)) for run in parts[1::2]]
    return "".join(parts)


def _pieces(text: str) -> Iterator[str]:
    """Divide a long text, so that other threads run between searches; no cut is beside a joiner, selector or return.

    A run of more than a hundred of them is no text, and may be cut.
    """
    start = 0
    while start < len(text):
        last = start + _PIECE
        ends = (at for at in range(last, last + 100) if _DEPENDENT.isdisjoint(text[at - 1 : at + 1]))
        end = next(ends, last)
        yield text[start:end]
        start = end
