"""Pointers to stored bytes: named by their content, so that equal bytes have one name and a name can be checked."""

from agenttool.codec import digest_of_bytes
from agenttool.records import (
    ContentItem,
    Digest,
    Json,
    Part,
    RedactionState,
    Ref,
    Timestamp,
    ToolResult,
    replace,
)

PAYLOAD_SCHEME = "payload:"
"""What the id of stored bytes starts with; the digest follows, so the id is a URI that anyone can verify."""

RUNTIME_ACCESS: Json = {"scope": "runtime"}
"""Who may read stored bytes unless a policy says more: whoever may read the records of this runtime."""


class Payload(Part, frozen=True, kw_only=True):
    """Bytes that must be stored, and the ref under which the result names them."""

    data: bytes
    ref: Ref


def payload_id(digest: Digest) -> str:
    """Name stored bytes by their digest."""
    return PAYLOAD_SCHEME + digest


def payload_of(
    data: bytes,
    *,
    media_type: str,
    relation: str,
    title: str | None = None,
    redaction_state: RedactionState = RedactionState.NONE,
    access: Json = RUNTIME_ACCESS,
) -> Payload:
    """Pair bytes with a ref that has all the facts a reader needs before fetching them (AT-REF-03)."""
    digest = digest_of_bytes(data)
    ref = Ref(
        id=payload_id(digest),
        uri=payload_id(digest),
        media_type=media_type,
        digest=digest,
        size_bytes=len(data),
        access=access,
        relation=relation,
        redaction_state=redaction_state,
        title=title,
    )
    return Payload(data=data, ref=ref)


def expire_payload(result: ToolResult, payload: str, *, expires_at: Timestamp) -> ToolResult:
    """Mark every ref to one payload as expired at a time; none is taken off its list (AT-REF-07)."""

    def marked(ref: Ref) -> Ref:
        return replace(ref, expires_at=expires_at) if ref.id == payload else ref

    def items(content: tuple[ContentItem, ...] | None) -> tuple[ContentItem, ...] | None:
        return content and tuple(replace(item, ref=marked(item.ref)) if item.ref else item for item in content)

    return replace(
        result,
        content=items(result.content),
        model_facing_content=items(result.model_facing_content),
        resource_refs=result.resource_refs and tuple(map(marked, result.resource_refs)),
        artifact_refs=result.artifact_refs and tuple(map(marked, result.artifact_refs)),
    )


def has_expired(ref: Ref, now: Timestamp) -> bool:
    """Tell whether what a ref points to is gone; times of one spelling compare as text."""
    return ref.expires_at is not None and ref.expires_at <= now


def stored_at(payload: Payload, uri: str) -> Ref:
    """Give the ref of a payload with the address that its store gave it."""
    return replace(payload.ref, uri=uri)
