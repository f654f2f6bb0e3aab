import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.ports.output import NativeOutput
from agenttool.results.native import native_payload
from agenttool.results.plan import MappingPlan
from agenttool.results.redaction import MARKER, compile_redactor
from agenttool.testing.strategies import json_values


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("password", {"password": "x", "n": 1}, {"password": MARKER, "n": 1}),
        ("password", {"a": [{"password": {"deep": 1}}]}, {"a": [{"password": MARKER}]}),
        ("user.token", {"user": {"token": 1}, "token": 2}, {"user": {"token": MARKER}, "token": 2}),
        ("user.token", {"user.token": 1}, {"user.token": MARKER}),
        ("user.token", {"user": [{"token": 1}]}, {"user": [{"token": MARKER}]}),
        ("/user/token", {"user": {"token": 1}, "token": 2}, {"user": {"token": MARKER}, "token": 2}),
        ("/a~1b/m~0n", {"a/b": {"m~n": 1}}, {"a/b": {"m~n": MARKER}}),
        ("keys.*.secret", {"keys": [{"secret": 1, "id": 2}]}, {"keys": [{"secret": MARKER, "id": 2}]}),
        ("keys[*].secret", {"keys": [{"secret": 1, "id": 2}]}, {"keys": [{"secret": MARKER, "id": 2}]}),
        ("keys[1]", {"keys": ["a", "b"]}, {"keys": ["a", MARKER]}),
        ("/keys/*", {"keys": ["a", "b"]}, {"keys": [MARKER, MARKER]}),
        ("/by_name/*/pin", {"by_name": {"ann": {"pin": 1}}}, {"by_name": {"ann": {"pin": MARKER}}}),
        ("$.password", {"password": "x"}, {"password": MARKER}),
        ("user.token", [{"user": {"token": 1}}], [{"user": {"token": MARKER}}]),
        ("", {"a": 1}, MARKER),
        ("absent", {"a": 1}, {"a": 1}),
        ("a", "just text", "just text"),
    ],
)
def test_a_sensitive_place_is_named_in_any_of_the_usual_ways(path, before, after):
    untouched = copy.deepcopy(before)
    assert compile_redactor([path]).redact(before) == after
    assert before == untouched


def test_a_tool_without_sensitive_places_has_no_redactor():
    assert compile_redactor([]) is None
    assert compile_redactor(None) is None


def test_only_what_changes_is_copied():
    value = {"a": {"big": [1, 2, 3]}, "password": "x"}
    redacted = compile_redactor(["password"]).redact(value)
    assert redacted["a"] is value["a"]
    clean = {"a": [1, {"b": 2}]}
    assert compile_redactor(["password", "a.c"]).redact(clean) is clean


def test_the_values_at_sensitive_places_can_be_collected():
    redactor = compile_redactor(["password", "keys.*.secret"])
    value = {"password": {"x": 1}, "keys": [{"secret": "s1"}, {"secret": "s2"}], "n": 1}
    assert sorted(map(str, redactor.find(value))) == ["s1", "s2", "{'x': 1}"]
    assert compile_redactor([""]).find({"a": 1}) == [{"a": 1}]


def test_a_value_too_deep_to_look_through_is_taken_out_whole_and_still_searched():
    deep = {"password": "found"}
    for _ in range(5000):
        deep = {"a": deep}
    redactor = compile_redactor(["password"])
    assert redactor.redact(deep) == MARKER
    assert redactor.find(deep) == ["found"]


def test_a_text_that_spells_json_is_redacted_as_json(mapped):
    plan = MappingPlan(redactor=compile_redactor(["token"]))
    result = mapped('{"token": "abcd-efgh", "n": 1}', plan).result
    assert result.model_facing_content[0].text == '{"token":"[redacted]","n":1}'
    assert result.redaction_state == "partial"
    assert mapped("no token here", plan).result.redaction_state == "none"


def test_bytes_at_a_sensitive_place_are_neither_shown_nor_stored(mapped):
    photo = b"\x89PNG\r\n\x1a\n" + bytes(90)
    redactor = compile_redactor(["photo"])
    for value in ({"photo": photo}, {"photo": {"raw": [photo]}}, NativeOutput(structured_content={"photo": photo})):
        found = mapped(value, MappingPlan(redactor=redactor))
        assert found.payloads == ()
        assert found.result.structured_content == {"photo": MARKER}
        assert [item.type for item in found.result.content] == ["text"]
    assert [payload.ref.media_type for payload in native_payload({"photo": photo}, redactor=redactor)] == [
        "application/json"
    ]


@st.composite
def documents_with_a_secret(draw):
    """A JSON object with a marker secret somewhere under a sensitive name."""
    document = draw(st.dictionaries(st.text(max_size=5), json_values(), max_size=3))
    spot = document
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)):
        inner = {}
        spot[name] = draw(st.sampled_from([inner, [inner], [1, inner]]))
        spot = inner
    spot["password"] = draw(st.sampled_from(["MARKER-SECRET", ["MARKER-SECRET"], {"x": "MARKER-SECRET"}]))
    return document


@given(documents_with_a_secret())
def test_a_marker_secret_at_a_sensitive_place_is_nowhere_afterwards(document):
    assert "MARKER-SECRET" not in json.dumps(compile_redactor(["password"]).redact(document))
