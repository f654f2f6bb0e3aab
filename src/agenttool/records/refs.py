"""Pointers to what other systems own: resources, artifacts, payloads, traces."""

from agenttool.records.record import UNSET, Part, UnsetType
from agenttool.records.tokens import OpenEnum
from agenttool.records.values import Digest, Json, JsonObject, Timestamp


class RedactionState(OpenEnum):
    """How much was redacted before this was written (G-55)."""

    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"


class Ref(Part, frozen=True, kw_only=True):
    """A pointer to a resource, an artifact or stored bytes (G-61); it outlives what it points to (AT-REF-07)."""

    id: str | None = None
    uri: str | None = None
    native_ref: Json | UnsetType = UNSET
    media_type: str | None = None
    digest: Digest | None = None
    size_bytes: int | None = None
    access: Json | UnsetType = UNSET
    relation: str | None = None
    redaction_state: RedactionState | None = None
    expires_at: Timestamp | None = None
    title: str | None = None


class TelemetryRef(Part, frozen=True, kw_only=True):
    """A pointer to a span of a trace, without content."""

    trace_id: str | None = None
    span_id: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    request_id: str | None = None
    duration_ms: float | None = None
    result_size_bytes: int | None = None
    attributes: JsonObject | None = None
