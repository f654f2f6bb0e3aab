"""The provider formats by name."""

from collections.abc import Sequence
from typing import Protocol

from agenttool.adapters.function_calling import anthropic, gemini, openai_chat, openai_responses
from agenttool.adapters.function_calling.call_output import CallOutput
from agenttool.adapters.function_calling.model_reply import ModelReply
from agenttool.adapters.function_calling.tool_payload import ProviderLimits, ToolPayload
from agenttool.errors import ConfigError
from agenttool.records import JsonObject


class ProviderFormat(Protocol):
    """The tools, calls and results of one provider API. Each provider module of this folder implements it."""

    LIMITS: ProviderLimits

    def request(self, payload: ToolPayload) -> JsonObject:
        """Return the arguments of a request that are about tools."""
        ...

    def read(self, reply: object, payload: ToolPayload) -> ModelReply:
        """Read the reply of the API."""
        ...

    def write(self, outputs: Sequence[CallOutput]) -> list[JsonObject]:
        """Return the messages that carry the outputs."""
        ...

    def repair(self, conversation: Sequence[object], /) -> list[object]:
        """Return the conversation with a result for every call."""
        ...


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
