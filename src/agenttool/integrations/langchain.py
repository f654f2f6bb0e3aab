"""Governed tools for LangChain and LangGraph: `create_agent(model, tools=await langchain.tools(rt))`.

The model reads the text of a result; the record of the call is the `artifact` of its message. A failed call is a
message with the status `error`.
"""

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework
from agenttool.records import Json, ToolResult


def _tool(governed: GovernedFunction) -> object:
    framework = load_framework("langchain_core.tools", "langchain-core")

    def output(result: ToolResult) -> tuple[str, ToolResult]:
        if result.is_error:
            raise framework.ToolException(model_text(result))
        return model_text(result), result

    async def call(**arguments: Json) -> tuple[str, ToolResult]:
        return output(await governed.call(arguments))

    def call_blocking(**arguments: Json) -> tuple[str, ToolResult]:
        return output(governed.call_blocking(arguments))

    made: object = framework.StructuredTool(
        name=governed.function.name,
        description=governed.function.description,
        args_schema=governed.function.schema,
        coroutine=call,
        func=None if governed.loop is None else call_blocking,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )
    return made


tools = FrameworkTools(_tool)
