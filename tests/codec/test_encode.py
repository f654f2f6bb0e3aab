from datetime import date
from decimal import Decimal

import pytest

from agenttool.codec import json_bytes, sorted_json, to_json
from agenttool.errors import RecordError
from agenttool.records import InterfaceId, ToolId, ToolInterface


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"a": float("nan")}, "/a"),
        ({"a": [1, {"b/c": float("-inf")}]}, "/a/1/b~1c"),
        ({"a": b"bytes"}, "/a"),
        ({"a": {1, 2}}, "/a"),
        ({"a": [date(2030, 1, 31)]}, "/a/0"),
        ({"a": Decimal(1)}, "/a"),
        ({"a": {1: 2}}, "/a"),
        ({"a": "x" * 5000, "b": float("nan")}, "/b"),
    ],
)
def test_what_would_be_written_as_something_else_is_refused_with_its_place(value, pointer):
    with pytest.raises(RecordError, match="not a JSON value") as refused:
        json_bytes(value)
    assert refused.value.pointer == pointer


@pytest.mark.parametrize("value", [None, 1, "x", [1.5, True], {"a": {"b": [None]}}, {"a": "x" * 5000}, {"a": (1, 2)}])
def test_what_is_json_is_written(value):
    assert json_bytes(value)


def test_what_cannot_be_written_is_refused_by_every_writer():
    endless = {}
    endless["a"] = endless
    odd = ToolInterface(interface_id=InterfaceId("i"), tool_id=ToolId("t"), model_input_schema={"a": object()})
    for write, value in ((json_bytes, endless), (sorted_json, endless), (sorted_json, {"a": "\ud800"}), (to_json, odd)):
        with pytest.raises(RecordError, match="not a JSON value"):
            write(value)
