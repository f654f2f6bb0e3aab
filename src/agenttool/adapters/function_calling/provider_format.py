"""One provider API as a table of functions, and what all APIs share: requests, the calls of a reply, and repair."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from agenttool.adapters.function_calling.call_output import INTERRUPTED, CallOutput
from agenttool.adapters.function_calling.model_reply import (
    HALVES,
    ModelReply,
    RequestedCall,
    StreamAssembler,
    arguments_object,
    is_blank,
    kind_in,
    object_in,
    objects_at,
    whole_characters,
)
from agenttool.adapters.function_calling.strict_schema import remove_placeholder_nulls
from agenttool.adapters.function_calling.tool_payload import (
    PayloadTool,
    ProviderLimits,
    ToolPayload,
    ToolRequestOptions,
)
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError, ReplyError
from agenttool.ports.calls import ToolCall
from agenttool.records import UNSET, FunctionMapping, Json, JsonObject, UnsetType

CUT_OFF = "the reply was cut off before this call was complete, and it was not run; ask again, with shorter arguments"
_IDENTITY = ("id", "response_id", "responseId", "created", "created_at", "create_time", "createTime")
"""The members of a reply that distinguish it from others, and that a stream has from its start."""

_Key = Callable[[JsonObject], str | None]
_Position = tuple[int, int]
"""Where a call or a result is: the turn, and the place within it."""


def match_key(*parts: Json) -> str:
    """Return the key by which a call and its result match, whatever values they have."""
    return repr(parts)


def _match_results(calls: dict[_Position, str], results: dict[_Position, str]) -> dict[_Position, _Position]:
    """Match each call with the first result of its key that comes before a later turn uses the key again."""
    unmatched: dict[str, list[_Position]] = {}
    found: dict[_Position, _Position] = {}
    for place, key in sorted((calls | results).items()):
        if place in calls:
            before = unmatched.get(key, [])
            unmatched[key] = [*(each for each in before if each[0] == place[0]), place]
        elif unmatched.get(key):
            found[unmatched[key].pop(0)] = place
    return found


def unique_ids(given: Sequence[Json]) -> list[str]:
    """Return a unique id for each call: its own, unless that is missing or an earlier call has it."""
    present = {each for each in given if isinstance(each, str)}
    assigned: dict[str, None] = {}
    for place, each in enumerate(given):
        own = each if isinstance(each, str) and each and each not in assigned else f"call_{place}"
        while own in assigned or (own != each and own in present):
            own += "_"
        assigned[own] = None
    return [*assigned]


def openai_arguments(tools: list[Json], choice: Json, options: ToolRequestOptions) -> JsonObject:
    """Return the tools, the tool choice and whether calls may be parallel, as far as the options set them."""
    members: JsonObject = {"tool_choice": choice, "parallel_tool_calls": options.parallel_tool_calls}
    return {"tools": tools, **{key: value for key, value in members.items() if value is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFormat:
    """The tools, calls and results of one provider API.

    A *part* is what the API divides a message into: a block, an item, or one of the calls of a message. The functions
    that take a part return None for one that holds no call, or no result.

    Attributes:
        api: its name in messages.
        provider: its name in records.
        tool: a tool as it is sent.
        search_tool: the provider's native search as it is sent; it comes last.
        tool_choice: the tool choice as it is sent; None if the options set none.
        arguments: the arguments of a request that are about tools.
        recognizes: whether a document is a complete reply.
        read_document: reads a reply, with the reader of its calls.
        assembler: assembles a streamed reply.
        write: the messages that carry outputs.
        request_in: the name, the arguments and the id of the call in a part, as the model wrote them.
        echo: takes a part with a call, and a unique id; returns the part as the API accepts it.
        needs_no_answer: whether a part without a call needs no answer from the program.
        as_json: documents have no bytes.
        parts: the parts of a message.
        parts_in: the member of a message that holds its parts.
        reply_role: the role of the model's messages.
        result_key: the match key of a result.
        result_for: a result, changed to refer to a call.
        call_key: the match key of a call, if that is not its id.
        fallback_key: the match key for a call or a result that found no counterpart by its key.
        has_result_messages: each result is a message of its own.
        drops_unmatched: whether a result without a call is dropped; else it stays with its turn.
    """

    api: str
    provider: str
    limits: ProviderLimits
    tool: Callable[[PayloadTool], JsonObject]
    search_tool: JsonObject | None = None
    tool_choice: Callable[[ToolPayload], Json]
    arguments: Callable[[list[Json], Json, ToolRequestOptions], JsonObject] = openai_arguments
    recognizes: Callable[[JsonObject], bool]
    read_document: "Callable[[JsonObject, CallReader], ModelReply]"
    assembler: Callable[[], StreamAssembler]
    write: Callable[[Sequence[CallOutput]], list[JsonObject]]
    request_in: Callable[[JsonObject], tuple[Json, Json, Json] | None]
    echo: Callable[[JsonObject, str], JsonObject]
    needs_no_answer: Callable[[JsonObject], bool] = lambda _: False
    as_json: bool = True
    parts: Callable[[JsonObject], list[JsonObject]]
    parts_in: str
    reply_role: str = "assistant"
    result_key: _Key
    result_for: Callable[[JsonObject, JsonObject], JsonObject]
    call_key: _Key | None = None
    fallback_key: _Key = lambda _: None
    has_result_messages: bool = False
    drops_unmatched: bool = True

    def request(self, payload: ToolPayload) -> JsonObject:
        """Return the arguments of a request that are about tools.

        Raises:
            ConfigError: the tool choice names no tool that is sent, or several.
        """
        tools: list[Json] = [self.tool(each) for each in payload.tools.values()]
        if payload.has_deferred:
            tools.append(self.search_tool)
        return self.arguments(tools, self.tool_choice(payload), payload.options) if tools else {}

    def read(self, reply: object, payload: ToolPayload) -> ModelReply:
        """Read a complete reply of the API.

        Raises:
            ReplyError: it failed, or has a part that only the program can answer.
        """
        document = object_in(reply, as_json=self.as_json)
        return self.read_document(document, CallReader(self, payload, document))

    def repair(self, messages: Sequence[object], /) -> list[object]:
        """Return a conversation in which every call has a result; a missing one says that it was interrupted.

        The results of a message's calls come first in the message after it. A part that is as it should be stays.
        """
        whole = [object_in(each, as_json=self.as_json) for each in messages]
        inside = [self.parts(each) for each in whole]
        parts = {(turn, place): part for turn, each in enumerate(inside) for place, part in enumerate(each)}
        calls, results = _keys(parts, self.call_key or self._id_key), _keys(parts, self.result_key)
        matches = _match_results(calls, results)
        unmatched = {at: part for at, part in parts.items() if at not in matches and at not in matches.values()}
        others = _keys(unmatched, self.fallback_key)
        matches |= _match_results(
            {at: key for at, key in others.items() if at in calls},
            {at: key for at, key in others.items() if at in results},
        )
        ids = unique_ids([(self.request_in(parts[at]) or (None,))[-1] for at in calls])
        repeated = {
            at: _unless_changed(parts[at], self.echo(parts[at], own)) for at, own in zip(calls, ids, strict=True)
        }
        unclaimed = () if self.drops_unmatched else set(results) - set(matches.values())
        repaired: list[object] = []
        pending: list[JsonObject] = []
        for turn, message in enumerate(messages):
            if pending and (self.has_result_messages or whole[turn].get("role") == self.reply_role):
                repaired += self._result_messages(pending)
                pending = []
            own = [(turn, place) for place in range(len(inside[turn]))]
            new = [*pending, *(repeated.get(at, parts[at]) for at in own if at not in results)]
            if new == inside[turn]:
                repaired.append(message)
            elif new:
                repaired.append({**whole[turn], self.parts_in: new})
            pending = [
                _unless_changed(parts[result], self.result_for(parts[result], repeated[at]))
                if (result := matches.get(at))
                else self._interrupted(repeated[at])
                for at in own
                if at in repeated
            ]
            pending += (parts[at] for at in own if at in unclaimed)
        return [*repaired, *self._result_messages(pending)] if pending else repaired

    def _id_key(self, part: JsonObject) -> str | None:
        request = self.request_in(part)
        return None if request is None or self.result_key(part) is not None else match_key(request[-1])

    def _interrupted(self, call: JsonObject) -> JsonObject:
        name, _, call_id = self.request_in(call) or ("", None, "")
        requested = RequestedCall(
            call_id=str(call_id),
            came_with_id=bool(call_id),
            function_name=str(name),
            call=ToolCall(name=str(name), arguments={}),
        )
        (message,) = self.write([CallOutput(requested=requested, pieces=(INTERRUPTED,), is_error=True)])
        return next(iter(objects_at(message, self.parts_in, as_json=self.as_json)), message)

    def _result_messages(self, results: Sequence[JsonObject]) -> list[JsonObject]:
        return [*results] if self.has_result_messages else [{"role": "user", self.parts_in: [*results]}]


def _keys(parts: Mapping[_Position, JsonObject], key_of: _Key) -> dict[_Position, str]:
    return {at: key for at, part in parts.items() if (key := key_of(part)) is not None}


def _unless_changed(part: JsonObject, changed: JsonObject) -> JsonObject:
    """Return the part itself unless it has changed."""
    return part if part == changed else changed


@dataclass(slots=True)
class CallReader:
    """Reads the calls of one reply. Every call gets a unique id, and a malformed one affects no other."""

    provider: ProviderFormat
    payload: ToolPayload
    reply: JsonObject
    tool_choice: Json | UnsetType = field(init=False, default=UNSET)
    seen: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Record the tool choice of the request; it stays unset if there is none or if it could not be sent."""
        with suppress(ConfigError):
            choice = self.provider.tool_choice(self.payload)
            self.tool_choice = UNSET if choice is None else choice

    def read(
        self, parts: Sequence[JsonObject], *, is_cut: bool, expected: Json = None
    ) -> tuple[list[JsonObject], tuple[RequestedCall, ...]]:
        """Return the parts as the next request repeats them, and the calls among them, malformed ones included.

        Args:
            parts: the parts of the reply.
            is_cut: whether the reply was cut off in its last part.
            expected: why the reply ended, if that says that it has calls.

        Raises:
            ReplyError: a part may need an answer that only the program can give, or expected calls are missing.
        """
        repeated, calls = list[JsonObject](), list[RequestedCall]()
        for part in parts:
            request = self.provider.request_in(part)
            if request is None:
                if not self.provider.needs_no_answer(part):
                    raise ReplyError(
                        f"received a part {kind_in(part)}, which agenttool cannot answer; send only the tools of"
                        " `tools.request()` and tools that the provider runs itself, or answer this part yourself and"
                        " remove it from the reply"
                    )
                repeated.append(part)
                continue
            # A limit cuts off the last part, and calls without arguments if a stream interleaves parts.
            may_be_cut = part is parts[-1] or is_blank(request[1])
            is_incomplete = (is_cut and may_be_cut) or part.get("status") == "incomplete"
            calls.append(self._call(*request, fault=CUT_OFF if is_incomplete else None))
            repeated.append(self.provider.echo(part, calls[-1].call_id))
        if expected is not None and not calls:
            raise ReplyError(
                f"the reply ended with the reason {expected!r}, but it has no calls; send the request again"
            )
        return repeated, tuple(calls)

    def _call(self, name: Json, arguments: Json, call_id: Json, *, fault: str | None) -> RequestedCall:
        own_id = self._unique_id(call_id, name, arguments)
        called = str(whole_characters(name, is_lossy=True)) if isinstance(name, str) else ""
        sent = self.payload.tools.get(called)
        mapping = FunctionMapping(
            provider=self.provider.provider,
            tool_call_id=own_id,
            function_name=called,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.payload.options.parallel_tool_calls,
            strict=sent is not None and sent.is_strict,
            defer_loading=sent is not None and sent.tool.is_deferred,
        )
        given = {} if is_blank(arguments) else arguments
        dialect = self.provider.limits.dialect
        if sent is not None and sent.is_strict and dialect is not None and dialect.all_required:
            with suppress(RecursionError):  # nested too deeply; the runtime reports it
                given = _without_nulls(given, sent.tool.input_schema)
        call = ToolCall(
            name=called if sent is None else sent.tool.qualified_name,
            arguments=cast("JsonObject | str", given),
            native_call_id=own_id,
            mapping=mapping,
            fault=fault,
            shown=self.payload.shown,
        )
        return RequestedCall(call_id=own_id, came_with_id=bool(call_id), function_name=called, call=call)

    def _unique_id(self, given: Json, name: Json, arguments: Json) -> str:
        """Return the provider's id; replace one that is missing or already used in this reply."""
        call_id = given if isinstance(given, str) and not HALVES.search(given) else ""
        if not call_id or call_id in self.seen:
            identity = [self.reply.get(key) for key in _IDENTITY]
            written = repr((identity, name, arguments)).encode(errors="replace")
            call_id = f"call_{hashlib.sha256(written).hexdigest()[:16]}_{len(self.seen)}"
        self.seen.add(call_id)
        return call_id


def _without_nulls(arguments: Json, schema: JsonObject) -> Json:
    """Remove the placeholder nulls of strict mode; text that is no JSON object is returned unchanged."""
    read = arguments_object(arguments)
    whole = read if read is None else remove_placeholder_nulls(read, schema, schema)
    if whole is read:
        return arguments
    return json_bytes(whole).decode() if isinstance(arguments, str) else whole
