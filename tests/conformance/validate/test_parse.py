import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.depth import MAX_DEPTH
from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.parse import TOO_DEEP, Parsed, parse

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_every_document_that_is_well_is_read_exactly(value, ascii_only, indent):
    parsed = parse(json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode())
    assert isinstance(parsed, Parsed)
    assert (parsed.value, parsed.is_exact, parsed.flaws) == (value, True, ())


@given(VALUES)
def test_documents_that_say_the_same_have_the_same_content(value):
    one, other = parse(json.dumps(value).encode()), parse(json.dumps(value, indent=1, sort_keys=True).encode())
    assert one.content == other.content


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=1, max_size=4), st.data())
def test_no_second_member_of_a_name_slips_through(members, data):
    name = data.draw(st.sampled_from(sorted(members)))
    spelled = data.draw(st.sampled_from([json.dumps, lambda text: json.dumps(text).replace(":", "\\u003a")]))
    text = json.dumps(members)[:-1] + f", {spelled(name)} : 7}}"
    (flaw,) = parse(text.encode()).flaws
    assert flaw.pointer == "/" + name.replace("~", "~0").replace("/", "~1")


@given(st.binary(max_size=60))
def test_no_bytes_raise(data):
    assert isinstance(parse(data), Parsed | Flaw)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 10_000, 1_000_000])
def test_a_document_of_any_depth_is_refused_and_never_crashes(levels):
    assert parse(b"[" * levels + b"]" * levels) == TOO_DEEP
    assert parse(b'{"a":' * levels + b"1" + b"}" * levels) == TOO_DEEP
    assert parse(b"[" * levels) == TOO_DEEP


def test_the_deepest_allowed_document_is_read():
    parsed = parse(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    assert isinstance(parsed, Parsed)


@pytest.mark.parametrize("number", [(1 << 64) - 1, -(1 << 63)])
def test_an_integer_of_64_bits_is_well_and_one_more_is_not(number):
    assert parse(json.dumps({"n": number}).encode()).flaws == ()
    beyond = number + (1 if number > 0 else -1)
    (flaw,) = parse(json.dumps({"n": [beyond]}).encode()).flaws
    assert (flaw.pointer, flaw.severity) == ("/n/0", "warning")


def test_digits_in_text_are_no_number():
    assert parse(b'{"n": "12345678901234567890123", "m": ": 99999999999999999999"}').flaws == ()
