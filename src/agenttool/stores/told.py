"""A fact as it is kept: one line of JSON that tells all that its evidence can tell, and the fact read back from it."""

from collections.abc import Callable, Mapping

import msgspec

from agenttool.codec import from_json, read_any
from agenttool.errors import RecordError, StoreError
from agenttool.ports.facts import Fact, FactData, Step
from agenttool.records import EventType, InvocationId, JsonObject, Record, ToolId, ToolInvocation

_encode = msgspec.json.Encoder().encode

_ENVELOPE: JsonObject = {"invocation_id": "", "tool_id": "", "status": "planned", "created_at": ""}
"""What an invocation needs before single fields of it can be read as what they are."""


class Recalled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Evidence that was read back: it tells what the evidence told that was written."""

    told: dict[str, JsonObject]
    fields: JsonObject
    documents: tuple[msgspec.Raw, ...]

    def members(self, event: EventType) -> JsonObject:
        """Give what an event says."""
        return self.told.get(event, {})

    def contributes(self) -> Mapping[str, object]:
        """Give the fields of the invocation, of the types they have there."""
        if not self.fields:
            return {}
        whole = from_json({**_ENVELOPE, **self.fields}, ToolInvocation)
        return {name: getattr(whole, name) for name in self.fields}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Give the records."""
        return tuple(read_any(bytes(document)) for document in self.documents)


class _Line(msgspec.Struct, frozen=True, array_like=True, gc=False):
    step: str
    at_ns: int
    sequence: int
    invocation_id: InvocationId | None
    tool_id: ToolId | None
    data: Recalled | JsonObject | None


class _Opening(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first two members of a line; the others are passed over."""

    step: str
    at_ns: int


_decode_opening: Callable[[bytes], _Opening] = msgspec.json.Decoder(_Opening).decode
_decode: Callable[[bytes], _Line] = msgspec.json.Decoder(_Line).decode


def tell(fact: Fact) -> bytes:
    """Write a fact down. An object is data as it was noted; an array is what evidence told.

    Raises:
        StoreError: it holds what JSON cannot say.
    """
    try:
        return _encode((fact.step.name, fact.at_ns, fact.sequence, fact.invocation_id, fact.tool_id, _body(fact)))
    except (TypeError, ValueError, RecursionError, RecordError, msgspec.MsgspecError) as error:
        raise StoreError(
            f"the fact {fact.step.name!r} of {fact.invocation_id!r} cannot be written: {error}; use JSON values"
        ) from error


def _body(fact: Fact) -> object:
    data = fact.data
    if data is None or isinstance(data, dict):
        return data
    told = {event: members for event, _ in fact.step.told if event is not None and (members := data.members(event))}
    return told, data.contributes(), data.records(fact)


def recall(line: bytes, steps: Mapping[str, Step]) -> Fact:
    """Read a fact back.

    Raises:
        StoreError: it is not one of ours, or takes a step that this version does not know.
    """
    try:
        read = _decode(line)
        step = steps[read.step]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    except KeyError as error:
        raise StoreError(f"the log knows a step {error} that this version does not; use a newer agenttool") from error
    data: FactData = read.data
    return Fact(step, read.at_ns, read.sequence, read.invocation_id, read.tool_id, data)


def moment_of(line: bytes) -> int:
    """Read the moment of a fact and nothing else.

    Raises:
        StoreError: it is not one of ours.
    """
    try:
        return _decode_opening(line).at_ns
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StoreError:
    return StoreError(f"a fact in the log cannot be read: {error}; verify the log")
