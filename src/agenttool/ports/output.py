"""What an executor hands back, before anyone has mapped it: a plain value, or this when there is more to say."""

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


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound, a film or a file: it becomes a ref with a digest, and never text.

    Attributes:
        is_content: a function that returns this returns content, which no schema describes.
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
    """What of a call succeeded and what failed, told apart (AT-RES-08)."""

    succeeded: tuple[Json, ...] = ()
    failed: tuple[FailedItem, ...] = ()


class NativeError(Part, frozen=True, kw_only=True):
    """What the native side says about its failure; `native_error_ref` keeps its own words reachable (AT-ERR-16)."""

    message: str | None = None
    error_class: ErrorClass = ErrorClass.EXECUTION_FAILED
    error_code: str | None = None
    retry_after: float | None = None
    native_error_ref: Json | UnsetType = UNSET


class NativeOutput(Part, frozen=True, kw_only=True, gc=True):
    """The output of one run, with whatever a bare value cannot say.

    A tool without such things to say returns its value alone. `value` is any Python value; explicit `content` is for
    a tool that knows its content classes; a search text or a UI summary is a hint that never becomes content.
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
