"""The tools of a runtime as functions that a framework can call; every call is governed."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import overload

from agenttool.adapters.function_calling.tool_payload import PayloadTool
from agenttool.errors import ConfigError
from agenttool.providers import ModelTools
from agenttool.records import JsonObject, ToolResult, ToolSurface
from agenttool.runtime import Runtime
from agenttool.sync import SyncRuntime


@dataclass(frozen=True, slots=True)
class GovernedFunction:
    """One tool.

    Attributes:
        function: its name, description and schema, which every provider takes.
        loop: the event loop of a synchronous runtime, in a thread of its own; none for an asynchronous runtime.
    """

    function: PayloadTool
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
        surface = self.runtime.current(self.tools.surface)
        return await self.runtime.call(
            self.function.tool.qualified_name, arguments, surface=surface, native_call_id=call_id
        )


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
class FrameworkTools:
    """Returns the tools of a runtime as tools of a framework: `tools = await langchain.tools(rt)`.

    Attributes:
        convert: makes a tool of the framework from a governed function.
    """

    convert: Callable[[GovernedFunction], object]

    @overload
    def __call__(self, rt: Runtime, *, surface: ToolSurface | None = None) -> Coroutine[None, None, list[object]]: ...
    @overload
    def __call__(self, rt: SyncRuntime, *, surface: ToolSurface | None = None) -> list[object]: ...
    def __call__(
        self, rt: Runtime | SyncRuntime, *, surface: ToolSurface | None = None
    ) -> Coroutine[None, None, list[object]] | list[object]:
        """Return a tool for each tool that a surface shows, by default a new one for the session.

        Await it, except with a runtime of `sync.open`.

        Raises:
            ConfigError: the framework is not installed.
        """
        if isinstance(rt, SyncRuntime):
            return asyncio.run_coroutine_threadsafe(self._convert_all(rt.target, surface, rt.loop), rt.loop).result()
        return self._convert_all(rt, surface, None)

    async def _convert_all(
        self, rt: Runtime, surface: ToolSurface | None, loop: asyncio.AbstractEventLoop | None
    ) -> list[object]:
        tools = await rt.tools_for("openai", surface=surface, strict=False)
        return [self.convert(GovernedFunction(each, rt, tools, loop)) for each in tools.functions]
