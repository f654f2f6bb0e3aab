"""Invisible characters in texts for models and terminals: marked, so that no reader misses what is written there."""

import json
import re
from collections.abc import Iterator
from operator import is_

# Zero-width and bidirectional controls, fillers, variation selectors and tag characters.
_ALWAYS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Joiners are part of emoji and of Arabic and Indic words, where both neighbors are visible and not ASCII.
_BESIDE = "[^\\x00-\\x7f\u2000-\u206f\ufeff\ufe00-\ufe0d]"
_JOINER = "[\u200c\u200d]"
# One of these selectors after a character selects its form as text or emoji.
_SELECTOR = "[\ufe0e\ufe0f]"
_INVISIBLE = re.compile(
    f"[{_ALWAYS}]|(?<!{_BESIDE}){_JOINER}|{_JOINER}(?!{_BESIDE})|(?:^|(?<=[\\s\ufe00-\ufe0f])){_SELECTOR}"
)

_DEPENDENT = frozenset("\u200c\u200d\ufe0e\ufe0f")
_PIECE = 50_000


class _Escapes(dict[str, str]):
    """The JSON escape of each invisible character that occurred."""

    def __missing__(self, char: str) -> str:
        escape = self[char] = json.dumps(char)[1:-1]
        return escape


_ESCAPES = _Escapes()


def visible_text(text: str) -> str:
    r"""Return a text in which each invisible character is written as `\u200b`; the same object if it has none.

    This is the form of JSON, so that text which is JSON stays JSON with the same value.
    Texts for models and terminals are passed through this function: descriptions when a tool is declared, and
    model-facing content and messages when a result is made. Values that programs read are not changed.
    """
    if text.isascii():
        return text
    if len(text) <= _PIECE:
        return _INVISIBLE.sub(_escaped, text)
    pieces = [*_pieces(text)]
    visible = [_INVISIBLE.sub(_escaped, piece) for piece in pieces]
    return text if all(map(is_, visible, pieces)) else "".join(visible)


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


def _pieces(text: str) -> Iterator[str]:
    """Divide a long text, so that other threads run between the searches; a cut is not beside a joiner or selector.

    A run of more than a hundred of them is no text, and may be cut.
    """
    start = 0
    while start < len(text):
        last = start + _PIECE
        ends = (at for at in range(last, last + 100) if _DEPENDENT.isdisjoint(text[at - 1 : at + 1]))
        end = next(ends, last)
        yield text[start:end]
        start = end
