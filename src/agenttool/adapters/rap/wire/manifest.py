"""The manifest of a toolset: valid as a whole, or not at all.

What makes it valid are names, descriptions, schemas and the endpoint (RAP-146 to RAP-151). Annotations and scripts are
hints: one that makes no sense is not gone by, and costs nothing else.
"""

import re
from collections import Counter
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, field

from agenttool.adapters.rap.wire.message import Message, read
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema

_ToolName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}\Z")]
_PLAIN = re.compile(r"[\x21-\x7e]+")
_HINTS = {"requiresAuth": str, "readOnly": bool, "destructive": bool, "idempotent": bool, "longRunning": bool}


class ToolDefinition(Message, frozen=True, kw_only=True):
    """One tool of a toolset. Its description, annotations and script are a stranger's words."""

    name: _ToolName
    description: str
    input_schema: JsonObject = field(name="inputSchema")
    annotations: Json = None
    display_script: Json = field(name="displayScript", default=None)

    @property
    def hints(self) -> JsonObject:
        """The annotations, if they are an object."""
        return self.annotations if isinstance(self.annotations, dict) else {}

    @property
    def odd_hints(self) -> tuple[str, ...]:
        """What is not of the type that the protocol gives it; keys that are not the protocol's may hold anything."""
        odd = [name for name, kind in _HINTS.items() if not isinstance(self.hints.get(name), kind | None)]
        if self.annotations is not None and not isinstance(self.annotations, dict):
            odd.append("annotations")
        if not isinstance(self.display_script, str | None):
            odd.append("displayScript")
        return tuple(odd)


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
    """Tell whether a request could go there; a library would drop ends of lines, and take no port for the usual one."""
    if not _PLAIN.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False
