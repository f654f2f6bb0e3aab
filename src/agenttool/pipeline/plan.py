"""Create a call from the arguments of its caller."""

from agenttool.catalog.surface_store import SurfaceStore
from agenttool.catalog.unresolved import unknown_surface
from agenttool.codec import json_bytes
from agenttool.errors import RecordError
from agenttool.pipeline.arguments import MAX_INPUT_VALUES, encode_arguments, error_in_refs, refuse_large
from agenttool.pipeline.call import Call, Core
from agenttool.ports.evidence import CallRequest
from agenttool.ports.identity import Principal
from agenttool.records import AbortReason, InvocationId, JsonObject, ToolSurface, replace


def plan(  # noqa: PLR0913, PLR0917 -- what a caller may pass; a record for it would slow down every call
    core: Core,
    surfaces: SurfaceStore,
    name: str,
    arguments: JsonObject | str | bytes,
    surface: ToolSurface | None,
    native_call_id: str | None,
    actor: str | Principal | None,
    unique: str | None = None,
) -> Call:
    """Return a new call. Invalid arguments do not raise; the call fails in its phases and has a result."""
    fault = actor_ref = actor_roles = None
    try:
        if type(arguments) is dict:
            encoded = json_bytes(arguments)
        else:
            encoded = arguments.encode() if type(arguments) is str else encode_arguments(arguments)
        if len(encoded) > MAX_INPUT_VALUES:  # a value has at least one byte
            refuse_large(encoded, arguments)
    except (RecordError, UnicodeError) as error:
        encoded, fault = b"null", str(error)
    if type(name) is not str or not name.isascii():
        name = str(name).encode(errors="replace").decode()
    if native_call_id is not None or actor is not None:
        actor_ref, actor_roles = _name_and_roles(actor)
        flaw = error_in_refs(native_call_id=native_call_id, actor_ref=actor_ref)
        if flaw is not None:
            native_call_id, actor_ref, fault = None, None, fault or flaw
    unique = unique or core.ids.unique()
    invocation_id: InvocationId = "inv_" + unique  # pyright: ignore[reportAssignmentType] -- spares every call the call of a NewType
    try:
        surface_id = surface.surface_id  # pyright: ignore[reportOptionalMemberAccess] -- an invalid surface is handled below
        found = surfaces.by_id[surface_id]
    except (AttributeError, KeyError, TypeError):
        request = CallRequest(name, encoded, None, native_call_id, actor_ref, actor_roles=actor_roles)
        return _without_surface(Call(core, request, None, unique, invocation_id, fault), surfaces, surface)
    request = CallRequest(name, encoded, surface_id, native_call_id, actor_ref, actor_roles=actor_roles)
    return Call(core, request, found, unique, invocation_id, fault)


def _name_and_roles(actor: str | Principal | None) -> tuple[str | None, tuple[str, ...] | None]:
    """Return the name of a caller and the roles of its key; an empty name names no caller."""
    name, roles = (actor.subject, actor.role_names) if isinstance(actor, Principal) else (actor, None)
    return (None, None) if isinstance(name, str) and not name.strip() else (name, roles)


def _without_surface(call: Call, surfaces: SurfaceStore, given: object) -> Call:
    """Set an archived surface, or the reason for none: it is unknown, or the runtime is closed."""
    if surfaces.closed is None:
        call.surface = surfaces.find(given)
        call.unresolved = unknown_surface(given) if call.surface is None else None
    else:
        call.stop.reason = AbortReason.RUNTIME_SHUTDOWN
        call.surface = surfaces.closed.get(given.surface_id) if isinstance(given, ToolSurface) else None
    if call.surface is not None:
        call.request = replace(call.request, surface_id=call.surface.record.surface_id)
    return call
