"""Governed tools for the OpenAI Agents SDK: `Agent(name="Clerk", tools=await openai_agents.tools(rt))`.

The model reads the text of a result, also that of a failed call.
"""

# Where this module is checked, the framework need not be installed.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false

from typing import TYPE_CHECKING, Protocol

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework

if TYPE_CHECKING:
    from agents import Tool


class ToolContext(Protocol):
    """What a tool needs of the context that the SDK passes to it."""

    tool_call_id: str


def _tool(governed: GovernedFunction) -> "Tool":
    framework = load_framework("agents", "openai-agents")

    async def call(context: ToolContext, arguments: str) -> str:
        return model_text(await governed.call(arguments or "{}", context.tool_call_id))

    return framework.FunctionTool(
        name=governed.name,
        description=governed.description,
        params_json_schema=governed.schema,
        on_invoke_tool=call,
        strict_json_schema=False,
    )


tools = FrameworkTools(_tool)
