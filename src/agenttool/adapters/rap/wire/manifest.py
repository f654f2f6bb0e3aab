"""The manifest of a toolset: valid as a whole, or not at all."""

from collections import Counter
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, field

from agenttool.adapters.rap.wire.message import Message, read
from agenttool.errors import RecordError
from agenttool.records import JsonObject
from agenttool.schema.compile import compile_schema

_ToolName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}\Z")]
_HINTS = {"requiresAuth": str, "readOnly": bool, "destructive": bool, "idempotent": bool, "longRunning": bool}


class ToolDefinition(Message, frozen=True, kw_only=True):
    """One tool of a toolset. Its description, annotations and script are a stranger's words."""

    name: _ToolName
    description: str
    input_schema: JsonObject = field(name="inputSchema")
    annotations: JsonObject | None = None
    display_script: str | None = field(name="displayScript", default=None)

    def __post_init__(self) -> None:
        """Refuse hints of another type; keys that are not of the protocol may hold anything."""
        for name, kind in _HINTS.items():
            value = (self.annotations or {}).get(name)
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"annotation {name!r} must be a {kind.__name__}; correct it, or leave it out")


class Manifest(Message, frozen=True, kw_only=True):
    """What a tool server offers, and where its invocations go."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    description: str | None = None
    endpoint: str
    needs_migration: bool = field(name="needsMigration", default=False)
    tools: Annotated[tuple[ToolDefinition, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Refuse an endpoint that nothing can be posted to, and tools that share a name."""
        if not _is_http_url(self.endpoint):
            raise ValueError("endpoint must be an absolute http or https URL; write it in full")
        twice = [name for name, count in Counter(tool.name for tool in self.tools).items() if count > 1]
        if twice:
            raise ValueError(f"tools must have names of their own, got {twice[0]!r} twice; rename one")


def read_manifest(data: bytes) -> Manifest:
    """Read a manifest and try every schema in it.

    Raises:
        RecordError: anything in it is wrong, so that none of its tools may be offered; the pointer says where.
    """
    manifest = read(data, Manifest)
    for place, tool in enumerate(manifest.tools):
        try:
            compile_schema(tool.input_schema)
        except RecordError as error:
            pointer = f"/tools/{place}/inputSchema"
            raise RecordError(f"inputSchema of tool {tool.name!r} is {error}", pointer=pointer) from error
    return manifest


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
