"""The digest of an input: it binds a decision to what was judged, and gives away nothing of it."""

import hmac

from agenttool.codec import digest_of, digest_of_any, sorted_json
from agenttool.ports.evidence import Redacts
from agenttool.records import Digest, JsonObject


def input_digest(value: JsonObject, redactor: Redacts | None, key: bytes) -> Digest:
    """Take the digest of an input for records that others read.

    Without sensitive fields it is the digest of the canonical JSON, and anyone can take it again. Whoever knows all of
    an input but a short secret could do that, too, with one guess after another; so where fields are sensitive it is
    sealed. Within a call equal inputs have equal digests either way, so that an approval is bound to the true input.
    """
    return digest_of_any(value) if redactor is None else sealed_digest(value, key)


def sealed_digest(value: JsonObject, key: bytes) -> Digest:
    """Take the digest of an input for those who have the key of its call; nobody else can, or can try a guess."""
    return digest_of({"seal": hmac.digest(key, sorted_json(value), "sha256").hex()})


def key_of(salt: bytes, model_input: bytes) -> bytes:
    """Make the key of one call, bound to what was asked for.

    The salt is known to nobody but whoever keeps the raw inputs: it is told to no record, and goes when they go. Two
    calls have different ones, so that nobody sees that both were made with the same secret.
    """
    return hmac.digest(salt, model_input, "sha256")
