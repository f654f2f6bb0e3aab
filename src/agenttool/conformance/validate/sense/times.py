"""Is a time a moment in UTC that exists, and do the moments of a record come in order."""

import re
from calendar import monthrange
from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.records import Json

_RFC_3339 = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_EVERY_MONTH_HAS = "28"
_UTC = frozenset({"Z", "z", "+00:00"})

is_plain_time = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z"
).fullmatch
"""Match the times of which nothing more need be asked: nearly all of them."""


def flaw_of_time(text: str, pointer: str) -> Flaw | None:
    """Say what is wrong with a time (G-03)."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        return _flaw("the time is not written as RFC 3339 asks", "write it anew", pointer)
    year, month, day, offset = match.groups()
    if offset not in _UTC:
        return _flaw("the time is not in UTC", "convert it to UTC", pointer)
    if day > _EVERY_MONTH_HAS and int(day) > monthrange(max(int(year), 1), int(month))[1]:
        return _flaw("there is no such day", "write it anew", pointer)
    return None


def _flaw(message: str, advice: str, pointer: str) -> Flaw:
    expected = "RFC 3339 in UTC, such as 2026-05-08T00:00:00Z"
    return Flaw(message=message, expected=expected, advice=advice, pointer=pointer, requirement="G-03")


def is_before(one: Json, other: Json) -> bool:
    """Tell whether a time is earlier than another; times that are not fit to be compared are not."""
    if one == other or not isinstance(one, str) or not isinstance(other, str):
        return False
    if is_plain_time(one) and is_plain_time(other) and len(one) == len(other):
        return one < other
    return not flaw_of_time(one, "") and not flaw_of_time(other, "") and _moment(one) < _moment(other)


def moment_of(time: Json) -> str | None:
    """Give a time so that text sorts as moments do, if it is fit to be compared."""
    if not isinstance(time, str) or flaw_of_time(time, ""):
        return None
    return ".".join(_moment(time))


def _moment(text: str) -> tuple[str, str]:
    clock, _, fraction = text.upper().removesuffix("Z").removesuffix("+00:00").partition(".")
    return clock, fraction.rstrip("0")


def check_order(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that nothing ends before it started, or before there was a record of it (AT-INV-09)."""
    for member, event in (("started_at", "it started"), ("created_at", "it was created")):
        if is_before(record.members.get("ended_at"), record.members.get(member)):
            yield Flaw(
                message=f"it ended before {event}",
                expected=f"a time not before {member}",
                advice="take both times from one clock",
                pointer="/ended_at",
                requirement="AT-INV-09",
            )
            return
