"""Check the options of `Runtime.open`."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar, cast

from agenttool.errors import ConfigError

_T = TypeVar("_T")


def require_loop() -> None:
    """Check that an event loop runs.

    Raises:
        ConfigError: none does.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "a runtime is opened where an event loop runs, in an `async def`; elsewhere use `agenttool.sync.open(...)`"
        ) from None


def as_list(name: str, given: Iterable[_T]) -> list[_T]:
    """Return an option as a list.

    Raises:
        ConfigError: it cannot be iterated, because its brackets are missing.
    """
    if not isinstance(cast("object", given), Iterable):
        raise ConfigError(f"{name} must be a list, got a {type(given).__name__}; put it in brackets")
    return list(given)


def as_list_of(name: str, given: Iterable[_T], kind: type[_T]) -> list[_T]:
    """Return an option as a list of objects of one class.

    Raises:
        ConfigError: it is no list, or contains something else.
    """
    found = as_list(name, given)
    for each in found:
        if not isinstance(cast("object", each), kind):
            raise ConfigError(f"{name} must hold {kind.__name__}s only, got a {type(each).__name__}; make one of it")
    return found


def as_instance(given: _T, kind: type[_T]) -> _T:
    """Return an option that is an object of a class.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(cast("object", given), kind):
        raise ConfigError(f"a {kind.__name__} was wanted, got {given!r}; make one of it")
    return given
