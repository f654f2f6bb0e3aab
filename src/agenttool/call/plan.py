"""Create a call from the arguments of its caller; check and convert what callers pass."""

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from agenttool.call.call import Call, Core
from agenttool.catalog.surface_store import SurfaceStore
from agenttool.catalog.unresolved import unknown_surface
from agenttool.codec import HALF_PAIR, has_more_values, json_bytes, parse_value
from agenttool.codec.size import MAX_DIGITS, may_have_long_integer
from agenttool.errors import ConfigError, RecordError
from agenttool.ports.evidence import CallRequest
from agenttool.ports.identity import Principal
from agenttool.records import AbortReason, InvocationId, Json, JsonObject, ToolSurface, replace

MAX_INPUT_BYTES = 1_000_000
MAX_INPUT_VALUES = 10_000
"""The limits of the arguments of a call. A caller can pass a larger input as a file."""

_LONG_INTEGER = re.compile(rb"[\[:,]\s*-?\d{%d}" % (MAX_DIGITS + 1))

_T = TypeVar("_T")


def encode_arguments(arguments: JsonObject | str | bytes) -> bytes:
    """Return the arguments as JSON bytes, which later changes by the caller do not affect.

    Raises:
        RecordError: they are neither text nor an object, or contain a value without a JSON form.
        UnicodeError: they contain an unpaired surrogate.
    """
    if isinstance(arguments, dict):
        return json_bytes(arguments, refuse_large)
    if isinstance(arguments, str):
        return str.encode(arguments)
    given = cast("object", arguments)
    if isinstance(given, bytes | bytearray):
        return bytes(given)
    raise RecordError(f"arguments must be a JSON object, or its text, got {type(given).__name__}; give an object")


def refuse_large(encoded: bytes, arguments: object) -> None:
    """Refuse arguments that are too large to be checked on the event loop.

    Each value follows a comma or an opening bracket. Their number is an upper bound, so most documents are not parsed.

    Raises:
        RecordError: they have more than `MAX_INPUT_BYTES` bytes or `MAX_INPUT_VALUES` values, or a long integer.
    """
    if len(encoded) <= MAX_INPUT_VALUES:  # a value has at least one byte
        return
    if len(encoded) > MAX_INPUT_BYTES:
        raise RecordError(f"arguments have more than {MAX_INPUT_BYTES} bytes; pass a file, or make several calls")
    may_exceed = sum(map(encoded.count, (b",", b"[", b"{"))) > MAX_INPUT_VALUES
    if not may_exceed and not (may_have_long_integer(encoded) and _LONG_INTEGER.search(encoded)):
        return
    given = cast("Json", arguments) if type(arguments) is dict else parse_value(encoded, what="arguments")
    if may_exceed and has_more_values(given, MAX_INPUT_VALUES):
        raise RecordError(f"arguments have more than {MAX_INPUT_VALUES} values; pass a file, or make several calls")
    if _has_long_integer([given]):
        raise RecordError(f"arguments have an integer of more than {MAX_DIGITS} digits; pass it as text")


def _has_long_integer(rest: list[Json]) -> bool:
    limit = 10**MAX_DIGITS
    while rest:
        value = rest.pop()
        if isinstance(value, int) and abs(value) >= limit:
            return True
        if isinstance(value, dict | list):
            rest.extend(value.values() if isinstance(value, dict) else value)
    return False


def error_in_refs(**refs: object) -> str | None:
    """Return the error message of the first ref that is not valid text; none if all are valid."""
    for name, ref in refs.items():
        if ref is not None and not is_text(ref):
            return f"{name} must be text in Unicode, got {type(ref).__name__}; correct it, or leave it out"
    return None


def names_in(names: Iterable[str], argument: str = "names") -> tuple[str, ...]:
    """Return a list of names as a tuple.

    Raises:
        ConfigError: it is not a list of names.
    """
    given = cast("object", names)
    if not isinstance(given, str) and isinstance(given, Iterable):
        found = tuple(cast("Iterable[object]", given))
        if all(map(is_text, found)):
            return cast("tuple[str, ...]", found)
    raise ConfigError(f"{argument} must be a list of names, got {given!r}; put them in brackets")


def all_are(kind: type[_T], calls: Sequence[_T]) -> Sequence[_T]:
    """Return the calls of a batch, all of one type.

    Raises:
        ConfigError: it is not a list of them.
    """
    given = cast("object", calls)
    if not isinstance(given, Sequence):
        raise ConfigError(f"a batch is a list of {kind.__name__}s, got a {type(given).__name__}; put it in brackets")
    for each in cast("Sequence[object]", given):
        if not isinstance(each, kind):
            raise ConfigError(
                f"a batch is a list of {kind.__name__}s, got a {type(each).__name__}; make a {kind.__name__} of it"
            )
    return calls


def is_text(value: object) -> bool:
    """Return whether a value is text that can be encoded."""
    return isinstance(value, str) and (value.isascii() or value.encode(errors="replace").decode() == value)


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
    """Return a new call. Invalid arguments do not raise: phase 1 or 2 of the call fails, and the call has a result."""
    fault = actor_ref = actor_roles = None
    is_text = type(arguments) is not dict
    try:
        encoded = arguments if type(arguments) is bytes else encode_arguments(arguments)
        if is_text:
            refuse_large(encoded, arguments)
    except RecordError as error:
        encoded, fault = b"null", str(error)
    except UnicodeError:
        encoded, fault = b"null", f"arguments are not Unicode: {HALF_PAIR}; write the whole character, or leave it out"
    if type(name) is not str or not name.isascii():
        name = str(name).encode(errors="replace").decode()
    if native_call_id is not None or actor is not None:
        actor_ref, actor_roles = _name_and_roles(actor)
        flaw = error_in_refs(native_call_id=native_call_id, actor_ref=actor_ref)
        if flaw is not None:
            native_call_id, actor_ref, fault = None, None, fault or flaw
    unique = unique or core.ids.unique()
    invocation_id: InvocationId = "inv_" + unique  # pyright: ignore[reportAssignmentType] -- calling a NewType takes time
    try:
        surface_id = surface.surface_id  # pyright: ignore[reportOptionalMemberAccess] -- an invalid surface is handled below
        found = surfaces.by_id[surface_id]
    except (AttributeError, KeyError, TypeError):
        request = CallRequest(name, encoded, None, native_call_id, actor_ref, actor_roles=actor_roles)
        return _without_surface(Call(core, request, None, unique, invocation_id, fault, is_text), surfaces, surface)
    request = CallRequest(name, encoded, surface_id, native_call_id, actor_ref, actor_roles=actor_roles)
    return Call(core, request, found, unique, invocation_id, fault, is_text)


def _name_and_roles(actor: str | Principal | None) -> tuple[str | None, tuple[str, ...] | None]:
    """Return the name of the caller and the roles of its key; an empty name counts as none."""
    name, roles = (actor.subject, actor.role_names) if isinstance(actor, Principal) else (actor, None)
    return (None, None) if isinstance(name, str) and not name.strip() else (name, roles)


def _without_surface(call: Call, surfaces: SurfaceStore, given: object) -> Call:
    """Set an archived surface of the call, or why there is none: it is unknown, or the runtime is closed."""
    if surfaces.closed is None:
        call.surface = surfaces.find(given)
        call.unresolved = unknown_surface(given) if call.surface is None else None
    else:
        call.stop.reason = AbortReason.RUNTIME_SHUTDOWN
        call.surface = surfaces.closed.get(given.surface_id) if isinstance(given, ToolSurface) else None
    if call.surface is not None:
        call.request = replace(call.request, surface_id=call.surface.record.surface_id)
    return call
