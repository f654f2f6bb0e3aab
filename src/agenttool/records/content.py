"""Content items of results and prompts, and refs to resources, artifacts, payloads and traces."""

from agenttool.records.record import UNSET, Digest, Json, JsonObject, OpenEnum, Part, Timestamp, UnsetType

PAYLOAD_SCHEME = "payload:"
"""The prefix of every payload id. The digest follows, so a reader can verify the bytes by their id."""


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


class ContentClass(OpenEnum):
    """The thirteen classes of content; media and large bytes are refs, never text (AT-RES-12)."""

    TEXT = "text"
    STRUCTURED_CONTENT = "structured_content"
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"
    RESOURCE_LINK = "resource_link"
    EMBEDDED_RESOURCE = "embedded_resource"
    LOG = "log"
    DIFF = "diff"
    ARTIFACT_REF = "artifact_ref"
    PERSISTED_OUTPUT_REF = "persisted_output_ref"
    HANDOFF_REF = "handoff_ref"


class ContentItem(Part, frozen=True, kw_only=True):
    """One item: its class, and the member that class uses (`text`, `data` or `ref`)."""

    type: ContentClass
    text: str | None = None
    data: Json | UnsetType = UNSET
    ref: Ref | None = None
    uri: str | None = None
    name: str | None = None
    media_type: str | None = None
    redaction_state: RedactionState | None = None
    annotations: Json | UnsetType = UNSET


def text_item(text: str) -> ContentItem:
    """Make an item of plain text."""
    return ContentItem(type=ContentClass.TEXT, text=text)
