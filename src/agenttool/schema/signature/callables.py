"""Inspection of a Python callable: its parameters, how it runs, and its docstring."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from inspect import Parameter
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from agenttool.errors import ConfigError
from agenttool.schema.markers import Inject


class FunctionKind(StrEnum):
    """How a callable runs: called, awaited, iterated, or iterated asynchronously."""

    FUNCTION = "function"
    COROUTINE = "coroutine"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async_generator"


EMPTY: object = Parameter.empty
"""Stands for a missing annotation or default."""

_KINDS: tuple[tuple[FunctionKind, Callable[[object], bool]], ...] = (
    (FunctionKind.ASYNC_GENERATOR, inspect.isasyncgenfunction),
    (FunctionKind.COROUTINE, inspect.iscoroutinefunction),
    (FunctionKind.GENERATOR, inspect.isgeneratorfunction),
)

_UNSENDABLE = {
    Parameter.POSITIONAL_ONLY: ("is positional-only, but arguments are sent by name", "move the '/' before it"),
    Parameter.VAR_POSITIONAL: ("takes any number of values", "declare one list parameter instead"),
    Parameter.VAR_KEYWORD: ("takes any names", "declare each parameter, or one dict parameter"),
}

_UNRESOLVED = (NameError, AttributeError, TypeError, ValueError, SyntaxError, LookupError, ImportError)
"""What the evaluation of an annotation that is written as text can raise."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A parameter that the runtime fills with an object of the program.

    Attributes:
        kind: the type that the program provides an object for: a class, or a generic of one.
        is_optional: whether the program may provide none: it accepts `None`, or has a default.
        has_default: whether Python fills the parameter if the program provides none.
    """

    kind: object
    is_optional: bool
    has_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableInfo:
    """A callable as its author wrote it; the context parameter is separate, because no caller fills it.

    Attributes:
        parameters: those that a caller may fill by name, with their annotations resolved.
    """

    name: str
    docstring: str
    kind: FunctionKind
    parameters: tuple[Parameter, ...]
    context_parameter: str | None
    injected: Mapping[str, Injected]
    returns: object

    def parameter_error(self, parameter: str, problem: str, advice: str) -> ConfigError:
        """Return the error for one parameter."""
        return ConfigError(f"parameter {parameter!r} of {self.name}() {problem}; {advice}")


def read_callable(function: Callable[..., object], *, context_type: type | None) -> CallableInfo:
    """Inspect a function, a bound method, a partial, or a callable object.

    The arguments of a partial are not parameters: a model may neither see nor change them.

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
        raise ConfigError(f"{name}() has two context parameters, {contexts[0]!r} and {contexts[1]!r}; remove one")
    injected = {each.name: _injected(name, each) for each in parameters if _is_injected(each.annotation)}
    return CallableInfo(
        name=name,
        docstring=_docstring(inner),
        kind=kind_of(inner),
        parameters=tuple(each for each in parameters if each.name not in (*contexts, *injected)),
        injected=injected,
        context_parameter=contexts[0] if contexts else None,
        returns=_resolve(declared.return_annotation, home, f"the return annotation of {name}()"),
    )


def filled_parameters(
    function: Callable[..., object], parameters: Collection[Parameter], *, context_type: type
) -> tuple[str | None, Mapping[str, Injected]]:
    """Return the parameters that the runtime fills: that of the context, and the injected ones; others are ignored.

    Raises:
        ConfigError: the type of an injected parameter cannot be injected.
    """
    inner, _ = _unfilled(function)
    home = _home(inner) if parameters else None
    found: list[Parameter] = []
    for each in parameters:
        with suppress(ConfigError):
            found.append(each.replace(annotation=_resolve(each.annotation, home, each.name)))
    context = next((each.name for each in found if _is_context(each.annotation, context_type)), None)
    name = getattr(inner, "__name__", type(inner).__name__)
    return context, {each.name: _injected(name, each) for each in found if _is_injected(each.annotation)}


def _unfilled(function: object) -> tuple[object, set[str]]:
    """Return the callable behind partials, and the names that they fill."""
    filled: set[str] = set()
    while isinstance(function, partial):
        layer = cast("partial[object]", function)
        filled |= layer.keywords.keys()
        function = layer.func
    return function, filled


def _home(function: object) -> object:
    """Return the plain function whose module resolves the annotations."""
    inner = inspect.unwrap(cast("Callable[..., object]", function))
    return inner if inspect.isroutine(inner) else inspect.unwrap(type(inner).__call__)


def _read_parameter(name: str, parameter: Parameter, home: object) -> Parameter:
    where = f"parameter {parameter.name!r} of {name}()"
    if parameter.kind in _UNSENDABLE:
        problem, advice = _UNSENDABLE[parameter.kind]
        raise ConfigError(f"{where} {problem}; {advice}")
    if parameter.annotation is EMPTY:
        unbound = parameter.name in {"self", "cls"}
        owner = str(getattr(home, "__qualname__", "")).rpartition(".")[0].rpartition(".")[2] or "object"
        method = f"leave @tool off the method, and pass tools=tools_from({owner}(...))"
        advice = method if unbound else "annotate it; `object` takes any JSON"
        raise ConfigError(f"{where} has no annotation, so no value of it could be checked; {advice}")
    return parameter.replace(annotation=_resolve(parameter.annotation, home, f"the annotation of {where}"))


def _resolve(annotation: object, home: object, where: str) -> object:
    """Evaluate an annotation that is written as text, in whole or in part."""
    if isinstance(annotation, type):
        return annotation
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
    kinds = (get_origin(each) or each for each in _choices(annotation))
    return any(isinstance(kind, type) and context_type in kind.__mro__ for kind in kinds)


def _is_injected(annotation: object) -> bool:
    """Return whether a parameter is marked: `Annotated[Stock | None, Inject]` or `Annotated[Stock, Inject] | None`."""
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return Inject in inner[1:] or _is_injected(inner[0])
    return get_origin(annotation) in (Union, UnionType) and any(map(_is_injected, inner))


def _injected(function: str, parameter: Parameter) -> Injected:
    """Return what an injected parameter needs.

    Raises:
        ConfigError: its type is no class, has several classes, or a type variable.
    """
    choices = [*_choices(parameter.annotation)]
    kinds = [each for each in choices if each is not NoneType]
    kind = kinds[0] if len(kinds) == 1 else None
    if not isinstance(get_origin(kind) or kind, type) or getattr(kind, "__parameters__", ()):
        raise ConfigError(
            f"parameter {parameter.name!r} of {function}() cannot be injected as {parameter.annotation!r};"
            " mark one class, as in Annotated[Stock, Inject] or Annotated[Stock | None, Inject], without type variables"
        )
    has_default = parameter.default is not EMPTY
    return Injected(kind=kind, is_optional=has_default or len(kinds) < len(choices), has_default=has_default)


def _choices(annotation: object) -> Iterator[object]:
    """Yield the types of a union, without their metadata."""
    if get_origin(annotation) is Annotated:
        yield from _choices(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _choices(each)
    else:
        yield annotation


def _docstring(function: Callable[..., object]) -> str:
    """Return the docstring of a function, of the function that an object wraps, or of `__call__`."""
    if not inspect.isroutine(function):
        function = inspect.unwrap(function)
    if inspect.isroutine(function):
        return inspect.getdoc(function) or ""
    return inspect.cleandoc(type(function).__call__.__doc__ or function.__doc__ or "")


def kind_of(function: object) -> FunctionKind:
    """Return how a function or a callable object runs."""
    for kind, fits in _KINDS:
        if fits(function) or fits(type(function).__call__):
            return kind
    return FunctionKind.FUNCTION


def parse_docstring(text: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return a docstring without its parameter sections, and the text of each parameter.

    It is parsed in the style, of Google, NumPy and Sphinx, that describes most of these parameters. A text that
    describes none of them, or that no parser can read, is returned unchanged.
    """
    parsed = None
    if (":" in text or "---" in text) and not {*names}.isdisjoint(_WORD.findall(text)):
        from agenttool.schema.signature.docstrings import parse_styles  # noqa: PLC0415 -- most need no parser

        parsed = parse_styles(text, names)
    return parsed or (text.strip(), {})
