"""The provider formats by name, and the check that a reply has the expected one."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from agenttool.adapters.function_calling import anthropic, gemini, openai_chat, openai_responses
from agenttool.adapters.function_calling.call_output import CallOutput
from agenttool.adapters.function_calling.model_reply import ModelReply, StreamAssembler, error_in, object_in
from agenttool.adapters.function_calling.tool_payload import ProviderLimits, ToolPayload
from agenttool.errors import ConfigError, ReplyError
from agenttool.records import JsonObject


class ProviderFormat(Protocol):
    """The tools, calls and results of one provider API. Each provider module of this folder implements it."""

    API: str
    LIMITS: ProviderLimits

    def request(self, payload: ToolPayload) -> JsonObject:
        """Return the arguments of a request that are about tools."""
        ...

    def recognizes(self, reply: JsonObject) -> bool:
        """Return whether a document is a complete reply of the API."""
        ...

    def read(self, reply: object, payload: ToolPayload) -> ModelReply:
        """Read the reply of the API."""
        ...

    @property
    def assembler(self) -> Callable[[], StreamAssembler]:
        """The class that assembles a streamed reply."""
        ...

    def write(self, outputs: Sequence[CallOutput]) -> list[JsonObject]:
        """Return the messages that carry the outputs."""
        ...

    def repair(self, conversation: Sequence[object], /) -> list[object]:
        """Return the conversation with a result for every call."""
        ...


_MAX_SHOWN = 80

FORMATS: dict[str, ProviderFormat] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai": openai_chat,
    "openai_responses": openai_responses,
}


def find_format(name: str) -> ProviderFormat:
    """Return a format by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    found = FORMATS.get(name)
    if found is None:
        raise ConfigError(f"unknown provider format {name!r}; use one of {', '.join(FORMATS)}")
    return found


def read_reply(provider: ProviderFormat, reply: object, payload: ToolPayload) -> ModelReply:
    """Read a complete reply, as an SDK object or as JSON.

    Raises:
        ReplyError: it is no reply of this API, or one that failed.
    """
    if not provider.recognizes(object_in(reply)):
        raise unexpected(provider, reply)
    return provider.read(reply, payload)


def unexpected(provider: ProviderFormat, received: object) -> ReplyError:
    """Return the exception for a value that is neither a reply of an API nor an event of its stream."""
    expected = f"expected a complete reply of {provider.API}, as an SDK object or a dictionary, or its stream"
    return ReplyError(f"{_description(received)}; {expected}")


def _description(received: object) -> str:
    """Describe a value that is no reply, and what to do about it."""
    if inspect.isawaitable(received):
        if inspect.iscoroutine(received):
            received.close()  # it is reported here, and not as a coroutine that was never awaited
        return f"received a {type(received).__name__} that was not awaited; write `await` before the request"
    document = object_in(received)
    if not document:
        shown = repr(received)
        cut = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
        return "received None" if received is None else f"received {cut} ({type(received).__name__})"
    for name, each in FORMATS.items():
        if each.recognizes(document):
            return f"received a reply of {each.API}; use tools_for({name!r}) for this API"
        with suppress(ReplyError):
            each.assembler().add(document)
            return f"received an event of a stream of {each.API}; use tools_for({name!r}), and pass the whole stream"
    return str(error_in(document))
