"""Canonical JSON (RFC 8785) and digests."""

import hashlib
from contextlib import suppress
from typing import cast

import rfc8785

from agenttool.codec.encode import sorted_json, to_json
from agenttool.errors import RecordError
from agenttool.records import Digest, Json, Part


def canonical_json(value: Json) -> bytes:
    """Encode a JSON value as canonical JSON (RFC 8785).

    Raises:
        RecordError: it has a number beyond 2^53 or not finite, or half of a surrogate pair.
    """
    try:
        if _is_simple(value):
            with suppress(RecordError):  # half of a surrogate pair: the branch below has the better message
                return sorted_json(value)
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        reason = str(error)
    except UnicodeEncodeError:
        reason = "a string holds half of a surrogate pair"
    except RecursionError:
        reason = "it is nested too deeply"
    raise RecordError(f"value has no canonical JSON: {reason}; write such a value as a string") from None


def _is_simple(value: Json) -> bool:
    """Return whether sorted JSON is canonical JSON: no fractions, no large numbers, only ASCII names.

    RFC 8785 sorts names by their UTF-16 units, which differs from the order of their bytes beyond ASCII only.
    """
    kind = type(value)
    if kind is dict:
        members = cast("dict[str, Json]", value)
        if not _NAMES.issuperset(map(type, members)) or not "".join(members).isascii():
            return False
        return _PLAIN.issuperset(map(type, members.values())) or all(map(_is_simple, members.values()))
    if kind is list:
        return all(map(_is_simple, cast("list[Json]", value)))
    if kind is int:
        return -_SAFE <= cast("int", value) <= _SAFE
    return kind is str or kind is bool or value is None


_SAFE = 2**53 - 1
_NAMES = frozenset({str})
_PLAIN = frozenset({str, bool, type(None)})


def digest_of_bytes(data: bytes) -> Digest:
    """Return the SHA-256 of bytes, as `sha256:` and 64 hexadecimal digits."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def digest_of(value: Json) -> Digest:
    """Return the digest of a JSON value, independent of its formatting.

    Raises:
        RecordError: the value has no canonical JSON.
    """
    return digest_of_bytes(canonical_json(value))


def digest_of_any(value: Json) -> Digest:
    """Return the digest of any JSON value; of sorted JSON where it has no canonical JSON.

    Raises:
        RecordError: it is not a JSON value.
    """
    try:
        return digest_of(value)
    except RecordError:
        return digest_of_bytes(sorted_json(value))


def record_digest(record: Part) -> Digest:
    """Return the digest of a record without its own `digest` member.

    Raises:
        RecordError: a value in the record has no canonical JSON.
    """
    members = to_json(record)
    members.pop("digest", None)
    return digest_of(cast("Json", members))
