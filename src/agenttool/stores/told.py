"""A fact as it is kept: one line of JSON that tells all that its evidence can tell, and the fact read back from it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated

import msgspec

from agenttool.codec import from_json, parse_value, read, read_any
from agenttool.errors import RecordError, StoreError
from agenttool.ports.evidence import Completed, Ended, Launch, Launched, Made, Standing
from agenttool.ports.facts import Brief, Evidence, Fact, FactData, Step, Telling, tell_in_parts
from agenttool.records import (
    UNSET,
    EventType,
    InvocationId,
    JsonObject,
    Part,
    Record,
    ResultId,
    Timestamp,
    ToolId,
    ToolInvocation,
    ToolResult,
    plain_result,
)

SEPARATOR = b"\t"
"""Stands between a line of JSON, which holds none itself, and what that line has in common with others."""

MOST_STANDING = 1024
"""Of so many things that stand for many facts it is remembered how they are spelled."""

_encode = msgspec.json.Encoder().encode
_COMMON = re.compile(SEPARATOR + rb"([^\n]+)")
_standing: dict[int, tuple[Part, bytes]] = {}

_ENVELOPE: JsonObject = {"invocation_id": "", "tool_id": "", "status": "planned", "created_at": ""}
"""What an invocation needs before single fields of it can be read as what they are."""

_FIELDS = frozenset(ToolInvocation.__struct_fields__)

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


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
        strangers = self.fields.keys() - _FIELDS
        if strangers:
            raise StoreError(f"the log tells of {min(strangers)!r}, which no call has; verify the log")
        whole = from_json({**_ENVELOPE, **self.fields}, ToolInvocation)
        return {name: getattr(whole, name) for name in self.fields}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Give the records."""
        return tuple(read_any(bytes(document)) for document in self.documents)

    def tell(self, fact: Fact) -> Telling:
        """Tell all of it again."""
        return tell_in_parts(self, fact)


class _Line(msgspec.Struct, frozen=True, array_like=True, gc=False):
    step: str
    at_ns: _Count
    sequence: _Count
    invocation_id: InvocationId | None
    tool_id: ToolId | None
    data: Recalled | JsonObject | None
    kind: str | None = None
    words: tuple[msgspec.Raw, ...] = ()


class _Opening(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first members of a line; the others are passed over."""

    step: str
    at_ns: _Count
    sequence: _Count
    invocation_id: InvocationId | None


class _Said(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was `said` of a plain result."""

    created_at: Timestamp
    text: str | None
    spelled: msgspec.Raw = msgspec.Raw()


_decode_opening: Callable[[bytes], _Opening] = msgspec.json.Decoder(_Opening).decode
_decode_launch: Callable[[msgspec.Raw], Launch] = msgspec.json.Decoder(Launch).decode
_decode_standing: Callable[[bytes], Standing] = msgspec.json.Decoder(Standing).decode
_decode_object: Callable[[msgspec.Raw], JsonObject | None] = msgspec.json.Decoder(JsonObject | None).decode
_decode_number: Callable[[msgspec.Raw], int] = msgspec.json.Decoder(int).decode
_decode_said: Callable[[msgspec.Raw], _Said] = msgspec.json.Decoder(_Said).decode
_decode: Callable[[bytes], _Line] = msgspec.json.Decoder(_Line).decode


def tell(fact: Fact) -> bytes:
    """Write a fact down. An object is data as it was noted; an array is what evidence told, or else a brief follows.

    What stands for many facts comes last, behind a sign that no JSON holds: `written_together` writes it once.

    Raises:
        StoreError: it holds what JSON cannot say.
    """
    data = fact.data
    try:
        body = data if data is None or isinstance(data, dict) else data.tell(fact)
        if type(body) is not Brief:
            return _encode((fact.step.name, fact.at_ns, fact.sequence, fact.invocation_id, fact.tool_id, body))
        opening = (fact.step.name, fact.at_ns, fact.sequence, fact.invocation_id, fact.tool_id, None)
        line = _encode((*opening, body.kind, body.words))
        return line if body.standing is None else line + SEPARATOR + _spelled(body.standing)
    except (TypeError, ValueError, RecursionError, RecordError, msgspec.MsgspecError) as error:
        raise StoreError(
            f"the fact {fact.step.name!r} of {fact.invocation_id!r} cannot be written: {error}; use JSON values"
        ) from error


def _spelled(standing: Part) -> bytes:
    """Write down what stands for many facts, which is most often what it was for the last one."""
    known = _standing.get(id(standing))
    if known is None or known[0] is not standing:
        if len(_standing) >= MOST_STANDING:
            _standing.clear()
        known = _standing[id(standing)] = (standing, _encode(standing))
    return known[1]


def written_together(lines: Iterable[bytes]) -> bytes:
    """Put facts into one text, a line each; what several of them have in common stands in the first."""
    kept: list[bytes] = []
    last, length = b"\n", 1  # which no line ends with
    for line in lines:
        if line.endswith(last):
            kept.append(line[:-length])
            continue
        kept.append(line)
        _, separator, standing = line.partition(SEPARATOR)
        if separator:
            last, length = separator + standing, len(standing)
    return b"\n".join(kept)


def written_apart(text: bytes) -> list[bytes]:
    """Take facts that were written together apart again."""
    lines = text.split(b"\n")
    last = b""
    for place, line in enumerate(lines):
        head, separator, standing = line.partition(SEPARATOR)
        if separator:
            last = standing or last
            lines[place] = head + separator + last
    return lines


def written_about(text: bytes, word: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the lines that hold a word, each with its place, without taking the others apart.

    A word that only stands in what a line has in common with those before it is not found there.
    """
    place = begin = 0
    found = text.find(word)
    while found >= 0:
        start = text.rfind(b"\n", 0, found) + 1
        end = text.find(b"\n", found)
        end = len(text) if end < 0 else end
        place += text.count(b"\n", begin, start)
        begin, line = start, text[start:end]
        if line.endswith(SEPARATOR):
            line += next(reversed(_COMMON.findall(text, 0, start)), b"")
        yield place, line
        found = text.find(word, end)


def recall(line: bytes, steps: Mapping[str, Step]) -> Fact:
    """Read a fact back.

    Raises:
        StoreError: it is not one of ours, or takes a step that this version does not know.
    """
    try:
        head, _, standing = line.partition(SEPARATOR)
        found = _decode(head)
        step = steps[found.step]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    except KeyError as error:
        raise StoreError(f"the log knows a step {error} that this version does not; use a newer agenttool") from error
    data: FactData = found.data if found.kind is None else _unpacked(found, standing)
    return Fact(step, found.at_ns, found.sequence, found.invocation_id, found.tool_id, data)


def _unpacked(line: _Line, standing: bytes) -> Evidence:
    """Read a brief back.

    Raises:
        StoreError: it is of a kind that this version does not know, or not what its kind should be.
    """
    call = line.invocation_id or InvocationId("")
    try:
        match line.kind, line.words:
            case "end", (result,):
                return Ended(_result(result))
            case "said", (words,):
                return Ended(_plain(words, call), is_plain=True)
            case "made", (result, modifiers):
                return Made(_result(result), _decode_object(modifiers))
            case "launch", (launch,):
                return Launched(_decode_launch(launch), _decode_standing(standing), call)
            case ("call" | "done") as kind, (launch, words, started):
                launched = Launched(_decode_launch(launch), _decode_standing(standing), call)
                result = _result(words) if kind == "call" else _plain(words, call)
                return Completed(launched, result, _decode_number(started), is_plain=kind == "done")
            case _:
                pass
    except (msgspec.DecodeError, UnicodeDecodeError, RecordError) as error:
        raise _unreadable(error) from error
    raise StoreError(f"the log tells something as {line.kind!r} that this version does not know; use a newer agenttool")


def _result(document: msgspec.Raw) -> ToolResult:
    return read(bytes(document), ToolResult)


def _plain(words: msgspec.Raw, call: InvocationId) -> ToolResult:
    """Make a plain result of what was said; the id of a result is that of its call but for the first letters."""
    found = _decode_said(words)
    spelled = bytes(found.spelled)
    if found.text is None:
        text, structured = spelled.decode(), parse_value(spelled)
    else:
        text, structured = found.text, found.text if spelled else UNSET
    result_id = ResultId(f"res_{call.partition('_')[2]}")
    return plain_result(text, structured, invocation_id=call, result_id=result_id, created_at=found.created_at)


def moment_of(line: bytes) -> int:
    """Read the moment of a fact and nothing else.

    Raises:
        StoreError: it is not one of ours.
    """
    return _opening(line).at_ns


def call_of(line: bytes) -> InvocationId | None:
    """Read which call a fact is about and nothing else.

    Raises:
        StoreError: it is not one of ours.
    """
    return _opening(line).invocation_id


def _opening(line: bytes) -> _Opening:
    try:
        return _decode_opening(line.partition(SEPARATOR)[0])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> StoreError:
    return StoreError(f"a fact in the log cannot be read: {error}; verify the log")
