"""The tools of a runtime as functions that a framework can call; every call is governed.

A framework gets its list of tools once. So that its model can also use tools that a surface defers, the list then has
`tool_search` and a function that calls what the search found.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Generic, TypeVar, cast, overload

from agenttool.catalog.entry import TOOL_SEARCH, qualified_builtin
from agenttool.codec import parse_object
from agenttool.errors import ConfigError, RecordError
from agenttool.providers import ModelTools
from agenttool.records import JsonObject, ToolResult, ToolSurface
from agenttool.runtime import Runtime
from agenttool.sync import SyncRuntime

_FrameworkTool = TypeVar("_FrameworkTool")

_FINDER = qualified_builtin(TOOL_SEARCH)
_CALL_TOOL_DESCRIPTION = (
    "Call a tool that {finder} found. Each tool that {finder} loaded has its name and the schema of its arguments in"
    " the reply."
)
_CALL_TOOL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name of the tool, as the search spells it."},
        "arguments": {"type": "object", "description": "Its arguments, as its schema describes them."},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class GovernedFunction:
    """One tool, or the function that calls any tool of the surface by its name.

    Attributes:
        name: the name that the model reads; so are `description` and `schema`.
        tool_name: the qualified name of the tool; none if the arguments have the name.
        loop: the event loop of a synchronous runtime, in a thread of its own; none for an asynchronous runtime.
    """

    name: str
    description: str
    schema: JsonObject
    tool_name: str | None
    runtime: Runtime
    tools: ModelTools
    loop: asyncio.AbstractEventLoop | None = None

    async def call(self, arguments: JsonObject | str, call_id: str | None = None) -> ToolResult:
        """Call the tool from any event loop; a failed call is a result, too."""
        if self.loop is None:
            return await self._call(arguments, call_id)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._call(arguments, call_id), self.loop))

    def call_blocking(self, arguments: JsonObject | str, call_id: str | None = None) -> ToolResult:
        """Call the tool from a thread without an event loop.

        Raises:
            ConfigError: the runtime is asynchronous.
        """
        if self.loop is None:
            raise ConfigError("this runtime is asynchronous; use the framework's asynchronous methods, or `sync.open`")
        return asyncio.run_coroutine_threadsafe(self._call(arguments, call_id), self.loop).result()

    async def _call(self, arguments: JsonObject | str, call_id: str | None) -> ToolResult:
        surface, name = self.runtime.surfaces.current(self.tools.surface), self.tool_name
        if name is None:
            given = arguments if isinstance(arguments, dict) else _object_in(arguments)
            name, arguments = str(given.get("name", "")), cast("JsonObject", given.get("arguments") or {})
        return await self.runtime.call(name, arguments, surface=surface, native_call_id=call_id)


def _object_in(text: str) -> JsonObject:
    """Return the object that a text contains; an empty one for any other text, so that the call names no tool."""
    try:
        return parse_object(text)
    except RecordError:
        return {}


def load_framework(module: str, package: str) -> ModuleType:
    """Import a module of a framework.

    Raises:
        ConfigError: its package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"{module!r} cannot be imported; install it with `pip install {package}`") from error


@dataclass(frozen=True, slots=True)
class FrameworkTools(Generic[_FrameworkTool]):
    """Returns the tools of a runtime as tools of a framework: `tools = await langchain.tools(rt)`.

    Attributes:
        convert: makes a tool of the framework from a governed function.
    """

    convert: Callable[[GovernedFunction], _FrameworkTool]

    @overload
    def __call__(
        self, rt: Runtime, *, surface: ToolSurface | None = None
    ) -> Coroutine[None, None, list[_FrameworkTool]]: ...
    @overload
    def __call__(self, rt: SyncRuntime, *, surface: ToolSurface | None = None) -> list[_FrameworkTool]: ...
    def __call__(
        self, rt: Runtime | SyncRuntime, *, surface: ToolSurface | None = None
    ) -> Coroutine[None, None, list[_FrameworkTool]] | list[_FrameworkTool]:
        """Return a tool for each tool that a surface shows, by default a new one for the session.

        If the surface defers tools, the list has `tool_search`, and `call_tool` for what it finds. Await it, except
        with a runtime of `sync.open`.

        Raises:
            ConfigError: the framework is not installed.
        """
        if isinstance(rt, SyncRuntime):
            return asyncio.run_coroutine_threadsafe(self._convert_all(rt.target, surface, rt.loop), rt.loop).result()
        return self._convert_all(rt, surface, None)

    async def _convert_all(
        self, rt: Runtime, surface: ToolSurface | None, loop: asyncio.AbstractEventLoop | None
    ) -> list[_FrameworkTool]:
        tools = await rt.tools_for("openai", surface=surface, strict=False)
        functions = [
            GovernedFunction(each.name, each.description, each.schema, each.tool.qualified_name, rt, tools, loop)
            for each in tools.functions
        ]
        finder = next((each.name for each in functions if each.tool_name == _FINDER), None)
        if finder is not None:
            name, taken = "call_tool", {each.name for each in functions}
            while name in taken:
                name += "_"
            description = _CALL_TOOL_DESCRIPTION.format(finder=finder)
            functions.append(GovernedFunction(name, description, _CALL_TOOL_SCHEMA, None, rt, tools, loop))
        return [self.convert(each) for each in functions]
