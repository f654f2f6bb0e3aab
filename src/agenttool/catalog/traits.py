"""What decides whether a tool is on a surface; tools that are alike in this share one answer."""

from collections.abc import Iterator

from agenttool.codec import sorted_json
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    UNSET,
    ContentClass,
    Json,
    JsonObject,
    Lifecycle,
    Part,
    SchemaVisibility,
    ToolKind,
    acted_on,
)

BYTES_A_TOKEN = 4
"""English and JSON come to about this; a tokenizer would be exact for one model, and wrong for all others."""

_MEDIA = frozenset({ContentClass.IMAGE, ContentClass.AUDIO, ContentClass.VIDEO})
_OWNED = frozenset({ToolKind.SKILL_TOOL, ToolKind.PEER_AGENT_TOOL})


class Traits(Part, frozen=True, kw_only=True):
    """All that filters look at.

    Attributes:
        owner: the skill or the peer that a tool belongs to.
        needs: what a model must support, in the words of `ModelCapabilities`.
        waits: its author wants it to be searched for.
        stays: its author wants it to be shown, however many there are.
    """

    lifecycle: Lifecycle
    kind: ToolKind
    owner: str | None
    is_enabled: bool
    visibility: SchemaVisibility | None
    needs_setup: bool
    needs_person: bool
    only_reads: bool
    credentials: frozenset[str]
    gates: frozenset[str]
    needs: frozenset[str]
    waits: bool
    stays: bool


def traits_of(tool: DeclaredTool) -> Traits:
    """Read what decides."""
    declaration, interface = tool.declaration, tool.interface
    return Traits(
        lifecycle=declaration.lifecycle,
        kind=declaration.tool_kind,
        owner=declaration.namespace if declaration.tool_kind in _OWNED else None,
        is_enabled=interface.is_enabled is not False,
        visibility=interface.schema_visibility,
        needs_setup=bool(interface.requires_setup),
        needs_person=bool(interface.requires_user_interaction),
        only_reads=acted_on(interface, "is_read_only") is True,
        credentials=frozenset(interface.required_credentials or ()),
        gates=frozenset(interface.feature_gate_refs or ()),
        needs=frozenset(_needs(tool)),
        waits=_waits(tool),
        stays=bool(interface.always_load),
    )


def _waits(tool: DeclaredTool) -> bool:
    visibility = tool.interface.schema_visibility
    hidden = visibility in (SchemaVisibility.DEFERRED, SchemaVisibility.NATIVE_REF)
    return bool(tool.interface.should_defer) or hidden or tool.declaration.lifecycle is Lifecycle.DEFERRED


def _needs(tool: DeclaredTool) -> Iterator[str]:
    """Read what a model must support; a tool whose output is media and nothing else needs one that takes them."""
    required = tool.interface.model_requirements
    yield from _words(None if required is UNSET else required)
    output = tool.declaration.output_contract
    kinds = frozenset(output.content_types or ()) if output is not None else frozenset[ContentClass]()
    if kinds <= _MEDIA:
        yield from (f"media:{each}" for each in kinds)


def _words(required: Json) -> Iterator[str]:
    """Read requirements in any of their shapes: a word, a list of words, an object of flags, words and lists."""
    if isinstance(required, str):
        yield required
    elif isinstance(required, list):
        yield from (str(each) for each in required)
    elif isinstance(required, dict):
        for name, value in required.items():
            if isinstance(value, str | list):
                yield from (f"{name}:{word}" for word in _words(value))
            elif value not in (None, False):
                yield name


def tokens_of(tool: DeclaredTool) -> int:
    """Estimate what showing a tool to a model costs: its name, its description and its schema."""
    declaration = tool.declaration
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    shown: JsonObject = {"name": declaration.name, "description": declaration.description, "parameters": schema}
    return -(-len(sorted_json(shown)) // BYTES_A_TOKEN)
