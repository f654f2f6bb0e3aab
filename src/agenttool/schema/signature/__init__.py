"""Signatures of Python callables as schemas: read once, when a tool is declared.

Importing this package imports pydantic and griffe.
"""

from collections.abc import Callable

from agenttool.schema.signature.arguments import Signature, read_signature
from agenttool.schema.signature.callables import FunctionKind, parse_docstring, read_callable
from agenttool.schema.signature.conversion import Convert

__all__ = ["Convert", "FunctionKind", "Signature", "signature_of"]


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
    return read_signature(info, docs)
