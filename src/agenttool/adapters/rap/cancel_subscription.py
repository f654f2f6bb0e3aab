"""The built-in tool by which a model ends a subscription of its own thread."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from agenttool.adapters.rap.subscriptions import CANCEL_SUBSCRIPTION, Subscriptions
from agenttool.errors import ToolFailure
from agenttool.ports.executor import Job
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    ErrorClass,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    InvocationId,
    JsonObject,
    Lifecycle,
    PermissionProfile,
    PermissionProfileId,
    RetryGuidance,
    RiskLevel,
    ToolDeclaration,
    ToolError,
    ToolId,
    ToolInterface,
    ToolKind,
    WriteEffect,
)

_ID = ToolId(f"tool_rap.{CANCEL_SUBSCRIPTION}")
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "tool_call_id": {"type": "string", "description": "The id of the call that opened the subscription."}
    },
    "required": ["tool_call_id"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class _Cancel:
    """Ends a subscription and tells every server, in the same turn."""

    subscriptions: Subscriptions
    withdraw: Callable[[InvocationId, str], None]

    def start(self, job: Job) -> Coroutine[object, object, object]:
        """Give the work of one run."""
        return self._cancel(job)

    async def _cancel(self, job: Job) -> object:
        tool_call_id = str(job.call_input["tool_call_id"])
        if not await self.subscriptions.end(job.thread.thread_id, tool_call_id):
            message = f"this thread has no open subscription {tool_call_id!r}; a thread cancels only its own"
            retry = RetryGuidance(safe=True, arguments_must_change=True)
            raise ToolFailure(
                ToolError(
                    error_class=ErrorClass.EXECUTION_FAILED, error_code="unknown_id", message=message, retry=retry
                )
            )
        self.withdraw(InvocationId(tool_call_id), job.thread.thread_id)
        return f"The subscription {tool_call_id} is canceled."


def cancel_subscription_tool(
    subscriptions: Subscriptions, withdraw: Callable[[InvocationId, str], None]
) -> DeclaredTool:
    """Declare the tool; it changes nothing but what this runtime still listens to."""
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=_ID,
            namespace="rap",
            name=CANCEL_SUBSCRIPTION,
            description="End a subscription that was opened in this conversation, so that no more of its events come.",
            lifecycle=Lifecycle.AVAILABLE,
            tool_kind=ToolKind.NATIVE_TOOL,
            input_contract=InputContract(model_input_schema=_SCHEMA, runtime_input_schema=_SCHEMA),
        ),
        interface=ToolInterface(
            interface_id=InterfaceId(f"interface:{_ID}"),
            tool_id=_ID,
            is_read_only=False,
            is_destructive=False,
            is_concurrency_safe=True,
            is_open_world=True,
        ),
        execution_profile=ExecutionProfile(
            execution_profile_id=ExecutionProfileId(f"execution:{_ID}"),
            execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
        ),
        permission_profile=PermissionProfile(
            permission_profile_id=PermissionProfileId(f"permission:{_ID}"),
            risk_level=RiskLevel.LOW,
            write_effects=(WriteEffect.REMOTE_MUTATION,),
        ),
        executor=_Cancel(subscriptions, withdraw),
    )
