"""What Python itself knows about a callable: its name, its text, its parameters, and how it is run."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import SimpleNamespace, UnionType
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from agenttool.errors import ConfigError


class Flavour(StrEnum):
    """How a callable is run: called, awaited, iterated, or iterated asynchronously."""

    FUNCTION = "function"
    COROUTINE = "coroutine"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async_generator"


EMPTY: object = inspect.Parameter.empty
"""Stands for an annotation or a default that is not there."""

_FLAVOURS: tuple[tuple[Flavour, Callable[[object], bool]], ...] = (
    (Flavour.ASYNC_GENERATOR, inspect.isasyncgenfunction),
    (Flavour.COROUTINE, inspect.iscoroutinefunction),
    (Flavour.GENERATOR, inspect.isgeneratorfunction),
)

_UNSENDABLE = {
    inspect.Parameter.POSITIONAL_ONLY: ("is positional-only, but arguments travel by name", "move the '/' before it"),
    inspect.Parameter.VAR_POSITIONAL: ("takes any number of values", "declare one list parameter instead"),
    inspect.Parameter.VAR_KEYWORD: ("takes any names", "declare each parameter, or one dict parameter"),
}

_UNRESOLVED = (NameError, AttributeError, TypeError, ValueError, SyntaxError, LookupError, ImportError)
"""What evaluating an annotation that is written as text may end in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter a caller may fill by name, its annotation resolved; `EMPTY` stands for no default."""

    name: str
    annotation: object
    default: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """A callable as its author wrote it; the context parameter stands apart, because no caller fills it."""

    name: str
    text: str
    flavour: Flavour
    parameters: tuple[Parameter, ...]
    context_parameter: str | None
    returns: object

    def refusal(self, parameter: str, problem: str, advice: str) -> ConfigError:
        """Say what is wrong with one parameter."""
        return ConfigError(f"parameter {parameter!r} of {self.name}() {problem}; {advice}")


def read_callable(function: Callable[..., object], *, context_type: type | None) -> Callee:
    """Read a function, a bound method, a partial, or an object that can be called.

    What a partial has filled in is no parameter any more: a model shall not see it, let alone change it.

    Raises:
        ConfigError: a parameter cannot be sent by name, has no annotation, or one that cannot be resolved.
    """
    inner, filled = _unfilled(function)
    if isinstance(inner, type) or not callable(inner):
        raise ConfigError(f"{inner!r} is not a function; declare a function, a bound method or a callable object")
    name = getattr(inner, "__name__", type(inner).__name__)
    try:
        home = _home(inner)
        declared = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{name}() has no readable signature; wrap it in a function with annotations") from error
    parameters = [_read_parameter(name, each, home) for each in declared.parameters.values() if each.name not in filled]
    contexts = [each.name for each in parameters if context_type and _is_context(each.annotation, context_type)]
    if len(contexts) > 1:
        raise ConfigError(f"{name}() asks for its context twice, as {contexts[0]!r} and {contexts[1]!r}; keep one")
    return Callee(
        name=name,
        text=_text(inner),
        flavour=_flavour(inner),
        parameters=tuple(each for each in parameters if each.name not in contexts),
        context_parameter=contexts[0] if contexts else None,
        returns=_resolve(declared.return_annotation, home, f"the return annotation of {name}()"),
    )


def _unfilled(function: object) -> tuple[object, set[str]]:
    """Look through partials: what they call in the end, and the names that they fill."""
    filled: set[str] = set()
    while isinstance(function, partial):
        layer = cast("partial[object]", function)
        filled |= layer.keywords.keys()
        function = layer.func
    return function, filled


def _home(function: object) -> object:
    """Find the plain function whose module explains the annotations."""
    inner = inspect.unwrap(cast("Callable[..., object]", function))
    return inner if inspect.isroutine(inner) else inspect.unwrap(type(inner).__call__)


def _read_parameter(name: str, parameter: inspect.Parameter, home: object) -> Parameter:
    where = f"parameter {parameter.name!r} of {name}()"
    if parameter.kind in _UNSENDABLE:
        problem, advice = _UNSENDABLE[parameter.kind]
        raise ConfigError(f"{where} {problem}; {advice}")
    if parameter.annotation is EMPTY:
        unbound = parameter.name in {"self", "cls"}
        advice = "bind the method to its object first" if unbound else "annotate it; `object` takes any JSON"
        raise ConfigError(f"{where} has no annotation, so no value of it could be checked; {advice}")
    annotation = _resolve(parameter.annotation, home, f"the annotation of {where}")
    return Parameter(name=parameter.name, annotation=annotation, default=parameter.default)


def _resolve(annotation: object, home: object, where: str) -> object:
    """Evaluate an annotation that is written as text, in whole or in part."""
    if annotation is EMPTY:
        return EMPTY
    holder = SimpleNamespace(__annotations__={"": annotation}, __type_params__=getattr(home, "__type_params__", ()))
    names: dict[str, object] = getattr(home, "__globals__", {})
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)[""]
    except _UNRESOLVED as error:
        raise ConfigError(
            f"{where} cannot be resolved, got {annotation!r} ({error}); import or define its names at module level,"
            " not under TYPE_CHECKING and not inside a function"
        ) from error


def _is_context(annotation: object, context_type: type) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context(get_args(annotation)[0], context_type)
    if origin in (Union, UnionType):
        return any(_is_context(each, context_type) for each in get_args(annotation))
    kind = origin or annotation
    return isinstance(kind, type) and context_type in kind.__mro__


def _text(function: Callable[..., object]) -> str:
    """Find the docstring; an object that wraps a function speaks for it, and one that does not for itself."""
    if not inspect.isroutine(function):
        function = inspect.unwrap(function)
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    return inspect.cleandoc(type(function).__call__.__doc__ or function.__doc__ or "")


def _flavour(function: object) -> Flavour:
    for flavour, fits in _FLAVOURS:
        if fits(function) or fits(type(function).__call__):
            return flavour
    return Flavour.FUNCTION
