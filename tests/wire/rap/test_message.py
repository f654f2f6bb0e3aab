"""What a stranger may send to hold us up: read in time that grows with its size, and refused in few plain words."""

import json

import pytest

from agenttool.adapters.rap.wire import Invocation, read, read_callback
from agenttool.errors import RecordError

_CALL = b'{"operation":"x","arguments":{},"id":"1","callback_url":"https://a.example/","group_id":"g",'


def test_a_member_that_stands_twice_among_very_many_is_found():
    many = b",".join(b'"m%d":0' % number for number in range(60_000))
    with pytest.raises(RecordError, match="'zz' twice"):
        read(_CALL + many + b',"zz":0,"zz":0}', Invocation)


@pytest.mark.requirement("RAP-410")
@pytest.mark.parametrize("part", [b'"%d":0', b'"%d":[[]]', b'"%d":{}'])
def test_a_large_message_of_very_many_parts_is_refused_before_it_holds_up_others(part):
    many = b",".join(part % number for number in range(10**6, 10**6 + 260_000))
    with pytest.raises(RecordError, match="250000 members and items"):
        read(_CALL + many + b"}", Invocation)


@pytest.mark.parametrize("text", ['{"a": "b\\c", "d": [1, 2, 3]}', "1,2,[3],{4}\n", '"', "\\"])
def test_what_stands_in_a_text_is_no_part_of_a_message(text):
    reported = {"type": "tool_result", "group_id": "g", "id": "i", "text": text * (3_000_000 // len(text))}
    assert read_callback(json.dumps(reported).encode()).text == reported["text"]


@pytest.mark.parametrize("number", [b"1e999", b"1" * 5000, b"1" * 900])
def test_a_number_out_of_range_in_an_unknown_member_is_ignored(number):
    assert read(_CALL + b'"odd":' + number + b"}", Invocation).id == "1"


@pytest.mark.parametrize("odd", [b'"x":"\xff"', b'"\xff":1', b'"x":"\xed\xa0\x80"'])
def test_an_unknown_member_that_is_not_utf_8_is_refused(odd):
    with pytest.raises(RecordError, match="must be UTF-8"):
        read(_CALL + odd + b"}", Invocation)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"type": "x\nCRITICAL: forged" + "y" * 10_000, "group_id": "g"}).encode(),
        b'{"type":"tool_result","group_id":"g","id":"i","text":"","%b":0,"%b":0}' % (b"y" * 10_000, b"y" * 10_000),
    ],
)
def test_what_is_wrong_is_said_in_one_short_line(body):
    with pytest.raises(RecordError) as caught:
        read_callback(body)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
