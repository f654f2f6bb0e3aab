import pytest

from agenttool.conformance.validate.diagnose import Diagnosis, diagnose
from agenttool.conformance.validate.finding import Flaw


def flaws(data):
    diagnosis = diagnose(data)
    assert isinstance(diagnosis, Diagnosis)
    return [(flaw.severity.value, flaw.pointer) for flaw in diagnosis.flaws]


def refusal(data):
    flaw = diagnose(data)
    assert isinstance(flaw, Flaw)
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
    assert flaw.lines_down == line


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
    assert (flaw.lines_down, f"at column {column}" in flaw.message) == (line, True)


@pytest.mark.parametrize(
    ("data", "byte", "line"), [(b"\xff", 1, 0), (b'{"a":\n"\xc3("}', 8, 1), (b'"\xed\xa0\x80"', 2, 0)]
)
def test_bytes_that_are_not_utf_8_are_told_by_their_place(data, byte, line):
    flaw = refusal(data)
    assert flaw.message == f"byte {byte} of the document is not UTF-8"
    assert flaw.lines_down == line


def test_every_name_that_is_used_twice_is_told_with_its_place():
    data = b'{"a":1,"a":2,"b":[{"c":1,"d":0,"c":{"e":1,"e":2},"c":{"e":1,"e":2}}]}'
    assert flaws(data) == [("error", "/a"), ("error", "/b/0/c"), ("error", "/b/0/c/e")]


def test_numbers_that_json_cannot_hold_are_told_and_replaced():
    diagnosis = diagnose(b'{"a":[NaN,-Infinity,1e999,' + b"9" * 10_000 + b",-" + b"9" * 30 + b'],"b":1}')
    assert flaws(b'{"a":[NaN,-Infinity,1e999,' + b"9" * 10_000 + b",-" + b"9" * 30 + b'],"b":1}') == [
        ("error", "/a/0"),
        ("error", "/a/1"),
        ("error", "/a/2"),
        ("warning", "/a/3"),
        ("warning", "/a/4"),
    ]
    assert diagnosis.value == {"a": [0.0, 0.0, 0.0, (1 << 64) - 1, -(1 << 63)], "b": 1}
    assert not diagnosis.is_exact


def test_half_of_a_surrogate_pair_is_told_and_replaced():
    diagnosis = diagnose(b'{"a":["x\\ud800"],"\\udc00":"\\ud83d\\ude00"}')
    assert flaws(b'{"a":["x\\ud800"],"\\udc00":1}') == [("error", "/a/0"), ("error", "/\ufffd")]
    assert diagnosis.value == {"a": ["x\ufffd"], "\ufffd": "\U0001f600"}


def test_no_message_repeats_what_the_document_says():
    for data in (b'{"k":"s3cret', b'{"k": s3cret}', b'{"k":"s3cret\x01"}', b'{"k":"\\s3cret"}', b'{"k":"s3cret\xff"}'):
        assert "s3cret" not in repr(refusal(data))
