"""Facts as bytes: one line of JSON each, and the text in which lines that are committed together are joined."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec

from agenttool.codec import from_json, parse_value, read, read_any
from agenttool.codec.moments import nanoseconds
from agenttool.errors import RecordError, StoreError
from agenttool.ports.evidence import (
    CallCompleted,
    CallEnded,
    CallLaunched,
    CallRequest,
    InputNoted,
    ResultMade,
    SharedDecision,
    change_by_runtime,
)
from agenttool.ports.facts import CompactFact, Evidence, Fact, FactData, Step
from agenttool.records import (
    UNSET,
    EventType,
    FunctionMapping,
    InvocationId,
    JsonObject,
    Record,
    ResultId,
    SchedulerPolicyId,
    Timestamp,
    ToolId,
    ToolInvocation,
    ToolResult,
    plain_result,
)

SEPARATOR = b"\t"
"""Separates a line of JSON, which contains no tab, from the part that it shares with other lines."""

MAX_SHARED = 1024
"""The number of shared parts whose encoding is cached."""

_encode = msgspec.json.Encoder().encode
_encode_shared = lru_cache(MAX_SHARED)(_encode)

_ENVELOPE: JsonObject = {"invocation_id": "", "tool_id": "", "status": "planned", "created_at": ""}
"""The required members of an invocation, so that single fields can be decoded to their types."""

_FIELDS = frozenset(ToolInvocation.__struct_fields__)

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class StoredEvidence(Evidence, frozen=True, array_like=True):
    """The projection of any evidence without a compact form, as it was written."""

    by_event: dict[str, JsonObject]
    fields: JsonObject
    documents: tuple[msgspec.Raw, ...]

    def members(self, event: EventType) -> JsonObject:
        """Return the members of one event."""
        return self.by_event.get(event, {})

    def contributes(self) -> Mapping[str, object]:
        """Return the fields of the invocation, decoded to their types."""
        if not self.fields:
            return {}
        unknown = self.fields.keys() - _FIELDS
        if unknown:
            raise StoreError(f"the log sets {min(unknown)!r}, which is no field of a call; verify the log")
        whole = from_json({**_ENVELOPE, **self.fields}, ToolInvocation)
        return {name: getattr(whole, name) for name in self.fields}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the records."""
        return tuple(read_any(bytes(document)) for document in self.documents)


class FactHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first members of a line: what a fact is about; its data is skipped."""

    step: str
    at_ns: _Count
    sequence: _Count
    invocation_id: InvocationId | None
    tool_id: ToolId | None


class _FactLine(FactHead, frozen=True, array_like=True, gc=False):
    data: StoredEvidence | JsonObject | None
    kind: str | None = None
    words: tuple[msgspec.Raw, ...] = ()


class _RequestWords(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `CallRequest` in a compact fact."""

    name: str
    model_input: msgspec.Raw
    surface_id: str | None
    native_call_id: str | None
    actor_ref: str | None
    depends_on: tuple[InvocationId, ...] | None
    scheduler_policy_ref: SchedulerPolicyId | None
    mapping: FunctionMapping | None
    actor_roles: tuple[str, ...] | None = None


class _ChangeWords(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The change of an input by defaults or normalization, in a compact fact."""

    value: msgspec.Raw
    source_ref: str
    changed_fields: tuple[str, ...]
    reason: str | None


class _ResultWords(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `CompactResult`."""

    created_at: Timestamp
    text: str | None
    spelled: msgspec.Raw = msgspec.Raw()


_decode_head: Callable[[bytes], FactHead] = msgspec.json.Decoder(FactHead).decode
_decode_request: Callable[[msgspec.Raw], _RequestWords] = msgspec.json.Decoder(_RequestWords).decode
_decode_change: Callable[[msgspec.Raw], _ChangeWords] = msgspec.json.Decoder(_ChangeWords).decode
_decode_shared: Callable[[bytes], SharedDecision] = msgspec.json.Decoder(SharedDecision).decode
_decode_object: Callable[[msgspec.Raw], JsonObject | None] = msgspec.json.Decoder(JsonObject | None).decode
_decode_number: Callable[[msgspec.Raw], int] = msgspec.json.Decoder(int).decode
_decode_result: Callable[[msgspec.Raw], _ResultWords] = msgspec.json.Decoder(_ResultWords).decode
_decode: Callable[[bytes], _FactLine] = msgspec.json.Decoder(_FactLine).decode


def encode_fact(fact: Fact) -> bytes:
    """Return a fact as one line: JSON, and behind a separator the part that it shares with other facts.

    Data that is an object stays one; the projection of evidence is an array; a compact fact follows after null.

    Raises:
        StoreError: it contains a value that JSON cannot express.
    """
    data = fact.data
    try:
        body = data if data is None or isinstance(data, dict) else data.compact(fact)
        if type(body) is not CompactFact:
            return _encode((fact.step.name, fact.at_ns, fact.sequence, fact.invocation_id, fact.tool_id, body))
        head = (fact.step.name, fact.at_ns, fact.sequence, fact.invocation_id, fact.tool_id, None)
        line = _encode((*head, body.kind, body.words))
        return line if body.shared is None else line + SEPARATOR + _encode_shared(body.shared)
    except (TypeError, ValueError, RecursionError, RecordError, msgspec.MsgspecError) as error:
        raise StoreError(
            f"the fact {fact.step.name!r} of {fact.invocation_id!r} cannot be written: {error}; use JSON values"
        ) from error


def join_lines(lines: Iterable[bytes]) -> bytes:
    """Join lines into one text; a shared part is written only in the first of the lines in a row that have it."""
    joined: list[bytes] = []
    last, length = b"\n", 1  # which no line ends with
    for line in lines:
        if line.endswith(last):
            joined.append(line[:-length])
            continue
        joined.append(line)
        _, separator, shared = line.partition(SEPARATOR)
        if separator:
            last, length = separator + shared, len(shared)
    return b"\n".join(joined)


def split_lines(text: bytes) -> list[bytes]:
    """Return the lines that `join_lines` joined."""
    lines = text.split(b"\n")
    last = b""
    for place, line in enumerate(lines):
        head, separator, shared = line.partition(SEPARATOR)
        if separator:
            last = shared or last
            lines[place] = head + separator + last
    return lines


def decode_fact(line: bytes, steps: Mapping[str, Step]) -> Fact:
    """Return the fact of a line.

    Raises:
        StoreError: the line is malformed, or its step is unknown to this version.
    """
    try:
        head, _, shared = line.partition(SEPARATOR)
        found = _decode(head)
        step = steps[found.step]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    except KeyError as error:
        raise StoreError(f"the log has the unknown step {error}; read it with a newer agenttool") from error
    data: FactData = found.data if found.kind is None else _decode_evidence(found, shared)
    return Fact(step, found.at_ns, found.sequence, found.invocation_id, found.tool_id, data)


def _decode_evidence(line: _FactLine, shared: bytes) -> Evidence:
    """Return the evidence of a compact fact.

    Raises:
        StoreError: its kind is unknown to this version, or its words do not fit the kind.
    """
    call = line.invocation_id or InvocationId("")
    try:
        match line.kind, line.words:
            case "end", (result,):
                return CallEnded(_result(result))
            case "plain_end", (result,):
                return CallEnded(_plain_result(result, call), is_plain=True)
            case "made", (result, modifiers):
                return ResultMade(_result(result), _decode_object(modifiers))
            case "launch", (request, *change):
                return CallLaunched(_request(request), _decode_shared(shared), call, _change(change, call), b"")
            case ("call" | "plain_call") as kind, (request, words, started, *change):
                is_plain = kind == "plain_call"
                result = _plain_result(words, call) if is_plain else _result(words)
                asked, common, changed = _request(request), _decode_shared(shared), _change(change, call)
                return CallCompleted(asked, common, call, changed, b"", result, _decode_number(started), is_plain)
            case _:
                pass
    except (msgspec.DecodeError, UnicodeDecodeError, RecordError) as error:
        raise _unreadable(error) from error
    raise StoreError(f"the log has a fact of the kind {line.kind!r}; use a newer agenttool, which knows it")


def _request(words: msgspec.Raw) -> CallRequest:
    found = _decode_request(words)
    return CallRequest(
        found.name,
        bytes(found.model_input),
        found.surface_id,
        found.native_call_id,
        found.actor_ref,
        depends_on=found.depends_on,
        scheduler_policy_ref=found.scheduler_policy_ref,
        mapping=found.mapping,
        actor_roles=found.actor_roles,
    )


def _change(words: list[msgspec.Raw], call: InvocationId) -> InputNoted | None:
    """Return the change of an input, if there was one."""
    if not words:
        return None
    found = _decode_change(words[0])
    value = bytes(found.value)
    return change_by_runtime(call.partition("_")[2], value, found.source_ref, found.changed_fields, found.reason)


def _result(document: msgspec.Raw) -> ToolResult:
    return read(bytes(document), ToolResult)


def _plain_result(words: msgspec.Raw, call: InvocationId) -> ToolResult:
    """Return a plain result; its id differs from that of its call only in the prefix."""
    found = _decode_result(words)
    spelled = bytes(found.spelled)
    if found.text is None:
        text, structured = spelled.decode(), parse_value(spelled)
    else:
        text, structured = found.text, found.text if spelled else UNSET
    result_id = ResultId(f"res_{call.partition('_')[2]}")
    return plain_result(text, structured, call, result_id, found.created_at)


def start_of(line: bytes) -> int:
    """Return when a call began whose only fact is `completed`: that is written once the call has ended.

    Raises:
        StoreError: the line is malformed.
    """
    try:
        found = _decode(line.partition(SEPARATOR)[0])
        if found.kind is not None:
            return min(found.at_ns, _decode_number(found.words[2]))
        fields = found.data.fields if isinstance(found.data, StoredEvidence) else {}
        return min(found.at_ns, nanoseconds(datetime.fromisoformat(str(fields["started_at"]))))
    except (msgspec.DecodeError, ValueError, LookupError) as error:
        raise _unreadable(error) from error


def call_of(line: bytes) -> InvocationId | None:
    """Return the call that a fact belongs to, and decode nothing else.

    Raises:
        StoreError: the line is malformed.
    """
    return head_of(line).invocation_id


def head_of(line: bytes) -> FactHead:
    """Return what a fact is about.

    Raises:
        StoreError: the line is malformed.
    """
    try:
        return _decode_head(line.partition(SEPARATOR)[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StoreError:
    return StoreError(f"a fact in the log cannot be read: {error}; verify the log")
