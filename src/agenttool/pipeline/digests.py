"""The digest of an input, for any input that JSON can carry."""

from agenttool.codec import digest_of, digest_of_bytes, sorted_json
from agenttool.errors import RecordError
from agenttool.records import Digest, Json


def input_digest(value: Json) -> Digest:
    """Take the digest of canonical JSON; where that has no spelling, as for integers beyond 2^53, of sorted JSON."""
    try:
        return digest_of(value)
    except RecordError:
        return digest_of_bytes(sorted_json(value))
