"""Hooks: code or commands of others that stand beside the path of a call."""

from dataclasses import dataclass
from typing import Protocol

from agenttool.records import HookEvent, InvocationId, Json, JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class HookQuestion:
    """What a hook is told. Every value is the hook's own copy: changing it changes nothing."""

    hook_event: HookEvent
    invocation_id: InvocationId
    tool_id: ToolId
    tool_name: str
    input: JsonObject
    output: Json = None
    details: JsonObject | None = None


class HookRunner(Protocol):
    """Runs one hook once."""

    async def run(self, question: HookQuestion) -> object:
        """Ask the hook. The answer is nothing, a `HookReply`, or a JSON object with the members of one.

        Raises:
            Exception: whatever the hook raised; it fails the call if the hook stands before the tool.
        """
        ...
