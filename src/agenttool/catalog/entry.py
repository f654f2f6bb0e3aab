"""One tool of the catalog, and the traits that decide whether a surface shows it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agenttool.codec import sorted_json, to_json
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    UNSET,
    AbsenceReason,
    ContentClass,
    DeferredToolRef,
    Json,
    JsonObject,
    Lifecycle,
    LoadingState,
    Part,
    SchemaVisibility,
    ToolDeclaration,
    ToolId,
    ToolKind,
    acted_on,
    replace,
)

BUILT_IN = "agenttool"
"""The namespace of the runtime's own tools. No other tool may use it."""

TOOL_SEARCH = "tool_search"
"""The name of the built-in tool by which a model finds and loads deferred tools."""

BYTES_PER_TOKEN = 4
"""An estimate for English and JSON that holds for every tokenizer."""

_MEDIA = frozenset({ContentClass.IMAGE, ContentClass.AUDIO, ContentClass.VIDEO})
_OWNED = frozenset({ToolKind.SKILL_TOOL, ToolKind.PEER_AGENT_TOOL})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One tool of the catalog.

    Attributes:
        qualified_name: namespace and name, unique in the catalog.
    """

    tool: DeclaredTool
    qualified_name: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the qualified name once."""
        declaration = self.tool.declaration
        object.__setattr__(self, "qualified_name", f"{declaration.namespace}.{declaration.name}")

    @property
    def tool_id(self) -> ToolId:
        """The stable id."""
        return self.tool.declaration.tool_id

    @property
    def name(self) -> str:
        """The bare name, unique only within its namespace."""
        return self.tool.declaration.name


def qualified_builtin(name: str) -> str:
    """Return the qualified name of a built-in tool."""
    return f"{BUILT_IN}.{name}"


class Traits(Part, frozen=True, kw_only=True):
    """Everything about a tool that filters look at. Tools with equal traits share one decision.

    Attributes:
        owner: the skill or the peer agent that the tool belongs to.
        needs: what a model must support, in the words of `ModelCapabilities`.
        setup: why the tool is not set up, and the remedy after a semicolon; empty if its source does not say.
        is_deferred: the declaration asks for the tool to be deferred.
        is_pinned: the declaration asks for the tool to be shown, however many there are.
    """

    lifecycle: Lifecycle
    kind: ToolKind
    owner: str | None
    is_enabled: bool
    visibility: SchemaVisibility | None
    needs_setup: bool
    setup: str
    needs_person: bool
    only_reads: bool
    credentials: frozenset[str]
    gates: frozenset[str]
    needs: frozenset[str]
    is_deferred: bool
    is_pinned: bool


def traits_of(tool: DeclaredTool) -> Traits:
    """Return the traits of a tool."""
    declaration, interface = tool.declaration, tool.interface
    lifecycle, visibility = declaration.lifecycle, interface.schema_visibility
    is_hidden = visibility in (SchemaVisibility.DEFERRED, SchemaVisibility.NATIVE_REF)
    return Traits(
        lifecycle=lifecycle,
        kind=declaration.tool_kind,
        owner=declaration.namespace if declaration.tool_kind in _OWNED else None,
        is_enabled=interface.is_enabled is not False,
        visibility=visibility,
        needs_setup=bool(interface.requires_setup),
        setup=tool.setup or "",
        needs_person=bool(interface.requires_user_interaction),
        only_reads=acted_on(interface, "is_read_only") is True,
        credentials=frozenset(interface.required_credentials or ()),
        gates=frozenset(interface.feature_gate_refs or ()),
        needs=frozenset(_needs(tool)),
        is_deferred=bool(interface.should_defer) or is_hidden or lifecycle is Lifecycle.DEFERRED,
        is_pinned=bool(interface.always_load),
    )


def _needs(tool: DeclaredTool) -> Iterator[str]:
    """Yield what a model must support; a tool that only returns media needs a model that accepts them."""
    required = tool.interface.model_requirements
    if required is not UNSET and required is not None:
        yield from _requirement_words(required)
    output = tool.declaration.output_contract
    kinds = () if output is None else output.content_types or ()
    if _MEDIA.issuperset(kinds):
        yield from (f"media:{each}" for each in kinds)


def _requirement_words(required: Json) -> Iterator[str]:
    """Read requirements in any form: a word, a list of words, or an object of flags, words and lists."""
    if isinstance(required, str):
        yield required
    elif isinstance(required, list):
        yield from (str(each) for each in required)
    elif isinstance(required, dict):
        for name, value in required.items():
            if isinstance(value, str | list):
                yield from (f"{name}:{word}" for word in _requirement_words(value))
            elif value not in (None, False):
                yield name


def estimate_tokens(declaration: ToolDeclaration) -> int:
    """Estimate how many tokens the name, the description and the schema of a tool take."""
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    shown: JsonObject = {"name": declaration.name, "description": declaration.description, "parameters": schema}
    return -(-len(sorted_json(shown)) // BYTES_PER_TOKEN)


def deferred_ref(tool: DeclaredTool) -> DeferredToolRef:
    """Return the reference of a deferred tool.

    A tool whose schema only its provider has is found by its exact name, not by keywords (G-40).
    """
    declaration = tool.declaration
    mapping = next(iter(declaration.external_mappings or ()), None)
    native = None if mapping is None else to_json(mapping)
    by_name = tool.interface.schema_visibility == SchemaVisibility.NATIVE_REF
    return DeferredToolRef(
        tool_id=declaration.tool_id,
        name=declaration.name,
        namespace=declaration.namespace,
        search_hint=declaration.search_hint,
        source=str(native["source"]) if native and "source" in native else declaration.tool_kind.value,
        schema_visibility=SchemaVisibility.NATIVE_REF if by_name else SchemaVisibility.DEFERRED,
        loading_state=LoadingState.DEFERRED if by_name else LoadingState.DISCOVERABLE,
        reason=AbsenceReason.DEFERRED_UNTIL_DISCOVERED.value,
        selection_ref=f"select:{declaration.namespace}.{declaration.name}",
        native_ref=native,
    )


def unreachable_ref(ref: DeferredToolRef, state: ProviderState) -> DeferredToolRef:
    """Return the reference of a tool whose provider is connecting or unavailable."""
    is_pending = state is ProviderState.CONNECTING
    return replace(
        ref,
        loading_state=LoadingState.PENDING_PROVIDER if is_pending else LoadingState.UNAVAILABLE,
        reason="its provider is still connecting" if is_pending else "its provider cannot be reached",
        pending_provider_or_server=ref.namespace if is_pending else None,
    )
