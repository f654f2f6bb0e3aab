"""Python callables to schemas: read once, when a tool is declared; importing this loads pydantic and griffe."""

from agenttool.schema.signature.callee import Flavour
from agenttool.schema.signature.convert import Convert, WholeNumbers
from agenttool.schema.signature.read import Signature, signature_of

__all__ = ["Convert", "Flavour", "Signature", "WholeNumbers", "signature_of"]
