"""Governed tools for the OpenAI Agents SDK: `Agent(name="Clerk", tools=await openai_agents.tools(rt))`.

The model reads the text of a result, also that of a failed call.
"""

from typing import Protocol

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework


class ToolContext(Protocol):
    """What a tool needs of the context that the SDK passes to it."""

    tool_call_id: str


def _tool(governed: GovernedFunction) -> object:
    framework = load_framework("agents", "openai-agents")

    async def call(context: ToolContext, arguments: str) -> str:
        return model_text(await governed.call(arguments or "{}", context.tool_call_id))

    made: object = framework.FunctionTool(
        name=governed.function.name,
        description=governed.function.description,
        params_json_schema=governed.function.schema,
        on_invoke_tool=call,
        strict_json_schema=False,
    )
    return made


tools = FrameworkTools(_tool)
