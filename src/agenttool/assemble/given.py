"""What people hand in when they open a runtime: taken as it is meant, or refused with a word about it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from agenttool.adapters.python.declare import FunctionTool, declare_function
from agenttool.errors import ConfigError
from agenttool.ports.tool import DeclaredTool

_T = TypeVar("_T")

Tool = DeclaredTool | FunctionTool[..., object] | Callable[..., object]
"""Whatever stands for a tool."""


def refuse_without_loop() -> None:
    """Refuse to open a runtime where nothing could run it.

    Raises:
        ConfigError: no event loop runs here.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        told = (
            "a runtime is opened where an event loop runs, in an `async def`; elsewhere use `agenttool.sync.open(...)`"
        )
        raise ConfigError(told) from None


def declared(tool: Tool) -> DeclaredTool:
    """Give the records and the code of whatever stands for a tool.

    Raises:
        ConfigError: it is no tool.
    """
    if isinstance(tool, DeclaredTool):
        return tool
    if isinstance(tool, FunctionTool):
        return tool.declared
    if callable(tool):
        return declare_function(tool, {})
    raise ConfigError(f"not a tool: {tool!r}; decorate a function with @tool")


def listed(name: str, given: Iterable[_T]) -> list[_T]:
    """Take a list from somebody who may have forgotten the brackets.

    Raises:
        ConfigError: it is no list.
    """
    if not isinstance(cast("object", given), Iterable):
        raise ConfigError(f"{name} must be a list, got a {type(given).__name__}; put it in brackets")
    return list(given)


def all_of(name: str, given: Iterable[_T], kind: type[_T]) -> list[_T]:
    """Take a list of one kind of thing.

    Raises:
        ConfigError: it is no list, or holds something else.
    """
    found = listed(name, given)
    for each in found:
        if not isinstance(cast("object", each), kind):
            raise ConfigError(f"{name} must hold {kind.__name__}s only, got a {type(each).__name__}; make one of it")
    return found


def one(given: _T, kind: type[_T]) -> _T:
    """Take one thing of a kind.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(cast("object", given), kind):
        raise ConfigError(f"a {kind.__name__} was wanted, got {given!r}; make one of it")
    return given
