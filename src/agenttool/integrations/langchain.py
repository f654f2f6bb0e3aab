"""Governed tools for LangChain and LangGraph: `create_agent(model, tools=await langchain.tools(rt))`.

The model reads the text of a result; the record of the call is the `artifact` of its message. A failed call is a
message with the status `error`.
"""

# Where this module is checked, the framework need not be installed.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

from agenttool.adapters.function_calling.call_output import model_text
from agenttool.integrations.functions import FrameworkTools, GovernedFunction, load_framework
from agenttool.records import Json, ToolResult

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


_FAILED = ContextVar[list[ToolResult]]("agenttool.langchain.failed")
"""A list that receives the result of a failed call, because the framework runs a tool in a copy of the context."""


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
                _FAILED.get().append(result)
                raise framework.ToolException(model_text(result))
            return model_text(result), result

        def run(self, *arguments: object, **options: object) -> object:
            failed = list[ToolResult]()
            _FAILED.set(failed)
            return _with_artifact(super().run(*arguments, **options), failed)

        async def arun(self, *arguments: object, **options: object) -> object:
            failed = list[ToolResult]()
            _FAILED.set(failed)
            return _with_artifact(await super().arun(*arguments, **options), failed)

    return GovernedTool


def _with_artifact(message: object, failed: list[ToolResult]) -> object:
    """Add the record of a failed call to its message; the framework makes the message from an exception."""
    if failed and getattr(message, "status", None) == "error":
        message.artifact = failed[0]  # pyright: ignore[reportAttributeAccessIssue] -- a ToolMessage of the framework
    return message


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
