"""Check single values: every enum word, time and digest, wherever the types of the records place one."""

from __future__ import annotations

import base64
import re
from calendar import monthrange
from collections.abc import Collection, Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple, cast, get_args

import msgspec

from agenttool import records
from agenttool.codec import digest_of, digest_of_bytes
from agenttool.conformance.validate.finding import Finding, flaw, requirements_of, shown_word
from agenttool.conformance.validate.foreign_records import ForeignRecord, items_of, values_at
from agenttool.conformance.validate.parse import Steps
from agenttool.errors import RecordError
from agenttool.records import RECORD_TYPES, Digest, Json, JsonObject, OpenEnum, Part, Timestamp
from agenttool.schema.explain import pointer_of

Meaning = object
"""The meaning of a type, by identity: an enum of `records`, or one of its NewTypes."""


class PlaceSlot(NamedTuple):
    """One member that leads to checked values: the meaning of its value or items, and the plan inside."""

    name: str
    meaning: Meaning | None
    inner: PlacePlan


PlacePlan = tuple[PlaceSlot, ...]


def plan_of(kind: type[Part], wanted: Collection[Meaning]) -> PlacePlan:
    """List the members of a kind that lead to values of these meanings."""
    slots = (_slot_of(field.encode_name, field.type, wanted) for field in msgspec.structs.fields(kind))
    return tuple(slot for slot in slots if slot.meaning or slot.inner)


def _slot_of(name: str, annotation: object, wanted: Collection[Meaning]) -> PlaceSlot:
    types = list(_flattened(annotation))
    meaning = next((each for each in types if each in wanted), None)
    inner = (plan_of(each, wanted) for each in types if isinstance(each, type) and issubclass(each, Part))
    return PlaceSlot(name, meaning, tuple(slot for plan in inner for slot in plan))


def _flattened(annotation: object) -> Iterator[object]:
    """Yield the plain types of a union or tuple."""
    arguments = cast("tuple[object, ...]", get_args(annotation))
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _flattened(argument)


def value_places(members: JsonObject, plan: PlacePlan, before: Steps = ()) -> Iterator[tuple[Meaning, Steps, str]]:
    """Yield every text that a plan leads to, with its meaning and path; values of the wrong shape are skipped."""
    for name, meaning, inner in plan:
        for after, each in values_at(members, name):
            steps = (*before, *after)
            if isinstance(each, dict):
                yield from value_places(each, inner, steps)
            elif isinstance(each, str) and meaning is not None:
                yield meaning, steps, each


ROWS: dict[type[OpenEnum], str] = {
    getattr(records, name): requirement for name, requirement in requirements_of("open_enum").items()
}
"""Every open enum, and the requirement that lists its words."""

LISTED = {words: frozenset(str(word) for word in words) for words in ROWS}


def flaw_of_word(text: str, words: type[OpenEnum], pointer: str) -> Finding | None:
    """Return the flaw of a word that is not listed, with the nearest one.

    Readers treat an unlisted word strictly (AT-VER-07), so it is a warning.
    """
    if text in LISTED[words]:
        return None
    word = shown_word(text)
    nearest = _nearest(word, words) if word else None
    advice = f"write {nearest!r}, if that is meant" if nearest else "use a listed word; others are read strictly"
    shown = repr(word) if word else "the word"
    return flaw("unlisted_word", pointer, word=shown, listed=", ".join(words), advice=advice, requirement=ROWS[words])


@lru_cache(maxsize=1024)
def _nearest(word: str, words: type[OpenEnum]) -> str | None:
    return next(iter(get_close_matches(word.lower(), LISTED[words], n=1)), None)


is_digest = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
"""Match a well-formed digest."""

_CONTENT_LISTS = ("content", "model_facing_content", "content_blocks")
_BY_REFERENCE = ("resource_link", "artifact_ref", "persisted_output_ref", "handoff_ref")
"""Classes of content whose digest is that of something elsewhere."""


def flaw_of_digest(text: str, pointer: str) -> Finding | None:
    """Return the flaw of a malformed digest."""
    return None if is_digest(text) else flaw("malformed_digest", pointer)


def check_own_digest(record: ForeignRecord) -> Iterator[Finding]:
    """Check that a record's digest is that of its canonical JSON (RFC 8785) without the digest."""
    rest: JsonObject = {name: value for name, value in record.members.items() if name != "digest"}
    content = "the record's canonical JSON without this member"
    yield from _check_digest(record, record.members.get("digest"), rest, "/digest", content)


def check_content_digests(record: ForeignRecord) -> Iterator[Finding]:
    """Check the digests beside embedded text or data."""
    for member in _CONTENT_LISTS:
        for index, item in items_of(record.members.get(member)):
            if isinstance(item, dict):
                is_elsewhere = any(item.get("type") == each for each in _BY_REFERENCE)
                embedded = (item[name] for name in ("text", "data", "blob") if item.get(name) is not None)
                content = None if is_elsewhere else next(embedded, None)
                pointer = pointer_of((member, index, "digest"))
                yield from _check_digest(record, item.get("digest"), content, pointer, "the content beside it")


def _check_digest(
    record: ForeignRecord, digest: Json, content: Json, pointer: str, description: str
) -> Iterator[Finding]:
    """Check a digest, if there is one: its form, and that it is the digest of the content, if that is known."""
    if not isinstance(digest, str):
        return
    if malformed := flaw_of_digest(digest, pointer):
        yield malformed
    elif content is not None and record.is_exact and digest not in _digests_of(content):
        yield flaw("other_digest", pointer, content=description)


def _digests_of(value: Json) -> set[str]:
    """Return the possible digests of a value: of its bytes, decoded base64, and canonical JSON."""
    digests: set[str] = set()
    if isinstance(value, str):
        digests.add(digest_of_bytes(value.encode()))
        with suppress(ValueError):
            digests.add(digest_of_bytes(base64.b64decode(value, validate=True)))
    with suppress(RecordError):
        digests.add(digest_of(value))
    return digests


_RFC_3339 = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_EVERY_MONTH_HAS = "28"
_UTC = frozenset({"Z", "z", "+00:00"})


def flaw_of_time(text: str, pointer: str) -> Finding | None:
    """Return the flaw of a time (G-03)."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        return flaw("malformed_time", pointer)
    year, month, day, offset = match.groups()
    if offset not in _UTC:
        return flaw("time_not_utc", pointer)
    if day > _EVERY_MONTH_HAS and int(day) > monthrange(max(int(year), 1), int(month))[1]:
        return flaw("no_such_day", pointer)
    return None


def is_before(one: Json, other: Json) -> bool:
    """Return whether a time is earlier than another; false for times that cannot be compared."""
    first, second = moment_of(one), moment_of(other)
    return first is not None and second is not None and first < second


def moment_of(time: Json) -> str | None:
    """Return a time as text that sorts by time, or none if it cannot be compared."""
    if not isinstance(time, str) or flaw_of_time(time, ""):
        return None
    clock, _, fraction = time.upper().removesuffix("Z").removesuffix("+00:00").partition(".")
    return f"{clock}.{fraction.rstrip('0')}"


_MAX_INT64 = (1 << 63) - 1


def whole_number(value: Json) -> int | None:
    """Return a value as an integer that SQLite can store: 1.0 is 1, a larger one is clamped; None for other values."""
    if isinstance(value, float) and not value.is_integer():
        return None
    return max(-_MAX_INT64, min(int(value), _MAX_INT64)) if isinstance(value, int | float) else None


def check_order(record: ForeignRecord) -> Iterator[Finding]:
    """Check that nothing ends before it started or was created (AT-INV-09)."""
    for member, event in (("started_at", "it started"), ("created_at", "it was created")):
        if is_before(record.members.get("ended_at"), record.members.get(member)):
            yield flaw("ended_too_early", "/ended_at", event=event, member=member)
            return


def check_values(record: ForeignRecord) -> Iterator[Finding]:
    """Check each value by its meaning."""
    for meaning, steps, text in value_places(record.members, _plan(record.kind)):
        pointer = pointer_of(steps)
        if isinstance(meaning, type) and issubclass(meaning, OpenEnum):
            found = flaw_of_word(text, meaning, pointer)
        else:
            found = flaw_of_time(text, pointer) if meaning is Timestamp else flaw_of_digest(text, pointer)
        if found:
            yield found


@cache
def _plan(kind: str) -> PlacePlan:
    """List the checked values of a kind, without its own digest: `check_own_digest` compares that."""
    return tuple(slot for slot in plan_of(RECORD_TYPES[kind], {Timestamp, Digest, *ROWS}) if slot.name != "digest")
