"""The digest of an input: it binds a decision to the input that was judged, and reveals nothing of it."""

import hmac

from agenttool.codec import digest_of, digest_of_any, sorted_json
from agenttool.records import Digest, JsonObject


def input_digest(value: JsonObject, redactor: object | None, key: bytes) -> Digest:
    """Return the digest of an input for records.

    Without sensitive fields it is the digest of the canonical JSON, which any reader can compute. With sensitive fields
    (`redactor` is not None) that digest would let a reader guess a short secret, so it is sealed with the key of the
    call. Within a call, equal inputs have equal digests either way.
    """
    return digest_of_any(value) if redactor is None else sealed_digest(value, key)


def sealed_digest(value: JsonObject, key: bytes) -> Digest:
    """Return the digest of an input that only a holder of the call's key can compute."""
    return digest_of({"seal": hmac.digest(key, sorted_json(value), "sha256").hex()})


def key_of(salt: bytes, model_input: bytes) -> bytes:
    """Return the key of one call, bound to its model input.

    The salt is stored with the raw inputs only and deleted with them; no record contains it. Each call has its own, so
    that two calls with the same secret cannot be recognized.
    """
    return hmac.digest(salt, model_input, "sha256")
