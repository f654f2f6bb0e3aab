"""The formats by name, and what each of them can do."""

from collections.abc import Sequence
from typing import Protocol

from agenttool.adapters.function_calling import anthropic, gemini, openai_chat, openai_responses
from agenttool.adapters.function_calling.content import Answer
from agenttool.adapters.function_calling.menu import Limits, Menu
from agenttool.adapters.function_calling.reply import Reply
from agenttool.errors import ConfigError
from agenttool.records import JsonObject


class Format(Protocol):
    """How one API of a provider wants its tools, its calls and its results; a module of this folder is one."""

    LIMITS: Limits

    def request(self, menu: Menu) -> JsonObject:
        """Turn a menu into the arguments of a request."""
        ...

    def read(self, reply: object, menu: Menu) -> Reply:
        """Turn what the API answered into what the model asked for."""
        ...

    def write(self, answers: Sequence[Answer]) -> list[JsonObject]:
        """Turn answers into the messages that carry them."""
        ...

    def settle(self, conversation: Sequence[object], /) -> list[object]:
        """Turn a conversation into one in which no call is without a result."""
        ...


FORMATS: dict[str, Format] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai": openai_chat,
    "openai_responses": openai_responses,
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
