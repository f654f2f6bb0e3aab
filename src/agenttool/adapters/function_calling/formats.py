"""The formats by name, and what each of them can do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agenttool.adapters.function_calling import anthropic, gemini, openai_chat, openai_responses
from agenttool.adapters.function_calling.content import Answer
from agenttool.adapters.function_calling.menu import Limits, Menu
from agenttool.adapters.function_calling.reply import Reply
from agenttool.errors import ConfigError
from agenttool.records import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How one API of a provider wants its tools, its calls and its results.

    Attributes:
        request: a menu to the arguments of a request.
        read: what the API answered, to what the model asked for.
        write: answers to the messages that carry them.
        settle: a conversation to one in which no call is without a result.
    """

    limits: Limits
    request: Callable[[Menu], JsonObject]
    read: Callable[[object, Menu], Reply]
    write: Callable[[Sequence[Answer]], list[JsonObject]]
    settle: Callable[[Sequence[object]], list[object]]


FORMATS = {
    "anthropic": Format(
        limits=anthropic.LIMITS,
        request=anthropic.request,
        read=anthropic.read,
        write=anthropic.write,
        settle=anthropic.settle,
    ),
    "gemini": Format(
        limits=gemini.LIMITS, request=gemini.request, read=gemini.read, write=gemini.write, settle=gemini.settle
    ),
    "openai": Format(
        limits=openai_chat.LIMITS,
        request=openai_chat.request,
        read=openai_chat.read,
        write=openai_chat.write,
        settle=openai_chat.settle,
    ),
    "openai_responses": Format(
        limits=openai_responses.LIMITS,
        request=openai_responses.request,
        read=openai_responses.read,
        write=openai_responses.write,
        settle=openai_responses.settle,
    ),
}


def format_named(name: str) -> Format:
    """Find a format.

    Raises:
        ConfigError: there is none of that name.
    """
    found = FORMATS.get(name)
    if found is None:
        raise ConfigError(f"no format is called {name!r}; use one of {', '.join(FORMATS)}")
    return found
