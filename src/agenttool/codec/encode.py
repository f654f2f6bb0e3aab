"""Encode records and JSON values, also as canonical JSON (RFC 8785), and compute digests."""

import hashlib
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

import msgspec
import rfc8785

from agenttool.errors import RecordError
from agenttool.records import Digest, Json, JsonObject, Part

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_sorted_encoder = msgspec.json.Encoder(order="deterministic")
_decode = msgspec.json.Decoder(JsonObject).decode
_decode_any: Callable[[bytes], Json] = msgspec.json.Decoder().decode

_FLAT = frozenset({str, int, bool, type(None)})
_NAMES = frozenset({str})
_CONTAINERS = frozenset({dict, list})
_LARGE = 4096


write: Callable[[Part], bytes] = _encoder.encode
"""Encode a record as one line of JSON, with its unknown members."""


_T = TypeVar("_T", bound=Json)


def _clone(value: _T) -> _T:
    """Return a deep copy of a JSON value."""
    return msgspec.to_builtins(value)


clone = _clone if TYPE_CHECKING else msgspec.to_builtins  # without a frame: it is called for every nested argument
"""Returns a deep copy of a JSON value."""


RawJson: TypeAlias = msgspec.Raw
"""JSON that is encoded already."""


_V = TypeVar("_V")


class Lazy(Generic[_V]):
    """A value that is computed when it is first read or encoded."""

    def __init__(self, compute: Callable[[], _V]) -> None:
        """Store the function; nothing is computed yet."""
        self._compute = compute

    @cached_property
    def value(self) -> _V:
        """The value, which is computed once."""
        return self._compute()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self.value == cast("Lazy[object]", other).value

    def __hash__(self) -> int:
        return hash(self.value)


def _encode_lazy(value: object) -> object:
    if isinstance(value, Lazy):
        return cast("Lazy[object]", value).value
    raise TypeError(f"a {type(value).__name__} cannot be encoded; use plain data")


write_own: Callable[[object], bytes] = msgspec.json.Encoder(enc_hook=_encode_lazy).encode
"""Encodes a value that is known to be encodable: a part, or JSON that was decoded before. `read_own` decodes it."""


def to_json(record: Part) -> JsonObject:
    """Return a record as new plain JSON values, with its unknown members.

    Raises:
        RecordError: it holds a value that JSON cannot represent.
    """
    return _decode(_written(_encoder, record))


def json_bytes(value: Json, refuse: Callable[[bytes, Json], object] | None = None) -> bytes:
    """Encode a JSON value with its members in their order.

    `refuse` gets a large value with its bytes before the types of all its members are checked, and may raise.

    Raises:
        RecordError: it holds a value that JSON cannot represent, or is nested too deeply; the pointer names the place.
    """
    try:
        written = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_encodable(error) from error
    if refuse is not None and len(written) > _LARGE:
        refuse(written, value)
    # msgspec encodes NaN as null, bytes as base64 and sets as arrays; such a value does not round-trip.
    if not (len(written) > _LARGE and _has_json_types(value)) and _decode_any(written) != value:
        _reject_non_json(value)
    return written


def sorted_json(value: Json) -> bytes:
    """Encode a JSON value with sorted members: equal values give equal bytes, faster than canonical JSON.

    For keys within one process only; digests in records use `canonical_json`.

    Raises:
        RecordError: it holds a value that JSON cannot represent, or is nested too deeply.
    """
    return _written(_sorted_encoder, value)


def _has_json_types(value: Json) -> bool:
    """Return whether a value round-trips by its types; for large values, this is faster than the round trip."""
    level = [value]
    while level:
        rest = [each for each in level if type(each) not in _FLAT]
        outers = cast("list[dict[str, Json] | list[Json]]", [each for each in rest if type(each) in _CONTAINERS])
        floats = [each for each in rest if type(each) is float]
        names = chain.from_iterable(outer for outer in outers if type(outer) is dict)
        if len(outers) + len(floats) < len(rest) or not (
            all(map(isfinite, floats)) and _NAMES.issuperset(map(type, names))
        ):
            return False
        level = [*chain.from_iterable(outer.values() if type(outer) is dict else outer for outer in outers)]
    return True


def _written(encoder: msgspec.json.Encoder, value: object) -> bytes:
    try:
        return encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_encodable(error) from error


def _not_encodable(error: Exception) -> RecordError:
    if isinstance(error, UnicodeError):
        return RecordError(f"not a JSON value: {HALF_PAIR}; write the whole character, or leave it out")
    return RecordError(f"not a JSON value: {error}; {_INSTEAD}")


HALF_PAIR = "a text has half of a surrogate pair, such as \\ud83d without \\ude00"
_INSTEAD = "use objects, arrays, text, numbers, booleans and null"


def _reject_non_json(value: object) -> None:
    """Raise for the first value that JSON cannot represent; the value is finite and not too deep."""
    rest: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    while rest:
        each, steps = rest.pop()
        if isinstance(each, dict | list | tuple):
            rest += [(inner, (*steps, step)) for step, inner in _members(cast("object", each), steps)]
        elif not (each is None or isinstance(each, str | int) or (isinstance(each, float) and isfinite(each))):
            raise _not_json(repr(each) if isinstance(each, float) else type(each).__name__, steps)


def _members(outer: object, steps: tuple[object, ...]) -> Iterable[tuple[object, object]]:
    if not isinstance(outer, dict):
        return enumerate(cast("list[object]", outer))
    members = cast("dict[object, object]", outer)
    for name in members:
        if not isinstance(name, str):
            raise _not_json(f"a member named by {type(name).__name__}", steps)
    return members.items()


def _not_json(what: str, steps: tuple[object, ...]) -> RecordError:
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return RecordError(f"not a JSON value: {what}; {_INSTEAD}", pointer=pointer)


def canonical_json(value: Json) -> bytes:
    """Encode a JSON value as canonical JSON (RFC 8785).

    Raises:
        RecordError: it has a number beyond 2^53 or not finite, or half of a surrogate pair.
    """
    try:
        if _is_simple(value):
            try:
                return _sorted_encoder.encode(value)
            except (TypeError, ValueError):
                pass  # half of a surrogate pair: the library below has the better message
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        reason = str(error)
    except UnicodeEncodeError:
        reason = "a string holds half of a surrogate pair"
    except RecursionError:
        reason = "it is nested too deeply"
    raise RecordError(f"value has no canonical JSON: {reason}; write such a value as a string") from None


def _is_simple(value: Json) -> bool:
    """Return whether sorted JSON is canonical JSON: no fractions, no large numbers, only ASCII names.

    RFC 8785 sorts names by their UTF-16 units, which differs from the order of their bytes beyond ASCII only.
    """
    if type(value) is dict:
        for name, each in value.items():
            if type(name) is not str or not name.isascii() or not (type(each) in _PLAIN or _is_simple(each)):
                return False
        return True
    if type(value) is list:
        return all(type(each) in _PLAIN or _is_simple(each) for each in value)
    if type(value) is int:
        return -_SAFE <= value <= _SAFE
    return type(value) in _PLAIN


_SAFE = 2**53 - 1
_PLAIN = frozenset({str, bool, type(None)})


def digest_of_bytes(data: bytes) -> Digest:
    """Return the SHA-256 of bytes, as `sha256:` and 64 hexadecimal digits."""
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def digest_of(value: Json) -> Digest:
    """Return the digest of a JSON value, independent of its formatting.

    Raises:
        RecordError: the value has no canonical JSON.
    """
    return digest_of_bytes(canonical_json(value))


def digest_of_any(value: Json) -> Digest:
    """Return the digest of any JSON value; of sorted JSON where it has no canonical JSON.

    Raises:
        RecordError: it is not a JSON value.
    """
    try:
        return digest_of(value)
    except RecordError:
        return digest_of_bytes(sorted_json(value))


def record_digest(record: Part) -> Digest:
    """Return the digest of a record without its own `digest` member.

    Raises:
        RecordError: a value in the record has no canonical JSON.
    """
    members = to_json(record)
    members.pop("digest", None)
    return digest_of(cast("Json", members))
