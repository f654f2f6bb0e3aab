"""Content items of results and prompts."""

from agenttool.records.record import UNSET, Part, UnsetType
from agenttool.records.refs import RedactionState, Ref
from agenttool.records.tokens import OpenEnum
from agenttool.records.values import Json


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
