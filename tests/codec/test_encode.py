import json
import random
from datetime import date
from decimal import Decimal

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values, records

from agenttool.codec import canonical_json, digest_of, json_bytes, read, record_digest, sorted_json, to_json, write
from agenttool.errors import RecordError
from agenttool.records import InterfaceId, ToolDeclaration, ToolId, ToolInterface, replace


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
    for encode, value in (
        (json_bytes, endless),
        (sorted_json, endless),
        (sorted_json, {"a": "\ud800"}),
        (to_json, odd),
    ):
        with pytest.raises(RecordError, match="not a JSON value"):
            encode(value)


def test_canonical_json_is_the_one_of_rfc_8785():
    value = json.loads(
        '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'
    )
    assert (
        canonical_json(value)
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )


@given(json_values(max_leaves=12))
def test_simple_values_are_spelled_as_the_standard_library_of_rfc_8785_spells_them(value):
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        return
    assert canonical_json(value) == expected


@pytest.mark.parametrize("names", [("\uffff", "\U00010000"), ("a", "B", "é"), ("", "\x7f", "\x00"), ("10", "9")])
@pytest.mark.parametrize("value", [2**53 - 1, 1 - 2**53, True, None, "\u2028</\x7f\x1f\U0001f600", [[], {}]])
def test_names_are_sorted_as_rfc_8785_says(names, value):
    members = dict.fromkeys(names, value)
    assert canonical_json(members) == rfc8785.dumps(members)


def shuffled(value, rng):
    if isinstance(value, dict):
        members = list(value.items())
        rng.shuffle(members)
        return {name: shuffled(each, rng) for name, each in members}
    return [shuffled(each, rng) for each in value] if isinstance(value, list) else value


@given(json_values(max_leaves=12), st.integers())
def test_a_digest_does_not_depend_on_how_a_value_was_spelled(value, seed):
    spelled = json.dumps(shuffled(value, random.Random(seed)), indent=3, ensure_ascii=True)
    assert digest_of(json.loads(spelled)) == digest_of(value)


@given(records(ToolDeclaration))
def test_a_record_can_carry_its_own_digest(declaration):
    signed = replace(declaration, digest=record_digest(declaration))
    assert record_digest(read(write(signed), ToolDeclaration)) == signed.digest


@given(records(ToolDeclaration), st.text(min_size=1, max_size=5).filter(str.isprintable))
def test_a_changed_record_no_longer_matches_its_digest(declaration, more):
    signed = replace(declaration, digest=record_digest(declaration))
    assert record_digest(replace(signed, description=signed.description + more)) != signed.digest


@pytest.mark.parametrize("value", [2**53 + 1, float("inf"), float("nan"), "\ud800", {"a": [10**30]}])
def test_a_value_without_a_canonical_spelling_is_refused(value):
    with pytest.raises(RecordError, match="write such a value as a string"):
        canonical_json(value)


def test_a_digest_names_its_algorithm():
    assert digest_of({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
