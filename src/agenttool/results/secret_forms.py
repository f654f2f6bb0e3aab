"""The forms in which a secret may appear in text, derived from the secret alone.

A tool converts its arguments: text becomes a date, a UUID or a number, and is written again in another form. The forms
are a fixed and bounded set; `docs/explanation/stored-data.md` lists them.
"""

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, time, timedelta
from decimal import Decimal
from html import escape
from urllib.parse import quote, quote_plus
from uuid import UUID

from agenttool.codec import sorted_json

MIN_CHARS = 4
"""Shorter secrets and forms occur in too many ordinary words, and are not searched."""

MIN_LINE_CHARS = 8
"""Shorter lines of a secret with several lines are not searched alone."""

LONGEST_ESCAPE = 7
"""The length of one character as an escape of JSON within JSON: `\\\\u0061`."""

_MIN_BASE64_CORE = 8
_ESCAPES = {'"': '"', "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_ESCAPE = re.compile(r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])')
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HELD_BACKSLASH = "\udfff"
_MAX_TYPED_CHARS = 48
_PERCENT_CODE = re.compile("%[0-9A-F]{2}")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")
_MOMENT = re.compile(r"\d{4}-?[\dW].*")
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?:Z|[+-]\d{2}:?\d{2})?")
_DURATION = re.compile(
    r"[+-]?P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_SECONDS = (365 * 86400, 30 * 86400, 7 * 86400, 86400, 3600, 60, 1)
_UUID = re.compile(r"(?:urn:uuid:|\{)?([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})\}?", re.IGNORECASE)
_TYPED_STARTS = frozenset("0123456789+-abcdefABCDEFPuU{")
_SEPARATORS = ("_", " ", "'", "\u00a0", "\u202f")
_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d", "%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y")
_TIMES = ("%H:%M:%S", "%H:%M")


def shortest_form(secret: str) -> int:
    """Return a lower limit of the lengths of all forms; a text that is shorter need not be searched."""
    if "\n" in secret or (secret[0] in _TYPED_STARTS and _is_typed(secret)):
        return MIN_CHARS
    # A part of longer base64 data may leave out two characters of the secret's own.
    size = len(secret)
    # The text that base64 stands for is shorter.
    return max(min(size, size * 3 // 4 - 2), MIN_CHARS)


def _is_typed(secret: str) -> bool:
    """Return whether a secret may be a number, a date, a time, a duration or a UUID."""
    if len(secret) > _MAX_TYPED_CHARS:
        return False
    return any(kind.fullmatch(secret) is not None for kind in (_NUMBER, _MOMENT, _TIME, _DURATION, _UUID))


def forms_of(secret: str) -> set[str]:
    """Return the secret in clear, as encodings write it, and as a number, date, UUID or line of it is written."""
    data = secret.encode("utf-8", "surrogatepass")
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    if is_unicode(secret):
        escaped.add(sorted_json(secret).decode()[1:-1])
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
        escape(secret),
        data.hex(),
        data.hex().upper(),
        *_base64_cores(data),
        *_decoded(secret),
        *_lines(secret),
    }
    if _is_typed(secret):
        forms |= {*_numbers(secret), *_moments(secret), *_times_of_day(secret), *_durations(secret), *_uuids(secret)}
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
    if is_unicode(plain):
        return plain
    return _SURROGATES.sub(lambda pair: _character(pair[0]), plain).encode("utf-8", "replace").decode()


def _character(surrogates: str) -> str:
    """Return the character of two surrogates."""
    return surrogates.encode("utf-16", "surrogatepass").decode("utf-16")


def mask_escaped(text: str, forms: Iterable[str], mask: Callable[[str], str]) -> str:
    """Mask forms that occur in a text with some of their characters as escapes of JSON; the rest stays as it is."""
    decoded, after_escape, place_after = [""], [0], [0]
    size = end = 0
    for written in _ESCAPE.finditer(text):
        raw, code = text[end : written.start()], written[0]
        character = json.loads(f'"{code}"') if code[1] == "u" else _ESCAPES[code[1]]
        decoded += [raw, character]
        size += len(raw) + 1
        end = written.end()
        after_escape.append(size)
        place_after.append(end)
    plain = "".join([*decoded, text[end:]])

    def place_of(index: int) -> int:
        last = bisect_right(after_escape, index) - 1
        return place_after[last] + index - after_escape[last]

    masked, done = list[str](), 0
    # The longest form is the first alternative, so that no part of it remains.
    for found in re.finditer("|".join(map(re.escape, forms)), plain):
        start, stop = place_of(found.start()), place_of(found.end())
        masked += [text[done:start], mask(text[start:stop])]
        done = stop
    return "".join([*masked, text[done:]])


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
            yield from (text, repr(text)[1:-1], repr(text.encode())[2:-1])


def _lines(secret: str) -> Iterator[str]:
    """Yield the long lines of a secret with several lines, such as a key in PEM."""
    lines = [each.strip() for each in secret.splitlines()]
    return (each for each in lines if len(lines) > 1 and len(each) >= MIN_LINE_CHARS)


def _numbers(secret: str) -> Iterator[str]:
    """Yield a number as it is written with and without groups of three digits, with two or fewer decimals."""
    if _NUMBER.fullmatch(secret) is None:
        return
    number = Decimal(secret)
    plain = f"{number:f}"
    short = plain.rstrip("0").rstrip(".") if "." in plain else plain
    for each in (plain, short, f"{number:.2f}"):
        grouped = f"{Decimal(each):,}"
        swapped = grouped.translate({ord(","): ".", ord("."): ","})
        forms = (each, each.replace(".", ","), grouped, swapped, *(grouped.replace(",", sign) for sign in _SEPARATORS))
        yield from (form for form in forms if sum(map(str.isdigit, form)) >= MIN_CHARS)


def _moments(secret: str) -> Iterator[str]:
    """Yield a date, or a date and a time, as they are usually written, and the time as a Unix timestamp."""
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(secret)
        yield f"{moment.date()}"
        yield f"{moment.year}, {moment.month}, {moment.day}"  # in the `repr` of a date
        for form in _DATES:
            written = moment.strftime(form)
            yield written
            yield re.sub(r"\b0(?=\d\b)", "", written)
        if len(secret) > len("2026-01-01"):
            yield from _times(moment)


def _times(moment: datetime) -> Iterator[str]:
    for separator in "T ":
        for each in (moment, moment.replace(microsecond=0)):
            written = each.isoformat(separator)
            yield written
            yield written.replace("+00:00", "Z")
            yield each.replace(tzinfo=None).isoformat(separator)
        for form in _TIMES:
            yield f"{moment.date()}{separator}{moment.strftime(form)}"
    yield f"{moment.timestamp():.0f}"
    yield _repr_arguments(moment)


def _repr_arguments(moment: datetime | time) -> str:
    """Return what the `repr` of a moment has in its parentheses, without a time zone."""
    return repr(moment.replace(tzinfo=None)).partition("(")[2].rstrip(")")


def _times_of_day(secret: str) -> Iterator[str]:
    """Yield a time as it is usually written; a parameter of type `timedelta` takes this form, too."""
    found = _TIME.fullmatch(secret)
    if found is None:
        return
    with suppress(ValueError):
        moment = time.fromisoformat(secret)
        yield f"{moment}"
        yield f"time({_repr_arguments(moment)}"
        yield from (moment.strftime(form) for form in (*_TIMES, "%I:%M %p"))
    yield from _duration_forms(found.groups("0"), _SECONDS[-3:])


def _durations(secret: str) -> Iterator[str]:
    """Yield a duration in ISO 8601 as Python writes it, and as seconds."""
    found = _DURATION.fullmatch(secret)
    if found is not None:
        yield from _duration_forms(found.groups("0"), _SECONDS)


def _duration_forms(counts: Iterable[str], units: Iterable[int]) -> Iterator[str]:
    with suppress(OverflowError):
        length = timedelta(seconds=float(sum(Decimal(count) * unit for count, unit in zip(counts, units, strict=True))))
        for each in (length, -length):
            yield str(each)
            yield repr(each).partition("(")[2].rstrip(")")
        yield from _numbers(repr(length.total_seconds()))


def _uuids(secret: str) -> Iterator[str]:
    found = _UUID.fullmatch(secret)
    if found is not None:
        for each in (str(UUID(found[1])), UUID(found[1]).hex):
            yield from (each, each.upper())


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
