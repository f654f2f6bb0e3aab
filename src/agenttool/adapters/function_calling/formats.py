"""The provider formats by name, and the check that a reply has the expected one."""

import inspect
from contextlib import suppress
from dataclasses import replace
from typing import cast

from agenttool.adapters.function_calling import anthropic, gemini, openai_chat, openai_responses
from agenttool.adapters.function_calling.model_reply import (
    ModelReply,
    error_in,
    object_in,
    whole_characters,
)
from agenttool.adapters.function_calling.provider_format import ProviderFormat
from agenttool.adapters.function_calling.tool_payload import ToolPayload
from agenttool.errors import ConfigError, ReplyError
from agenttool.records import JsonObject

_MAX_SHOWN = 80

FORMATS = {
    "anthropic": anthropic.FORMAT,
    "gemini": gemini.FORMAT,
    "openai": openai_chat.FORMAT,
    "openai_responses": openai_responses.FORMAT,
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
    read = provider.read(reply, payload)
    with suppress(RecursionError):  # nested too deeply; the runtime reports it
        echo = [cast("JsonObject", whole_characters(each, is_lossy=True)) for each in read.echo]
        return replace(read, echo=tuple(echo), text=str(whole_characters(read.text, is_lossy=True)))
    return read


def unexpected(provider: ProviderFormat, received: object) -> ReplyError:
    """Return the exception for a value that is no reply of an API, or cannot be the first event of its stream."""
    if provider.recognizes(object_in(received)):
        return ReplyError(
            f"received a complete reply of {provider.api} as an event of a stream; pass the reply itself, or request no"
            " stream from this server"
        )
    expected = f"expected a complete reply of {provider.api}, as an SDK object or a dictionary, or its stream"
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
            return f"received a reply of {each.api}; use tools_for({name!r}) for this API"
        with suppress(ReplyError):
            each.assembler().add(document)
            return f"received an event of a stream of {each.api}; use tools_for({name!r}), and pass the whole stream"
    return str(error_in(document))
