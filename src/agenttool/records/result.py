"""Results of calls, and where their bytes are stored."""

from agenttool.records.content import ContentClass, ContentItem, RedactionState, Ref, TelemetryRef
from agenttool.records.error import ToolError
from agenttool.records.ids import InvocationId, PersistenceId, ResultId
from agenttool.records.mapping import ExternalMapping
from agenttool.records.record import (
    SCHEMA_VERSION,
    UNSET,
    ClosedEnum,
    Json,
    JsonObject,
    OpenEnum,
    Record,
    Timestamp,
    UnsetType,
)
from agenttool.records.status import AbortReason


class ResultStatus(OpenEnum):
    """What the consumer receives."""

    SUCCEEDED = "succeeded"
    PARTIAL_SUCCEEDED = "partial_succeeded"
    FAILED = "failed"
    DENIED = "denied"
    REJECTED = "rejected"
    REDACTED = "redacted"
    TOO_LARGE = "too_large"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"
    SYNTHETIC_ERROR = "synthetic_error"
    DISCARDED = "discarded"

    @property
    def is_error(self) -> bool:
        """Whether the consumer must treat it as an error: all except the two that succeeded."""
        return self not in (ResultStatus.SUCCEEDED, ResultStatus.PARTIAL_SUCCEEDED)


class ToolResult(Record, frozen=True, kw_only=True, tag="tool_result"):
    """The one result of one call, however it ended; each representation stays in its own field (AT-IFACE-30).

    Attributes:
        status: how the call ended.
        is_error: whether the caller must treat it as an error.
        error: the class, code and message of the error; None if it succeeded.
        content: the output as content items: text, images, files.
        structured_content: the output as JSON data.
        model_facing_content: the content that a model reads, if it is not `content`.
        empty_result: whether the tool returned nothing.
        native_output_ref: where the stored output of the tool is.
        artifact_refs: the files that the tool made.
        persistence_refs: the decisions to store, shorten or drop the output.
        redaction_state: whether secrets were masked.
        abort_reason: why the call was canceled.
        summary: one line about the result.
        ui_facing_summary: the summary for people.
    """

    result_id: ResultId
    invocation_id: InvocationId
    status: ResultStatus
    is_error: bool | None = None
    content: tuple[ContentItem, ...] | None = None
    structured_content: Json | UnsetType = UNSET
    model_facing_content: tuple[ContentItem, ...] | None = None
    empty_result: bool | None = None
    ui_facing_summary: str | None = None
    ui_facing_rendering: Json | UnsetType = UNSET
    transcript_search_text: str | None = None
    native_output_ref: str | None = None
    resource_refs: tuple[Ref, ...] | None = None
    artifact_refs: tuple[Ref, ...] | None = None
    evidence_refs: tuple[str, ...] | None = None
    policy_refs: tuple[str, ...] | None = None
    telemetry_refs: tuple[TelemetryRef, ...] | None = None
    persistence_refs: tuple[PersistenceId, ...] | None = None
    input_mutation_refs: tuple[str, ...] | None = None
    summary: str | None = None
    redaction_state: RedactionState | None = None
    abort_reason: AbortReason | None = None
    error: ToolError | None = None
    external_mappings: tuple[ExternalMapping, ...] | None = None
    created_at: Timestamp

    @property
    def ok(self) -> bool:
        """Whether the call succeeded, at least in part."""
        return not self.status.is_error

    @property
    def text(self) -> str:
        """The text that a model reads: of the output, or of the error."""
        items = self.content if self.model_facing_content is None else self.model_facing_content
        return "\n".join(item.text for item in items or () if item.text is not None)

    @property
    def value(self) -> Json:
        """The output as JSON data: what the tool returned, or else its text; None if there is none, or it failed."""
        if self.structured_content is not UNSET:
            return self.structured_content
        return None if self.empty_result or not self.ok else self.text

    def __repr__(self) -> str:
        """Return the status and the start of the text, on one line."""
        text = " ".join(self.text.split())
        shown = text if len(text) <= _REPR_CHARS else f"{text[: _REPR_CHARS - 1]}…"
        return f"ToolResult({self.status.value}, {shown!r}, {self.invocation_id})"


_REPR_CHARS = 80


def plain_result(
    text: str,
    structured: Json | UnsetType,
    invocation_id: InvocationId,
    result_id: ResultId,
    created_at: Timestamp,
    input_mutation_refs: tuple[str, ...] | None = None,
) -> ToolResult:
    """Return the result of a call that succeeded with a text and the value that it was made from."""
    content = (ContentItem(type=_TEXT, text=text),)
    return ToolResult(
        schema_version=SCHEMA_VERSION,
        result_id=result_id,
        invocation_id=invocation_id,
        status=_SUCCEEDED,
        is_error=False,
        content=content,
        structured_content=structured,
        model_facing_content=content,
        input_mutation_refs=input_mutation_refs,
        redaction_state=_NOT_REDACTED,
        created_at=created_at,
    )


_TEXT = ContentClass.TEXT
_SUCCEEDED = ResultStatus.SUCCEEDED
_NOT_REDACTED = RedactionState.NONE


class PersistenceStrategy(ClosedEnum):
    """How the bytes of a result are delivered or stored."""

    INLINE = "inline"
    PREVIEW_AND_PERSIST = "preview_and_persist"
    REF_ONLY = "ref_only"
    REDACT = "redact"
    DROP_WITH_REASON = "drop_with_reason"
    NEVER_PERSIST = "never_persist"


class ResultPersistence(Record, frozen=True, kw_only=True, tag="tool_result_persistence"):
    """The decision to inline, preview, store, redact or drop, with the limit that led to it."""

    decision_id: PersistenceId
    invocation_id: InvocationId
    result_id: ResultId | None = None
    strategy: PersistenceStrategy
    threshold: JsonObject | None = None
    original_size_bytes: int | None = None
    preview_size_bytes: int | None = None
    persisted_ref: Ref | None = None
    redaction_state: RedactionState | None = None
    reason: str | None = None
    created_at: Timestamp
