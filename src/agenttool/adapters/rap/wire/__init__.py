"""Every message of the Reactive Agent Protocol: strict when read, clean when written, the same for both sides."""

from agenttool.adapters.rap.wire.callbacks import (
    LONGEST_PROMPT,
    MOST_CHOICES,
    Callback,
    OAuth,
    SubscriptionEvent,
    ToolResultMessage,
    UserChoice,
    ViewUpdate,
    read_callback,
)
from agenttool.adapters.rap.wire.content import (
    ContentItem,
    ImageItem,
    Segment,
    TextItem,
    shown_diff,
    shown_image,
    shown_text,
)
from agenttool.adapters.rap.wire.invocation import Invocation, ReturnAddress
from agenttool.adapters.rap.wire.manifest import Manifest, ToolDefinition, read_manifest
from agenttool.adapters.rap.wire.message import Message, read, write
from agenttool.adapters.rap.wire.notices import CancelToolCall, CloseThread, Migrate, Selection

__all__ = [
    "LONGEST_PROMPT",
    "MOST_CHOICES",
    "Callback",
    "CancelToolCall",
    "CloseThread",
    "ContentItem",
    "ImageItem",
    "Invocation",
    "Manifest",
    "Message",
    "Migrate",
    "OAuth",
    "ReturnAddress",
    "Segment",
    "Selection",
    "SubscriptionEvent",
    "TextItem",
    "ToolDefinition",
    "ToolResultMessage",
    "UserChoice",
    "ViewUpdate",
    "read",
    "read_callback",
    "read_manifest",
    "shown_diff",
    "shown_image",
    "shown_text",
    "write",
]
