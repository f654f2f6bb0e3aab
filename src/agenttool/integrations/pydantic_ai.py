"""Governed tools for Pydantic AI: `Agent(model, tools=await pydantic_ai.tools(rt))`.

The model reads the text of a result, also that of a failed call.
"""

from typing import Protocol

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework
from agenttool.records import Json


class RunContext(Protocol):
    """What a tool needs of the context that Pydantic AI passes to it."""

    tool_call_id: str | None


def _tool(governed: GovernedFunction) -> object:
    framework = load_framework("pydantic_ai", "pydantic-ai-slim")

    async def call(context: RunContext, /, **arguments: Json) -> str:
        return model_text(await governed.call(arguments, context.tool_call_id))

    made: object = framework.Tool.from_schema(
        function=call,
        name=governed.function.name,
        description=governed.function.description,
        json_schema=governed.function.schema,
        takes_ctx=True,
    )
    return made


tools = FrameworkTools(_tool)
