"""Signatures of Python callables as schemas: read once, when a tool is declared.

Importing this package imports pydantic.
"""

from agenttool.schema.signature.arguments import Signature as Signature
from agenttool.schema.signature.arguments import signature_of as signature_of
from agenttool.schema.signature.callables import FunctionKind as FunctionKind
from agenttool.schema.signature.callables import Injected as Injected
from agenttool.schema.signature.callables import filled_parameters as filled_parameters
from agenttool.schema.signature.callables import kind_of as kind_of
from agenttool.schema.signature.callables import read_callable as read_callable
from agenttool.schema.signature.conversion import Convert as Convert
from agenttool.schema.signature.conversion import normal_form_of_model as normal_form_of_model
