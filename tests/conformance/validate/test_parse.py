"""Documents are parsed, or the finding says why not, whatever the bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.conformance.validate.finding import Finding, flaw
from agenttool.conformance.validate.parse import MAX_DEPTH, Parsed, parse, walk


def test_every_value_is_visited_once_in_the_order_of_the_document():
    value = {"a": [1, {"b/c": 2}], "d": {}}
    assert [(steps, inner) for steps, _, inner in walk(value)] == [
        (("a",), [1, {"b/c": 2}]),
        (("a", 0), 1),
        (("a", 1), {"b/c": 2}),
        (("a", 1, "b/c"), 2),
        (("d",), {}),
    ]


def test_a_single_value_has_nothing_below_it():
    assert list(walk(7)) == []


@pytest.mark.parametrize(
    "text", [b'["' + b"[" * 1000 + b'"]', b'["' + b'\\"[' * 1000 + b'"]', b"[" + b"[[]]," * 1000 + b"[]]"]
)
def test_brackets_in_strings_and_breadth_are_no_depth(text):
    assert isinstance(parse(text), Parsed)


TOO_DEEP = flaw("too_deep", depth=MAX_DEPTH)


def flaws(data):
    parsed = parse(data)
    assert isinstance(parsed, Parsed)
    return [(flaw.severity.value, flaw.message) for flaw in parsed.flaws]


def refusal(data):
    flaw = parse(data)
    assert isinstance(flaw, Finding)
    return flaw


@pytest.mark.parametrize(
    ("data", "size", "line"),
    [
        (b"", 0, 0),
        (b'{"a": 1', 7, 0),
        (b'{"a": "text', 11, 0),
        (b'{"a": 1,\n"b":\n', 14, 2),
        (b'{"a": tr', 8, 0),
        ('{"ä": '.encode(), 7, 0),
    ],
)
def test_a_document_that_was_cut_off_says_where_it_ends(data, size, line):
    flaw = refusal(data)
    if data.endswith(b"tr"):
        assert "not JSON" in flaw.message
        return
    assert flaw.message == f"the document ends after {size} bytes, before it is complete"
    assert flaw.line == line


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b'{"a" 1}', 0, 6),
        (b'{"a": 1}}', 0, 9),
        (b'{\n  "a": 1,\n  b: 2}', 2, 3),
        (b'{"a": 01}', 0, 8),
        (b"{'a': 1}", 0, 2),
    ],
)
def test_a_document_that_is_no_json_says_where(data, line, column):
    flaw = refusal(data)
    assert (flaw.line, f"at column {column}" in flaw.message) == (line, True)


@pytest.mark.parametrize(
    ("data", "byte", "line"), [(b"\xff", 1, 0), (b'{"a":\n"\xc3("}', 8, 1), (b'"\xed\xa0\x80"', 2, 0)]
)
def test_bytes_that_are_not_utf_8_are_reported_by_their_place(data, byte, line):
    flaw = refusal(data)
    assert flaw.message == f"byte {byte} of the document is not UTF-8"
    assert flaw.line == line


USED_TWICE = ("error", "the name is used twice in one object; readers disagree on which value counts")


def test_a_name_that_is_used_twice_on_any_level_is_reported_once():
    assert flaws(b'{"a":1,"a":2,"b":[{"c":1,"c":{"e":1,"e":2}}]}') == [USED_TWICE]
    assert flaws(b'{"b":[{"c":{"e":1,"e":2}}]}') == [USED_TWICE]


def test_numbers_that_json_cannot_hold_are_reported_and_replaced():
    data = b'{"a":[NaN,-Infinity,1e999,' + b"9" * 10_000 + b",-" + b"9" * 30 + b'],"b":1}'
    assert flaws(data) == [
        ("error", "NaN and Infinity are no JSON"),
        ("error", "the number is beyond what a double can hold"),
        ("warning", "the integer needs more than 64 bits"),
    ]
    assert parse(data).value == {"a": [0.0, 0.0, 0.0, (1 << 64) - 1, -(1 << 63)], "b": 1}


@pytest.mark.parametrize("half", ["\\ud800", "\\uDC00", "\\udc00\\ud800", "\\\\\\ud8ff"])
def test_half_of_a_surrogate_pair_is_reported_and_replaced(half):
    data = '{"a":["x' + half + '"],"' + half + '":"\\ud83d\\ude00"}'
    assert flaws(data.encode()) == [("error", "the text holds half of a surrogate pair")]
    parsed = parse(data.encode()).value
    assert not any("\ud800" <= each <= "\udfff" for each in "".join([*parsed, *parsed["a"]]))
    assert "\U0001f600" in parsed.values()


def test_an_escaped_backslash_before_a_u_is_no_surrogate():
    parsed = parse(rb'["\\ud800", "\\\\ud800"]')
    assert (parsed.value, parsed.flaws) == (["\\ud800", "\\\\ud800"], ())


def test_no_message_repeats_what_the_document_says():
    for data in (b'{"k":"s3cret', b'{"k": s3cret}', b'{"k":"s3cret\x01"}', b'{"k":"\\s3cret"}', b'{"k":"s3cret\xff"}'):
        assert "s3cret" not in repr(refusal(data))


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
    assert (parsed.value, parsed.flaws) == (value, ())


@given(VALUES)
def test_documents_that_say_the_same_have_the_same_content(value):
    one, other = parse(json.dumps(value).encode()), parse(json.dumps(value, indent=1, sort_keys=True).encode())
    assert one.content == other.content


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=1, max_size=4), st.data())
def test_no_second_member_of_a_name_slips_through(members, data):
    name = data.draw(st.sampled_from(sorted(members)))
    spelled = data.draw(st.sampled_from([json.dumps, lambda text: json.dumps(text).replace(":", "\\u003a")]))
    text = json.dumps(members)[:-1] + f", {spelled(name)} : 7}}"
    assert flaws(text.encode()) == [USED_TWICE]


@given(st.binary(max_size=60))
def test_no_bytes_raise(data):
    assert isinstance(parse(data), Parsed | Finding)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 10_000, 1_000_000])
def test_a_document_of_any_depth_is_refused_and_never_crashes(levels):
    assert parse(b"[" * levels + b"]" * levels) == TOO_DEEP
    assert parse(b'{"a":' * levels + b"1" + b"}" * levels) == TOO_DEEP


@pytest.mark.parametrize("levels", [10_000, 1_000_000])
def test_a_cut_document_of_any_depth_never_crashes(levels):
    assert parse(b"[" * levels) == TOO_DEEP
    assert parse(b'[{"a":"]"},' * (levels // 10) + b"0" + b"]" * levels) == TOO_DEEP


def test_the_deepest_allowed_document_is_read():
    parsed = parse(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    assert isinstance(parsed, Parsed)


@pytest.mark.parametrize("number", [(1 << 64) - 1, -(1 << 63)])
def test_an_integer_of_64_bits_is_well_and_one_more_is_not(number):
    assert parse(json.dumps({"n": number}).encode()).flaws == ()
    beyond = number + (1 if number > 0 else -1)
    assert flaws(json.dumps({"n": [beyond]}).encode()) == [("warning", "the integer needs more than 64 bits")]


def test_digits_in_text_are_no_number():
    assert parse(b'{"n": "12345678901234567890123", "m": ": 99999999999999999999"}').flaws == ()
