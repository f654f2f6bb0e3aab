"""Governed tools for Pydantic AI: `Agent(model, tools=await pydantic_ai.tools(rt))`.

The model reads the text of a result, also that of a failed call.
"""

# Where this module is checked, the framework need not be installed.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false

from typing import TYPE_CHECKING, Protocol

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework
from agenttool.records import Json

if TYPE_CHECKING:
    from pydantic_ai import Tool


class RunContext(Protocol):
    """What a tool needs of the context that Pydantic AI passes to it."""

    tool_call_id: str | None


def _tool(governed: GovernedFunction) -> "Tool[object]":
    framework = load_framework("pydantic_ai", "pydantic-ai-slim")

    async def call(context: RunContext, /, **arguments: Json) -> str:
        return model_text(await governed.call(arguments, context.tool_call_id))

    return framework.Tool.from_schema(
        function=call,
        name=governed.name,
        description=governed.description,
        json_schema=governed.schema,
        takes_ctx=True,
    )


tools = FrameworkTools(_tool)
