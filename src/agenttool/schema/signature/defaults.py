"""Which defaults of Python can be told in JSON, without changing what the function gets."""

from collections.abc import Sequence

from pydantic import TypeAdapter

from agenttool.codec import canonical_json, sorted_json
from agenttool.errors import RecordError
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.signature.argument import Argument
from agenttool.schema.signature.callee import EMPTY
from agenttool.schema.views import pointers_to

_UNTELLABLE = (RecordError, ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What a default that has no JSON may end in; comparing it is the code of its own author."""


def json_defaults(
    adapter: TypeAdapter[dict[str, object]],
    arguments: Sequence[Argument],
    schema: JsonObject,
    sensitive: frozenset[str],
) -> JsonObject:
    """Give the defaults by the name they are sent as; one that cannot be told is left to Python.

    Told is what has JSON that fits the schema and comes back as the same value, and holds nothing sensitive.
    """
    fits = Checker({keyword: value for keyword, value in schema.items() if keyword != "required"})
    told: JsonObject = {}
    for each in arguments:
        if each.default is EMPTY or each.sent_as in sensitive:
            continue
        try:
            member = _written(adapter, each)
            canonical_json(member)
            back = adapter.validate_python(member)[each.name]
            if fits.accepts(member) and _is_same(back, each.default) and not pointers_to(member, sensitive):
                told |= member
        except _UNTELLABLE:
            continue
    return told


def _written(adapter: TypeAdapter[dict[str, object]], argument: Argument) -> JsonObject:
    written: JsonObject = adapter.dump_python(
        {argument.name: argument.default}, mode="json", by_alias=True, round_trip=True, warnings="error"
    )
    value = written[argument.sent_as]
    if isinstance(argument.default, set | frozenset) and isinstance(value, list):
        value = sorted(value, key=sorted_json)  # the order of a set differs from run to run
    return {argument.sent_as: value}


def _is_same(back: object, default: object) -> bool:
    is_widened = type(back) is float and type(default) is int
    return (is_widened or type(back) is type(default)) and bool(back == default)
