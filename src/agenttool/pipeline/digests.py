"""The digest of an input: it binds a decision to what was judged, and gives away nothing of it."""

import hmac

from agenttool.codec import digest_of, digest_of_any, sorted_json
from agenttool.records import Digest, JsonObject
from agenttool.results.redaction import Redactor


def input_digest(value: JsonObject, redactor: Redactor | None, key: bytes) -> Digest:
    """Take the digest of an input for records that others read.

    Without sensitive fields it is the digest of the canonical JSON, and anyone can take it again. Whoever knows all of
    an input but a short secret could do that, too, with one guess after another; so where fields are sensitive the
    digest is taken of what is shown and of a seal on what is not, made with a key that never leaves this runtime. Equal
    inputs have equal digests either way, so that an approval is still bound to the true input.
    """
    if redactor is None:
        return digest_of_any(value)
    seal = hmac.digest(key, sorted_json(value), "sha256").hex()
    return digest_of({"shown": digest_of_any(redactor.redact(value)), "seal": seal})
