"""Fill the parameters that a tool marks with `Inject`: objects, or providers that make one for each call."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from types import NoneType
from typing import cast, get_args, get_origin

from agenttool.adapters.python.context import Context
from agenttool.errors import ConfigError, ToolFailure
from agenttool.ports.executor import Job
from agenttool.records import ErrorClass, ToolError
from agenttool.schema.signature import FunctionKind, Injected, kind_of, read_callable

Provided = Mapping[type, object]
"""What a program provides, by type: an object of the type, or a function that makes one for each call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """A function that makes an object for each call.

    Attributes:
        function: returns the object, an awaitable of it, or a context manager that is closed after the call.
        kind: which of these, in the words of how the author wrote it.
        needs: its own injected parameters.
        context_parameter: its parameter for the context of the call.
    """

    function: Callable[..., object]
    kind: FunctionKind
    needs: Mapping[str, Injected]
    context_parameter: str | None


class Injection:
    """The injected parameters of one function, and what the program provides for them."""

    def __init__(self, owner: str, parameters: Mapping[str, Injected], provide: Provided) -> None:
        """Find an object or a provider for each parameter, also for the parameters of providers.

        Raises:
            ConfigError: one is missing, has another type, needs itself, or has a parameter that nothing fills.
        """
        self._parameters = parameters
        self._objects: dict[object, object] = {}
        self._providers: dict[object, _Provider] = {}
        self._add(owner, parameters, provide, ())

    def _add(self, owner: str, parameters: Mapping[str, Injected], provide: Provided, path: tuple[object, ...]) -> None:
        for name, injected in parameters.items():
            kind = cast("type", injected.kind)
            if kind in path:
                names = " needs ".join(map(type_name, (*path[path.index(kind) :], kind)))
                raise ConfigError(f"the providers need each other: {names}; remove one of these parameters")
            if kind not in provide:
                if not injected.is_optional:
                    raise _not_provided(owner, name, kind, provide)
            elif _is_of_type(provide[kind], kind):
                self._objects[kind] = provide[kind]
            elif callable(provide[kind]):
                self._providers[kind] = made = _read_provider(cast("Callable[..., object]", provide[kind]), kind)
                self._add(f"the provider of {type_name(kind)}", made.needs, provide, (*path, kind))
            elif _checked_type(kind) is None:
                self._objects[kind] = provide[kind]
            else:
                raise ConfigError(
                    f"parameter {name!r} needs a {type_name(kind)}, got a {type(provide[kind]).__name__};"
                    f" pass provide={{{type_name(kind)}: ...}} with a {type_name(kind)}, or a function that returns one"
                )

    async def fill(self, job: Job, stack: AsyncExitStack) -> dict[str, object]:
        """Return the arguments of the injected parameters; the stack closes the generators after the call.

        A type is made once for a call, so parameters of one type get one object.
        """
        return await self._arguments(self._parameters, job, stack, {**self._objects})

    async def _arguments(
        self, parameters: Mapping[str, Injected], job: Job, stack: AsyncExitStack, made: dict[object, object]
    ) -> dict[str, object]:
        arguments: dict[str, object] = {}
        for name, injected in parameters.items():
            kind, provider = injected.kind, self._providers.get(injected.kind)
            if kind not in made and provider is not None:
                needs = await self._arguments(provider.needs, job, stack, made)
                if provider.context_parameter is not None:
                    needs[provider.context_parameter] = Context(job)
                made[kind] = await _make(provider, needs, stack)
                if _checked_type(kind) is not None and not _is_of_type(made[kind], kind):
                    raise _setup_required(
                        f"the provider of {type_name(kind)} returned a {type(made[kind]).__name__}",
                        f"return a {type_name(kind)} from it",
                    )
            if kind in made:
                arguments[name] = made[kind]
            elif not injected.has_default:
                arguments[name] = None
        return arguments


async def _make(provider: _Provider, needs: Mapping[str, object], stack: AsyncExitStack) -> object:
    made = provider.function(**needs)
    if provider.kind is FunctionKind.COROUTINE:
        return await cast("Awaitable[object]", made)
    if provider.kind is FunctionKind.GENERATOR:
        return stack.enter_context(cast("AbstractContextManager[object]", made))
    if provider.kind is FunctionKind.ASYNC_GENERATOR:
        return await stack.enter_async_context(cast("AbstractAsyncContextManager[object]", made))
    return made


def _read_provider(function: Callable[..., object], kind: object) -> _Provider:
    """Return how to call a provider; only required parameters are filled, and a class is called without any.

    Raises:
        ConfigError: nothing fills a parameter.
    """
    if isinstance(function, type):
        return _Provider(function=function, kind=FunctionKind.FUNCTION, needs={}, context_parameter=None)
    inner = inspect.unwrap(function)
    manner = kind_of(inner)
    managed = function
    if manner is FunctionKind.GENERATOR and inner is function:
        managed = contextmanager(cast("Callable[..., Generator[object]]", function))
    if manner is FunctionKind.ASYNC_GENERATOR and inner is function:
        managed = asynccontextmanager(cast("Callable[..., AsyncGenerator[object]]", function))
    needs, context_parameter = _needs_of(function, kind)
    return _Provider(function=managed, kind=manner, needs=needs, context_parameter=context_parameter)


def _needs_of(function: Callable[..., object], kind: object) -> tuple[Mapping[str, Injected], str | None]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return {}, None
    ignored = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if all(each.default is not inspect.Parameter.empty or each.kind in ignored for each in parameters):
        return {}, None
    found = read_callable(function, context_type=Context)
    unfilled = [each.name for each in found.parameters if each.default is inspect.Parameter.empty]
    if unfilled:
        raise ConfigError(
            f"nothing fills the parameter {unfilled[0]!r} of {found.name}(), the provider of {type_name(kind)};"
            " annotate it with Context, mark it with Inject, or give it a default"
        )
    return found.injected, found.context_parameter


def _not_provided(owner: str, name: str, kind: object, provide: Provided) -> ConfigError:
    wanted = type_name(kind)
    related = [each for each in provide if _origin(each) is _origin(kind)]
    near = f" ({type_name(related[0])} is provided, but a generic type must be the same)" if related else ""
    return ConfigError(
        f"parameter {name!r} of {owner} needs a {wanted}{near}; pass provide={{{wanted}: ...}} to Runtime.open,"
        f" or write provide = {{{wanted}: ...}} in the module that is served"
    )


def missing_objects(parameters: Mapping[str, Injected]) -> ToolFailure:
    """Return the failure of a call whose tool was given to no runtime with `provide`."""
    message = f"no object is provided for {next(iter(parameters))!r}"
    return _setup_required(message, "pass provide= to Runtime.open")


def _setup_required(message: str, remedy: str) -> ToolFailure:
    return ToolFailure(ToolError(error_class=ErrorClass.SETUP_REQUIRED, message=message), remedy=remedy)


def type_name(kind: object) -> str:
    """Return the name of a type as its author writes it, such as `Stock` or `Repository[User]`."""
    if kind is NoneType:
        return "None"
    arguments = ", ".join(map(type_name, get_args(kind)))
    name = str(getattr(_origin(kind), "__name__", kind))
    return f"{name}[{arguments}]" if arguments else name


def _origin(kind: object) -> object:
    return get_origin(kind) or kind


def _checked_type(kind: object) -> type | None:
    """Return the class that an object can be checked against; none for a protocol."""
    origin = _origin(kind)
    return origin if isinstance(origin, type) and not getattr(origin, "_is_protocol", False) else None


def _is_of_type(provided: object, kind: object) -> bool:
    checked = _checked_type(kind)
    return checked is not None and isinstance(provided, checked)
