"""One turn of a model: its reply, the calls in it, and their results or what they wait for."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from agenttool.adapters.function_calling.model_reply import ModelReply, RequestedCall, whole_characters
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import ConfigError, RecordError, ReplyError
from agenttool.policy.approvals import Question
from agenttool.ports.calls import ToolCall
from agenttool.records import InvocationId, Json, JsonObject, ToolResult

_MARK = "base64:"
_BYTES = f"{_MARK}bytes"
"""The key under which bytes are stored; signatures of Gemini are bytes. A model may use the key, so it is escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call that has no result yet.

    Attributes:
        approval: the open question to answer with `rt.approvals.decide`; None if the call waits for something else,
            such as the result of a remote job.
    """

    invocation_id: InvocationId
    tool_name: str
    approval: Question | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One reply of a model, the calls in it, and their results.

    Attributes:
        provider: the format of the conversation.
        text: what the model wrote to the user.
        reply_messages: the reply as the next request must repeat it.
        result_messages: the messages with the results of its calls; none while calls are pending.
        results: the results of the calls that have ended, in the order of the calls.
        pending: the calls that wait; `tools.resume` continues the turn.
        is_final: the reply has no calls, and the model does not expect to continue.
        is_cut: the provider ended the reply at a limit or a filter, so its text is not complete.
    """

    provider: str
    text: str
    reply_messages: tuple[JsonObject, ...]
    result_messages: tuple[JsonObject, ...] = ()
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    pending: tuple[WaitingCall, ...] = ()
    is_final: bool
    is_cut: bool = False
    _requested: tuple[tuple[RequestedCall, InvocationId], ...] = field(default=(), repr=False)

    @property
    def messages(self) -> list[JsonObject]:
        """What to add to the conversation: the reply, then the results of all of its calls.

        Raises:
            ConfigError: calls are pending, and no provider takes a call without its result.
        """
        if self.pending:
            waiting = ", ".join(each.tool_name for each in self.pending)
            raise ConfigError(f"this turn waits for {waiting}; decide, then pass the turn to `tools.resume`")
        return [*self.reply_messages, *self.result_messages]

    def to_json(self) -> str:
        """Return the turn as text for `tools.resume`, also in another process on the same durable store.

        It contains the reply of the model with all arguments, so protect it as you protect the conversation.
        """
        calls: list[Json] = [
            {
                "call_id": each.call_id,
                "came_with_id": each.came_with_id,
                "function_name": each.function_name,
                "name": each.call.name,
                "arguments": cast("Json", each.call.arguments),
                "invocation_id": invocation_id,
            }
            for each, invocation_id in self._requested
        ]
        whole: JsonObject = {
            "provider": self.provider,
            "text": self.text,
            "reply_messages": [*self.reply_messages],
            "is_final": self.is_final,
            "is_cut": self.is_cut,
            "calls": calls,
        }
        return dump_json(whole)


def read_turn(turn: ModelTurn | str) -> tuple[str, ModelReply, list[InvocationId]]:
    """Return the provider, the reply and the started calls of a turn, or of the text that `to_json` made of one.

    Raises:
        ConfigError: it is something else.
    """
    text = turn.to_json() if isinstance(turn, ModelTurn) else turn
    try:
        whole = load_json(text)
        written = cast("list[JsonObject]", whole["calls"])
        reply = ModelReply(
            echo=tuple(cast("list[JsonObject]", whole["reply_messages"])),
            calls=tuple(map(_requested, written)),
            text=cast("str", whole["text"]),
            is_final=cast("bool", whole["is_final"]),
            is_cut=cast("bool", whole["is_cut"]),
        )
        return cast("str", whole["provider"]), reply, [cast("InvocationId", each["invocation_id"]) for each in written]
    except (AttributeError, KeyError, TypeError, RecordError) as error:
        raise ConfigError("`resume` takes a turn, or the text that its `to_json` returned") from error


def _requested(written: JsonObject) -> RequestedCall:
    call_id = cast("str", written["call_id"])
    arguments = cast("JsonObject | str", written["arguments"])
    return RequestedCall(
        call_id=call_id,
        came_with_id=bool(written["came_with_id"]),
        function_name=cast("str", written["function_name"]),
        call=ToolCall(name=cast("str", written["name"]), arguments=arguments, native_call_id=call_id),
    )


def dump_json(value: JsonObject) -> str:
    """Return JSON that may contain bytes as text for `load_json`."""
    return json_bytes(cast("JsonObject", _without_bytes(value))).decode()


def load_json(text: str) -> JsonObject:
    """Return what `dump_json` wrote.

    Raises:
        RecordError: it is no JSON object.
    """
    return cast("JsonObject", _with_bytes(parse_object(text.encode(), what="state")))


def _without_bytes(value: object) -> object:
    if isinstance(value, str):
        return whole_characters(value, is_lossy=True)
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        members = {key: _without_bytes(each) for key, each in cast("Mapping[str, object]", value).items()}
        is_marked = len(members) == 1 and next(iter(members)).startswith(_MARK)
        return {_MARK + key: each for key, each in members.items()} if is_marked else members
    return [_without_bytes(each) for each in cast("list[object]", value)] if isinstance(value, list | tuple) else value


def _with_bytes(value: object) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        if members.keys() == {_BYTES}:
            return base64.b64decode(str(members[_BYTES]))
        is_marked = len(members) == 1 and next(iter(members)).startswith(_MARK * 2)
        return {key.removeprefix(_MARK) if is_marked else key: _with_bytes(each) for key, each in members.items()}
    return [_with_bytes(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


class IncompleteReplyError(ReplyError):
    """A stream ended or failed after some of its calls had started. Those run to their end.

    Attributes:
        reason: why the reply is incomplete.
        turn: the part of the reply that arrived, with the results of its calls. The conversation must contain its
            messages before the next request, so that the model does not repeat these calls.
        conversation: the whole conversation, if `run` sent the request; it contains the messages of the turn, unless
            calls of the turn wait. None if `answer` raised this.
    """

    def __init__(self, reason: str, turn: ModelTurn, conversation: list[object] | None = None) -> None:
        """Take the reason, the part of the turn that is complete, and the conversation of a run."""
        ran = f"{len(turn.calls)} of its calls {'was' if len(turn.calls) == 1 else 'were'} complete and started"
        whole = "the conversation" if conversation is None else "`error.conversation`"
        remedy = f"add `error.turn.messages` to {whole}, then send the next request"
        if turn.pending:
            remedy = (
                f"decide the calls in `error.turn.pending`, add the messages of `await tools.resume(error.turn)` to"
                f" {whole}, then send the next request"
            )
        elif conversation is not None:
            remedy = "their results are in `error.conversation`; pass it as `messages` to `run` again"
        super().__init__(f"{reason}; {ran}: {remedy}")
        self.reason = reason
        self.turn = turn
        self.conversation = conversation
