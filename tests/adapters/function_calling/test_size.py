"""The size of strict schemas: each limit of a provider is met before the provider meets it."""

import pytest

from agenttool.adapters.function_calling.dialect import OPENAI
from agenttool.adapters.function_calling.size import too_large


def an_object(properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def members(count):
    return an_object({str(number): {} for number in range(count)})


def nested(levels):
    return an_object({"a": nested(levels - 1)}) if levels > 1 else an_object({})


def choices(count, length):
    return an_object({"a": {"enum": [f"{number:0{length}}" for number in range(count)]}})


@pytest.mark.parametrize(
    ("within", "beyond", "told"),
    [
        (nested(10), nested(11), "nested more than 10 levels"),
        (choices(1000, 4), choices(1001, 4), "more than 1000 choices"),
        (choices(250, 100), choices(251, 100), "250 choices and more are longer than 15000"),
        (members(5000), members(5001), "more than 5000 properties"),
        (an_object({"a" * 119_999: {}}), an_object({"a" * 120_001: {}}), "longer than 120000"),
        (choices(1, 119_000), {**choices(1, 119_000), "$defs": {"d" * 1001: {}}}, "longer than 120000"),
    ],
)
def test_a_schema_is_held_to_each_limit(within, beyond, told):
    assert too_large(within, OPENAI) is None
    assert told in too_large(beyond, OPENAI)
