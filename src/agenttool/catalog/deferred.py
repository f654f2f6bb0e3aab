"""Tools that are known and not shown: by their refs, and by how far each is from being callable."""

from agenttool.codec import to_json
from agenttool.ports.surfacing import ProviderState
from agenttool.ports.tool import DeclaredTool
from agenttool.records import AbsenceReason, DeferredToolRef, LoadingState, SchemaVisibility, replace


def deferred_ref(tool: DeclaredTool) -> DeferredToolRef:
    """Tell of a tool that can be found; where it comes from is told as natively as it is known.

    A tool whose schema only its provider has is found by its exact name, and by no keyword (G-40).
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
        source=str(native["source"]) if native and "source" in native else str(declaration.tool_kind),
        schema_visibility=SchemaVisibility.NATIVE_REF if by_name else SchemaVisibility.DEFERRED,
        loading_state=LoadingState.DEFERRED if by_name else LoadingState.DISCOVERABLE,
        reason=AbsenceReason.DEFERRED_UNTIL_DISCOVERED.value,
        selection_ref=f"select:{declaration.namespace}.{declaration.name}",
        native_ref=native,
    )


def held_up(ref: DeferredToolRef, state: ProviderState) -> DeferredToolRef:
    """Tell of a tool whose provider does not answer, yet or any more."""
    is_pending = state is ProviderState.CONNECTING
    return replace(
        ref,
        loading_state=LoadingState.PENDING_PROVIDER if is_pending else LoadingState.UNAVAILABLE,
        reason="its provider is still connecting" if is_pending else "its provider cannot be reached",
        pending_provider_or_server=ref.namespace if is_pending else None,
    )
