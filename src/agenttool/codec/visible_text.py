"""Invisible characters in texts for models and terminals: marked, so that no reader misses what is written there."""

import json
import re

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


def visible_text(text: str) -> str:
    r"""Return a text in which each invisible character is written as `\u200b`; the same object if it has none.

    This is the form of JSON, so that text which is JSON stays JSON with the same value.
    Texts for models and terminals are passed through this function: descriptions when a tool is declared, and
    model-facing content and messages when a result is made. Values that programs read are not changed.
    """
    if text.isascii() or _INVISIBLE.search(text) is None:
        return text
    return _INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)
