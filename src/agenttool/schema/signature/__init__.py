"""Signatures of Python callables as schemas: read once, when a tool is declared.

Importing this package imports pydantic and griffe.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agenttool.records import JsonObject
from agenttool.schema.signature.arguments import read_inputs
from agenttool.schema.signature.callables import FunctionKind, parse_docstring, read_callable
from agenttool.schema.signature.conversion import Convert, PydanticConversion
from agenttool.schema.signature.schemas import output_schema

__all__ = ["Convert", "FunctionKind", "Signature", "signature_of"]

_WORDS = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a callable. A field name means that member of the input on every level.

    Attributes:
        description: the docstring without its parameter sections; may be empty.
        model_input_schema: what a model may send; it accepts no undeclared members and has no internal fields.
        runtime_input_schema: the same with the internal fields; none if there are no internal fields.
        output_schema: the schema of a structured return value; none for text, plain numbers and streams.
        defaults: the defaults with a JSON form, by member of the input; Python itself applies the others.
        context_parameter: filled by the runtime, and in no schema.
        arguments: converts an input to keyword arguments; none if the input is the keyword arguments.
        integer_fields: the members that must arrive as integers, also if they are written as `1.0`.
        kind: how the callable runs; a `function` may still return an awaitable if a decorator hides it.
    """

    name: str
    title: str | None
    description: str
    model_input_schema: JsonObject
    runtime_input_schema: JsonObject | None
    output_schema: JsonObject | None
    defaults: JsonObject
    sensitive_fields: tuple[str, ...]
    internal_only_fields: tuple[str, ...]
    path_fields: tuple[str, ...]
    url_fields: tuple[str, ...]
    command_fields: tuple[str, ...]
    context_parameter: str | None
    arguments: Convert | None
    integer_fields: frozenset[str]
    kind: FunctionKind

    @property
    def can_reject(self) -> bool:
        """Whether its types can reject an input that fits its schema."""
        return isinstance(self.arguments, PydanticConversion)


def signature_of(function: Callable[..., object], *, context_type: type | None = None) -> Signature:
    """Return the signature of a function, a bound method, a partial or a callable object.

    Args:
        function: each parameter has a name and an annotation.
        context_type: a parameter of this class or a subclass is the context of the call, not an argument.

    Raises:
        ConfigError: it cannot be called by name with JSON; the message names the parameter and the remedy.
    """
    info = read_callable(function, context_type=context_type)
    docs = parse_docstring(info.docstring, {*(each.name for each in info.parameters), info.context_parameter or ""})
    inputs = read_inputs(info, docs.parameters)
    return Signature(
        name=info.name,
        title=_title(info.name),
        description=docs.description,
        model_input_schema=inputs.model_schema,
        runtime_input_schema=inputs.runtime_schema if inputs.runtime_schema != inputs.model_schema else None,
        output_schema=output_schema(info),
        defaults=inputs.defaults,
        sensitive_fields=inputs.fields.sensitive,
        internal_only_fields=inputs.fields.internal,
        path_fields=inputs.fields.path,
        url_fields=inputs.fields.url,
        command_fields=inputs.fields.command,
        context_parameter=info.context_parameter,
        arguments=inputs.convert,
        integer_fields=inputs.integers,
        kind=info.kind,
    )


def _title(name: str) -> str | None:
    """Return a name as words: `read_file` and `ReadFile` become `Read file`."""
    words = " ".join(_WORDS.findall(_HUMP.sub("_", name)))
    return words[:1].upper() + words[1:].lower() if words else None
