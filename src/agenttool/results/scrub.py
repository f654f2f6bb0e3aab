"""Secret values out of free text: whatever a sensitive field of a call held is masked wherever the call speaks."""

import base64
import json
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar, cast
from urllib.parse import quote, quote_plus

from agenttool.codec import sorted_json
from agenttool.records import Json, Part, replace
from agenttool.results.redaction import MARKER
from agenttool.results.refs import PAYLOAD_SCHEME
from agenttool.results.wording import clean_message

MIN_SECRET_CHARS = 4
"""Shorter values are not looked for: they stand in too many innocent words."""

_MIN_BASE64_CORE = 8
_OURS = frozenset({"result_id", "invocation_id", "schema_version", "created_at", "digest", "media_type", "phase"})

_P = TypeVar("_P", bound=Part)


class Scrubber:
    """Masks the secrets of one call, in clear and in the spellings that URLs, JSON, base64 and Python give them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Take the secrets; see `compile_scrubber`."""
        self.secrets = frozenset(secrets)
        spellings = {each for secret in self.secrets for each in _spellings(secret)}
        # The longest first, so that no part of a longer spelling is left standing.
        self._spellings = sorted(spellings, key=lambda each: (-len(each), each))
        self._masks = [(each.encode(), b"*" * len(each.encode())) for each in self._spellings]

    def and_also(self, other: "Scrubber | None") -> "Scrubber":
        """Mask the secrets of both."""
        return self if other is None else Scrubber(self.secrets | other.secrets)

    def text(self, text: str) -> str:
        """Mask every secret in a text; the very same text comes back if there was none."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MARKER)
        return text

    def data(self, data: bytes) -> bytes:
        """Mask every secret in bytes without moving any other byte."""
        for spelling, mask in self._masks:
            if spelling in data:
                data = data.replace(spelling, mask)
        return data

    def value(self, value: Json) -> Json:
        """Mask every secret in a JSON value, names and numbers included; what is clean is shared, not copied.

        A value too deep to be looked through is masked as a whole.
        """
        try:
            return self._value(value)
        except RecursionError:
            return MARKER

    def _value(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            items = [self._value(item) for item in value]
            return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            members = [(self.text(key), self._value(item)) for key, item in value.items()]
            pairs = zip(members, value.items(), strict=True)
            is_clean = all(new[0] is old[0] and new[1] is old[1] for new, old in pairs)
            return value if is_clean else dict(members)
        if isinstance(value, int | float) and not isinstance(value, bool):
            spelled = repr(value)
            return value if self.text(spelled) is spelled else MARKER
        return value

    def part(self, part: _P) -> _P:
        """Mask every secret in the free text of a record; its ids, times, digests and listed words are ours."""
        changed: dict[str, object] = {}
        for name in part.__struct_fields__:
            before = cast("object", getattr(part, name))
            after = before if name in _OURS else self._member(before)
            if after is not before:
                changed[name] = after
        return replace(part, **changed) if changed else part

    def _member(self, member: object) -> object:
        if isinstance(member, str):
            is_ours = isinstance(member, Enum) or member.startswith(PAYLOAD_SCHEME)
            return member if is_ours else self.text(member)
        if isinstance(member, Part):
            return self.part(member)
        if isinstance(member, tuple):
            items = cast("tuple[object, ...]", member)
            scrubbed = tuple(self._member(item) for item in items)
            return scrubbed if any(new is not item for new, item in zip(scrubbed, items, strict=True)) else items
        if isinstance(member, dict | list):
            return self.value(cast("Json", member))
        return member


def compile_scrubber(secrets: Iterable[Json]) -> Scrubber | None:
    """Prepare to mask the values of sensitive fields; none if no value is long enough to be looked for."""
    texts = {text for secret in secrets for text in _leaves(secret) if _can_be_found(text)}
    return Scrubber(texts) if texts else None


def scrub(text: str, secrets: Iterable[Json]) -> str:
    """Mask secret values in one text."""
    scrubber = compile_scrubber(secrets)
    return text if scrubber is None else scrubber.text(text)


def _can_be_found(text: str) -> bool:
    # A part of the marker would be found in every marker, and hides nothing.
    return len(text) >= MIN_SECRET_CHARS and text not in MARKER and not text.isspace()


def _leaves(secret: Json) -> list[str]:
    """Give every value inside a sensitive one as text; of a text, the form that it has in a message, too."""
    found: list[str] = []
    rest: list[Json] = [secret]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
        elif isinstance(value, str):
            found += [value, clean_message(value, limit=len(value) + 1)]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append(repr(value))
    return found


def _spellings(secret: str) -> set[str]:
    data = secret.encode("utf-8", "surrogatepass")
    escaped = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    if _is_writable(secret):
        escaped.add(sorted_json(secret).decode()[1:-1])
    quoted = {quote(data, safe=""), quote(data), quote_plus(data)}
    spellings = {
        secret,
        *escaped,
        *(json.dumps(each)[1:-1] for each in escaped),
        *quoted,
        *(_lower_hex(each) for each in quoted),
        repr(secret)[1:-1],
        *_base64_cores(data),
    }
    return {each for each in spellings if _can_be_found(each) and _is_writable(each)}


def _lower_hex(quoted: str) -> str:
    head, *parts = quoted.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in parts)])


def _base64_cores(data: bytes) -> set[str]:
    """Give what base64 makes of the secret, alone or as a part of something longer at any of the three offsets."""
    alone = base64.b64encode(data).decode().rstrip("=")
    cores = {alone}
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
        first = (0, 2, 3)[offset]
        # The last character shares its bits with whatever follows, unless the bytes end on a group.
        last = len(coded) if (offset + len(data)) % 3 == 0 else len(coded) - 1
        core = coded[first:last]
        if len(core) >= _MIN_BASE64_CORE:
            cores.add(core)
    return cores | {core.replace("+", "-").replace("/", "_") for core in cores}


def _is_writable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)
