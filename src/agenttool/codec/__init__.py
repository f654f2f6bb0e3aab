"""Encode and decode records; unknown members are preserved."""

from agenttool.codec.decode import (
    UNREADABLE,
    flat_reader,
    from_json,
    parse_object,
    parse_value,
    read,
    read_any,
    read_own,
    shaped,
)
from agenttool.codec.depth import SHALLOW, is_too_deep
from agenttool.codec.encode import (
    RawJson,
    canonical_json,
    clone,
    digest_of,
    digest_of_any,
    digest_of_bytes,
    json_bytes,
    record_digest,
    sorted_json,
    to_json,
    write,
    write_own,
)

__all__ = [
    "SHALLOW",
    "UNREADABLE",
    "RawJson",
    "canonical_json",
    "clone",
    "digest_of",
    "digest_of_any",
    "digest_of_bytes",
    "flat_reader",
    "from_json",
    "is_too_deep",
    "json_bytes",
    "parse_object",
    "parse_value",
    "read",
    "read_any",
    "read_own",
    "record_digest",
    "shaped",
    "sorted_json",
    "to_json",
    "write",
    "write_own",
]
