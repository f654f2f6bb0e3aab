"""One spelling per value: canonical JSON (RFC 8785), and the digests taken of it."""

import hashlib
from typing import cast

import rfc8785

from agenttool.codec.write import sorted_json, to_json
from agenttool.errors import RecordError
from agenttool.records import Digest, Json, Part


def canonical_json(value: Json) -> bytes:
    """Write a JSON value in its one canonical spelling.

    Raises:
        RecordError: there is none: a number beyond 2^53 or not finite, or half of a surrogate pair.
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        reason = str(error)
    except UnicodeEncodeError:
        reason = "a string holds half of a surrogate pair"
    except RecursionError:
        reason = "it is nested too deeply"
    raise RecordError(f"value has no canonical JSON: {reason}; write such a value as a string") from None


def digest_of_bytes(data: bytes) -> Digest:
    """Take the sha256 of bytes, as `sha256:` and 64 hexadecimal digits."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def digest_of(value: Json) -> Digest:
    """Take the digest of a JSON value, independent of how it was spelled.

    Raises:
        RecordError: the value has no canonical spelling.
    """
    return digest_of_bytes(canonical_json(value))


def digest_of_any(value: Json) -> Digest:
    """Take the digest of any JSON value: where it has no canonical spelling, as beyond 2^53, that of sorted JSON.

    Raises:
        RecordError: it is no JSON value.
    """
    try:
        return digest_of(value)
    except RecordError:
        return digest_of_bytes(sorted_json(value))


def record_digest(record: Part) -> Digest:
    """Take the digest of a record without its own `digest` member, so that a record can carry it.

    Raises:
        RecordError: a value in the record has no canonical spelling.
    """
    members = to_json(record)
    members.pop("digest", None)
    return digest_of(cast("Json", members))
