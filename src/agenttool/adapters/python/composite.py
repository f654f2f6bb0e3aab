"""Prove that the code of a tool function acts only by nested calls, so that it can run again after a crash.

A function that runs again gets the recorded results of its nested calls. That is safe if the rest of its code has no
effect. The proof reads the bytecode, and is strict: a function that uses anything unknown is not proved.
"""

import asyncio
import builtins
import dis
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType

from agenttool.records import ToolResult

_BUILTINS = (
    "abs all any bool bytes dict divmod enumerate float format int isinstance len list max min range repr"
    " reversed round sorted str sum tuple zip"
)
_PURE: tuple[object, ...] = (
    *(getattr(builtins, name) for name in _BUILTINS.split()),
    *(each for each in vars(builtins).values() if isinstance(each, type) and issubclass(each, Exception)),
    asyncio.gather,
    json.dumps,
    json.loads,
)
_CONSTANTS = (str, bytes, int, float, type(None))
_NESTED_CALLS = {"call", "call_and_wait"}
_ATTRIBUTES = {
    *_NESTED_CALLS,
    *("invocation_id", "log", "progress", "dumps", "gather", "loads"),
    *(name for kind in (str, bytes, int, float, list, dict, tuple, ToolResult) for name in dir(kind)),
}
"""The attributes of the context, of modules with pure functions, of JSON values and of results."""

_WAYS_OUT = ("IMPORT_", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_BUILD_CLASS")
"""The prefixes of operations, besides `LOAD_GLOBAL`, with which code uses names from outside of its function."""

_MAKES_SETS = ("BUILD_SET", "SET_ADD", "SET_UPDATE")
_VIEWS, _SET_OPERATORS = {"items", "keys"}, {"&", "|", "^", "-", "&=", "|=", "^=", "-="}
"""What makes a set. Its order differs between processes, so a function that runs again could make other calls."""


def acts_only_by_calls(function: Callable[..., object]) -> bool:
    """Return whether a function makes nested calls, and the rest of its code provably has no effect.

    The caller checks that its arguments are the context and plain JSON values: other objects may have effects.
    """
    attributes: set[str] = set()
    return _is_pure(function, attributes, set()) and bool(attributes & _NESTED_CALLS)


def _is_pure(function: object, attributes: set[str], seen: set[FunctionType]) -> bool:
    """Return whether a function uses only its arguments, constants and pure functions; add the attributes it reads."""
    if not isinstance(function, FunctionType) or function.__closure__:
        return False
    if function in seen:
        return True
    seen.add(function)
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    steps = [pair for code in _codes_in(function.__code__) for pair in pairwise(dis.get_instructions(code))]
    makes_sets = any(step.opname == "BINARY_OP" and step.argrepr in _SET_OPERATORS for step, _ in steps) and any(
        _is_attribute(step) and step.argval in _VIEWS for step, _ in steps
    )
    return (
        not makes_sets
        and all(isinstance(each, _CONSTANTS) for each in defaults)
        and all(_is_pure_step(*pair, function, attributes, seen) for pair in steps)
    )


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of the functions and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _is_pure_step(
    step: dis.Instruction,
    following: dis.Instruction,
    function: FunctionType,
    attributes: set[str],
    seen: set[FunctionType],
) -> bool:
    if step.opname.startswith(_WAYS_OUT) or step.opname in _MAKES_SETS:
        return False
    if isinstance(step.argval, frozenset):
        return following.opname == "CONTAINS_OP"
    if _is_attribute(step):
        attributes.add(step.argval)
        return step.argval in _ATTRIBUTES and not step.argval.startswith("_")
    if step.opname != "LOAD_GLOBAL":
        return True
    value: object = function.__globals__.get(step.argval, getattr(builtins, step.argval, None))
    if isinstance(value, ModuleType) and _is_attribute(following):
        value = getattr(value, following.argval, None)
    is_known = isinstance(value, _CONSTANTS) or any(value is each for each in _PURE)
    return is_known or _is_pure(value, attributes, seen)


def _is_attribute(step: dis.Instruction) -> bool:
    return step.opname in ("LOAD_ATTR", "LOAD_METHOD")
