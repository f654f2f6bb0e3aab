"""The native output of a tool: `NativeOutput`, for tools that return more than a plain value."""

from dataclasses import dataclass
from typing import ClassVar

from agenttool.records import (
    UNSET,
    ContentItem,
    ErrorClass,
    ExternalMapping,
    Json,
    JsonObject,
    Part,
    Ref,
    TelemetryRef,
    UnsetType,
)

MAX_VALUES = 100_000
"""How many values a result may hold."""

MAX_TEXT_CHARS = 2_000_000
"""How many characters a text of a result, or its value as JSON, may have. A tool can return more as a file."""


@dataclass(frozen=True, slots=True)
class Media:
    """An image, audio, video or file; its bytes become a ref with a digest, never text.

    Attributes:
        is_content: whether a function that returns this class returns content, which has no schema.
    """

    is_content: ClassVar[bool] = True

    data: bytes
    media_type: str | None = None
    name: str | None = None


class FailedItem(Part, frozen=True, kw_only=True):
    """One item of a call that failed while others did not."""

    item: Json
    message: str


class Partial(Part, frozen=True, kw_only=True):
    """The items of a call that succeeded, and those that failed (AT-RES-08)."""

    succeeded: tuple[Json, ...] = ()
    failed: tuple[FailedItem, ...] = ()


class NativeError(Part, frozen=True, kw_only=True):
    """The failure that the native system reported; `native_error_ref` refers to its original form (AT-ERR-16)."""

    message: str | None = None
    error_class: ErrorClass = ErrorClass.EXECUTION_FAILED
    error_code: str | None = None
    retry_after: float | None = None
    native_error_ref: Json | UnsetType = UNSET


class NativeOutput(Part, frozen=True, kw_only=True, gc=True):
    """The output of one run, with content, refs, errors or hints beside its value.

    A tool without these returns its value alone. `value` is any Python value. Explicit `content` is for a tool that
    chooses its content classes. A search text or a UI summary is a hint and never becomes content.
    """

    value: object = UNSET
    content: tuple[ContentItem | Media, ...] | None = None
    structured_content: object = UNSET
    resource_refs: tuple[Ref, ...] | None = None
    artifact_refs: tuple[Ref, ...] | None = None
    evidence_refs: tuple[str, ...] | None = None
    telemetry_refs: tuple[TelemetryRef, ...] | None = None
    is_error: bool = False
    error: NativeError | None = None
    partial: Partial | None = None
    external_mappings: tuple[ExternalMapping, ...] | None = None
    context_modifiers: tuple[JsonObject, ...] | None = None
    summary: str | None = None
    ui_facing_summary: str | None = None
    ui_facing_rendering: Json | UnsetType = UNSET
    transcript_search_text: str | None = None
