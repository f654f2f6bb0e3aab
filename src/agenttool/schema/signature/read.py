"""A Python callable to everything that can be known about its input and output before the first call."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agenttool.records import JsonObject
from agenttool.schema.signature.callee import Flavour, read_callable
from agenttool.schema.signature.convert import ByPydantic, Convert
from agenttool.schema.signature.docs import read_docs
from agenttool.schema.signature.inputs import read_inputs
from agenttool.schema.signature.output import read_output

_WORDS = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A callable, read. Fields are told by name, and a name means that member of the input on every level.

    Attributes:
        description: the docstring without its parameter sections; may be empty.
        model_input_schema: what a model may send; takes no undeclared members, and names nothing internal.
        runtime_input_schema: the same with the internal fields; none if there are none.
        output_schema: of the structured value that comes back; none for text, plain numbers and streams.
        defaults: those that JSON can tell, by member of the input; Python itself knows the others.
        context_parameter: filled by whoever runs the callable, and in no schema.
        arguments: makes keyword arguments of an input that fits; none if the input is the keyword arguments.
            Raises `ToolFailure` with `invalid_arguments` for what only the types can tell.
        flavour: how the callable is run; a `function` may still return an awaitable, if a decorator hides it.
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
    flavour: Flavour

    @property
    def can_refuse(self) -> bool:
        """Tell whether its types can find fault with an input that fits its schema."""
        return isinstance(self.arguments, ByPydantic)


def signature_of(function: Callable[..., object], *, context_type: type | None = None) -> Signature:
    """Read a function, a bound method, a partial or a callable object.

    Args:
        function: each parameter has a name and an annotation.
        context_type: a parameter of this class, or of one below it, is the context of the call and no argument.

    Raises:
        ConfigError: it cannot be called by name with JSON; says which parameter is at fault and what to do.
    """
    callee = read_callable(function, context_type=context_type)
    docs = read_docs(callee.text, {*(each.name for each in callee.parameters), callee.context_parameter or ""})
    inputs = read_inputs(callee, docs.parameters)
    return Signature(
        name=callee.name,
        title=_title(callee.name),
        description=docs.description,
        model_input_schema=inputs.model_schema,
        runtime_input_schema=inputs.runtime_schema if inputs.runtime_schema != inputs.model_schema else None,
        output_schema=read_output(callee),
        defaults=inputs.defaults,
        sensitive_fields=inputs.fields.sensitive,
        internal_only_fields=inputs.fields.internal,
        path_fields=inputs.fields.path,
        url_fields=inputs.fields.url,
        command_fields=inputs.fields.command,
        context_parameter=callee.context_parameter,
        arguments=inputs.convert,
        flavour=callee.flavour,
    )


def _title(name: str) -> str | None:
    """Make words of a name: `read_file` and `ReadFile` become `Read file`."""
    words = " ".join(_WORDS.findall(_HUMP.sub("_", name)))
    return words[:1].upper() + words[1:].lower() if words else None
