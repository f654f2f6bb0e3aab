"""What is remembered of a decision, and of the input it was about."""

from agenttool.codec import digest_of
from agenttool.conformance.validate.facts import Row, key_of
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.conformance.validate.sense.digests import is_digest
from agenttool.conformance.validate.sense.secrets import is_redacted
from agenttool.conformance.validate.sense.times import moment_of
from agenttool.conformance.validate.trail import walk
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject


def facts_of_decision(members: JsonObject) -> Row:
    """Give the call, the behavior, the moment, the digest of the input, and whether a person edited that."""
    digest = members.get("input_digest")
    return (
        _key(members.get("invocation_id")),
        _key(members.get("behavior")),
        moment_of(members.get("decided_at")),
        digest if isinstance(digest, str) and is_digest(digest) else None,
        members.get("user_modified") is True,
    )


def digest_of_input(record: ForeignRecord, member: str) -> str | None:
    """Take the digest of an input that is there as it was; not of one that was redacted or cannot be spelled."""
    value = record.members.get(member)
    if not isinstance(value, dict) or not record.is_exact:
        return None
    if _was_redacted(value) or any(_was_redacted(each) for _, _, each in walk(value)):
        return None
    try:
        return digest_of(value)
    except RecordError:
        return None


def _was_redacted(value: Json) -> bool:
    """Nothing at all is no marker here: it may be what was given."""
    return value is not None and value != "" and is_redacted(value)


def _key(value: Json) -> str | None:
    return key_of(value) if isinstance(value, str) else None
