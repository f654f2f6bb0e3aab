"""Bytes to records and back, without losing a stranger's words."""

from agenttool.codec.canonical import canonical_json, digest_of, digest_of_any, digest_of_bytes, record_digest
from agenttool.codec.depth import SHALLOW, is_too_deep
from agenttool.codec.flat import flat_reader, shaped
from agenttool.codec.own import read_own, write_own
from agenttool.codec.read import (
    UNREADABLE,
    from_json,
    parse_object,
    parse_value,
    read,
    read_any,
    read_lines,
    read_object,
)
from agenttool.codec.strangers import strangers
from agenttool.codec.write import Spelled, json_bytes, sorted_json, to_json, write

__all__ = [
    "SHALLOW",
    "UNREADABLE",
    "Spelled",
    "canonical_json",
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
    "read_lines",
    "read_object",
    "read_own",
    "record_digest",
    "shaped",
    "sorted_json",
    "strangers",
    "to_json",
    "write",
    "write_own",
]
