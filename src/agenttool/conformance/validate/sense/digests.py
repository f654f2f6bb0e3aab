"""Is a digest well formed, and does it match what it stands for, where that is at hand."""

import base64
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from agenttool.codec import digest_of, digest_of_bytes
from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of

is_digest = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
"""Match a well-formed digest."""

_CONTENT_LISTS = ("content", "model_facing_content", "content_blocks")
_BY_REFERENCE = ("resource_link", "artifact_ref", "persisted_output_ref", "handoff_ref")
"""Classes of content whose digest is that of something elsewhere."""


def flaw_of_digest(text: str, pointer: str) -> Flaw | None:
    """Ask for the form of a digest."""
    if is_digest(text):
        return None
    return Flaw(
        message="the digest is not well formed",
        expected="sha256: and 64 lower-case hexadecimal digits",
        advice="take the digest anew, or leave it out",
        pointer=pointer,
        requirement="AT-REF-03",
    )


def check_own_digest(record: ForeignRecord) -> Iterable[Flaw]:
    """Ask that a record's own digest is that of its canonical JSON (RFC 8785) without the digest itself."""
    own = record.members.get("digest")
    if not isinstance(own, str):
        return ()
    if malformed := flaw_of_digest(own, "/digest"):
        return (malformed,)
    rest = {name: value for name, value in record.members.items() if name != "digest"}
    if not record.is_exact or own in _digests_of(rest):
        return ()
    return (_mismatch("/digest", "the digest of the record's canonical JSON without this member"),)


def check_content_digests(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that the digest beside embedded text or data is theirs."""
    if b'digest"' not in record.text:
        return
    for member in _CONTENT_LISTS:
        items = record.members.get(member)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict) and "digest" in item:
                yield from _check_item(item, pointer_of((member, index, "digest")), is_exact=record.is_exact)


def _check_item(item: JsonObject, pointer: str, *, is_exact: bool) -> Iterator[Flaw]:
    digest = item.get("digest")
    if not isinstance(digest, str):
        return
    if malformed := flaw_of_digest(digest, pointer):
        yield malformed
        return
    embedded = next((item[name] for name in ("text", "data", "blob") if item.get(name) is not None), None)
    is_elsewhere = any(item.get("type") == each for each in _BY_REFERENCE)
    if embedded is None or not is_exact or is_elsewhere:
        return
    if digest not in _digests_of(embedded):
        yield _mismatch(pointer, "the digest of the content beside it")


def _digests_of(value: Json) -> set[str]:
    """Give every digest that one may take of a value: of its bytes if it has some, and of its canonical JSON."""
    digests: set[str] = set()
    if isinstance(value, str):
        digests.add(digest_of_bytes(value.encode()))
        with suppress(ValueError):
            digests.add(digest_of_bytes(base64.b64decode(value, validate=True)))
    with suppress(RecordError):
        digests.add(digest_of(value))
    return digests


def _mismatch(pointer: str, expected: str) -> Flaw:
    return Flaw(
        message="the digest does not match",
        expected=expected,
        advice="find out which of the two was changed; then take the digest anew",
        pointer=pointer,
        requirement="AT-REF-03",
    )
