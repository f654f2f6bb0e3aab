"""The tool by which a model finds the tools that wait, and has them loaded."""

from typing import cast

from agenttool.catalog.entry import BUILT_IN
from agenttool.catalog.unresolved import FINDER
from agenttool.pipeline.call import Call
from agenttool.ports.executor import Job
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    JsonObject,
    Lifecycle,
    PermissionProfile,
    PermissionProfileId,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    WriteEffect,
)

FINDER_ID = ToolId(f"tool_{BUILT_IN}.{FINDER}")

AT_MOST = 50
DEFAULT_LIMIT = 5

_DESCRIPTION = (
    "Find tools that are not listed here, and load them. Say in a few words what is to be done, and get the tools "
    "that fit, best first. Then load what you need with the query select:NAME, or select:NAME,NAME for several; "
    "loaded tools can be called from the next turn on. Not for searching files, the web or anything but tools."
)
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "What is to be done, such as 'open a pull request'; or select:NAME to load a tool",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": AT_MOST,
            "description": f"How many matches to give at most; {DEFAULT_LIMIT} if left out",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def tool_search_tool() -> DeclaredTool:
    """Declare the tool; it is harmless, so that no rule needs to speak for it, and any rule can speak against it."""
    interface_id = InterfaceId(f"interface:{FINDER_ID}")
    execution_id = ExecutionProfileId(f"execution:{FINDER_ID}")
    permission_id = PermissionProfileId(f"permission:{FINDER_ID}")
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=FINDER_ID,
            namespace=BUILT_IN,
            name=FINDER,
            description=_DESCRIPTION,
            lifecycle=Lifecycle.AVAILABLE,
            tool_kind=ToolKind.RETRIEVAL,
            input_contract=InputContract(model_input_schema=_SCHEMA, strict=True),
            interface_ref=interface_id,
            execution_profile_ref=execution_id,
            permission_profile_ref=permission_id,
        ),
        interface=ToolInterface(
            interface_id=interface_id,
            tool_id=FINDER_ID,
            is_read_only=True,
            is_concurrency_safe=True,
            is_destructive=False,
            is_open_world=False,
            always_load=True,
        ),
        execution_profile=ExecutionProfile(
            execution_profile_id=execution_id,
            execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
            supports_cancel=True,
            supports_timeout=True,
        ),
        permission_profile=PermissionProfile(
            permission_profile_id=permission_id,
            risk_level=RiskLevel.LOW,
            write_effects=(WriteEffect.NONE,),
            approval_required=False,
        ),
        executor=ToolSearch(),
    )


class ToolSearch:
    """Searches on behalf of the agent that asks, on the surface that it asks on."""

    async def start(self, job: Job, /) -> JsonObject:
        """Search, and load what was selected."""
        call = cast("Call", job)  # it is the call itself; nothing else knows the surface
        asked = job.call_input
        return await call.core.find_tools(
            call.surface, str(asked["query"]), cast("int", asked.get("limit", DEFAULT_LIMIT))
        )
