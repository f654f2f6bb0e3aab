"""The port of hooks: functions or commands that users add to the phases of a call."""

from collections.abc import Coroutine
from typing import Protocol

from agenttool.records import HookEvent, InvocationId, Json, JsonObject, Part, ToolId


class HookQuestion(Part, frozen=True, kw_only=True):
    """The input of a hook. Every value is a copy: changing it changes nothing."""

    hook_event: HookEvent
    invocation_id: InvocationId
    tool_id: ToolId
    tool_name: str
    input: JsonObject
    output: Json = None
    details: JsonObject | None = None


class HookRunner(Protocol):
    """Runs one hook once."""

    def run(self, question: HookQuestion) -> Coroutine[object, object, object]:
        """Run the hook and return its reply: none, a `HookReply`, or a JSON object with the members of one.

        Raises:
            Exception: the exception of the hook; it fails the call if the hook runs before the tool.
        """
        ...
