"""Single values: every word, time and digest that stands where the types of the records put one."""

from collections.abc import Iterable
from functools import cache

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.places import Fits, Meaning, Place, Plan, all_fit, places, plan_of
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.digests import flaw_of_digest, is_digest
from agenttool.conformance.validate.sense.open_lists import LISTED, flaw_of_word
from agenttool.conformance.validate.sense.times import flaw_of_time, is_plain_time
from agenttool.records import RECORD_TYPES, Digest, OpenEnum, Timestamp
from agenttool.schema.explain import pointer_of

_FITS: dict[Meaning, Fits] = {
    Timestamp: is_plain_time,
    Digest: is_digest,
    **{words: listed.__contains__ for words, listed in LISTED.items()},
}


def check_values(record: ForeignRecord) -> Iterable[Flaw]:
    """Judge each value by what it means."""
    plan = _plan(record.kind)
    if all_fit(record.members, plan):
        return ()
    return filter(None, map(_flaw_of, places(record.members, plan)))


@cache
def _plan(kind: str) -> Plan:
    """List the places of a kind; the digest of the record itself is compared as well, see `digests`."""
    return tuple(slot for slot in plan_of(RECORD_TYPES[kind], _FITS) if slot.name != "digest")


def _flaw_of(place: Place) -> Flaw | None:
    meaning, pointer = place.meaning, pointer_of(place.steps)
    if isinstance(meaning, type) and issubclass(meaning, OpenEnum):
        return flaw_of_word(place.text, meaning, pointer)
    return flaw_of_time(place.text, pointer) if meaning is Timestamp else flaw_of_digest(place.text, pointer)
