"""Governed tools for LangChain and LangGraph: `create_agent(model, tools=await langchain.tools(rt))`.

The model reads the text of a result; the record of the call is the `artifact` of its message. A failed call is a
message with the status `error`.
"""

# Where this module is checked, the framework need not be installed.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false

from functools import cache
from typing import TYPE_CHECKING

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework
from agenttool.records import Json, ToolResult

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


@cache
def _tool_class() -> "type[BaseTool]":
    """Return the class of the tools. Its methods take every argument by name, also one named `config` or `self`."""
    framework = load_framework("langchain_core.tools", "langchain-core")

    class GovernedTool(framework.BaseTool):
        governed: GovernedFunction

        def _run(self, /, **arguments: Json) -> tuple[str, ToolResult]:
            return self._output(self.governed.call_blocking(arguments))

        async def _arun(self, /, **arguments: Json) -> tuple[str, ToolResult]:
            return self._output(await self.governed.call(arguments))

        def _output(self, result: ToolResult) -> tuple[str, ToolResult]:
            if result.is_error:
                raise framework.ToolException(model_text(result))
            return model_text(result), result

    return GovernedTool


def _tool(governed: GovernedFunction) -> "BaseTool":
    return _tool_class()(
        name=governed.name,
        description=governed.description,
        args_schema=governed.schema,
        governed=governed,
        response_format="content_and_artifact",
        handle_tool_error=True,
    )


tools = FrameworkTools(_tool)
