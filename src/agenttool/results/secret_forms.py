"""The forms in which a secret may appear in text, derived from the secret alone.

The forms are a fixed and bounded set; `docs/explanation/stored-data.md` lists them.
"""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote, quote_plus

from agenttool.codec import sorted_json

MIN_CHARS = 4
"""Shorter secrets and forms occur in too many ordinary words, and are not searched."""

MIN_LINE_CHARS = 8
"""Shorter lines of a secret with several lines are not searched alone."""

LONGEST_ESCAPE = 7
"""The length of one character as an escape of JSON within JSON: `\\\\u0061`."""

_MIN_BASE64_CORE = 8
_ESCAPES = {'"': '"', "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_HELD_BACKSLASH = "\udfff"
_PERCENT_CODE = re.compile("%[0-9A-F]{2}")


def shortest_form(secret: str) -> int:
    """Return a lower limit of the lengths of all forms; a text that is shorter need not be searched."""
    if "\n" in secret:
        return MIN_CHARS
    # The text that base64 stands for is shorter, and a part of it may leave out two characters.
    return max(len(secret) * 3 // 4 - 2, MIN_CHARS)


def forms_of(secret: str) -> set[str]:
    """Return the secret in clear, its lines, its encodings, and the text that it encodes if it is base64."""
    data = secret.encode("utf-8", "surrogatepass")
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    if is_unicode(secret):
        escaped.add(sorted_json(secret).decode()[1:-1])
    escaped |= {each.replace("/", "\\/") for each in escaped}  # as PHP writes JSON
    python = {repr(secret)[1:-1], ascii(secret)[1:-1], repr(data)[2:-1], secret.encode("unicode_escape").decode()}
    quoted = {quote(data, safe=""), quote(data), quote_plus(data)}
    forms = {
        secret,
        secret.lower(),
        secret.upper(),
        *escaped,
        *python,
        *(json.dumps(each)[1:-1] for each in (*escaped, *python)),
        *quoted,
        *(_PERCENT_CODE.sub(lambda code: code[0].lower(), each) for each in quoted),
        *(each.lower() for each in quoted),
        data.hex(),
        data.hex().upper(),
        *_base64_cores(data),
        *_decoded(secret),
        *_lines(secret),
    }
    return {each for each in forms if is_unicode(each)}


def unescaped(text: str) -> str:
    """Return a text with every escape of JSON replaced by its character; the same object if there is none.

    Most texts that are searched are long and contain no secret, so this is quick rather than reversible.
    """
    if "\\" not in text:
        return text
    plain = text.replace("\\\\", _HELD_BACKSLASH)
    for letter, character in _ESCAPES.items():
        if letter != "\\":
            plain = plain.replace("\\" + letter, character)
    plain = _UNICODE_ESCAPE.sub(lambda code: chr(int(code[1], 16)), plain).replace(_HELD_BACKSLASH, "\\")
    return plain if is_unicode(plain) else plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: a lone surrogate cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(secret: str) -> Iterator[str]:
    """Yield the text of a secret that is written in base64, as the value of a parameter of type `bytes` is."""
    with suppress(ValueError):
        text = base64.b64decode(secret, validate=True).decode()
        if len(text) >= MIN_CHARS and text.isprintable():
            yield text


def _lines(secret: str) -> Iterator[str]:
    """Yield the long lines of a secret with several lines, such as a key in PEM."""
    lines = [each.strip() for each in secret.splitlines()]
    return (each for each in lines if len(lines) > 1 and len(each) >= MIN_LINE_CHARS)


def _base64_cores(data: bytes) -> set[str]:
    """Return the base64 text of a secret, alone and as part of longer data at any of the three offsets."""
    alone = base64.b64encode(data).decode().rstrip("=")
    cores = {alone}
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
        first = (0, 2, 3)[offset]
        # The last character shares its bits with the next byte, unless the bytes end on a group.
        last = len(coded) if (offset + len(data)) % 3 == 0 else len(coded) - 1
        core = coded[first:last]
        if len(core) >= _MIN_BASE64_CORE:
            cores.add(core)
    return cores | {core.replace("+", "-").replace("/", "_") for core in cores}
