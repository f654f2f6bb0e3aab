"""What a stranger may send to hold us up: read in time that grows with its size, and refused in few plain words."""

import json
import time

import pytest

from agenttool.adapters.rap.wire import Invocation, read, read_callback
from agenttool.errors import RecordError

_CALL = b'{"operation":"x","arguments":{},"id":"1","callback_url":"https://a.example/","group_id":"g",'


def test_a_member_that_stands_twice_among_very_many_is_found_at_once():
    many = b",".join(b'"m%d":0' % number for number in range(60_000))
    begun = time.perf_counter()
    with pytest.raises(RecordError, match="'zz' twice"):
        read(_CALL + many + b',"zz":0,"zz":0}', Invocation)
    assert time.perf_counter() - begun < 3


@pytest.mark.parametrize("number", [b"1e999", b"1" * 5000, b"1" * 900])
def test_a_number_that_is_out_of_range_does_no_harm_in_a_member_that_nobody_reads(number):
    assert read(_CALL + b'"odd":' + number + b"}", Invocation).id == "1"


def test_what_is_wrong_is_said_in_one_short_line():
    with pytest.raises(RecordError) as caught:
        read_callback(json.dumps({"type": "x\nCRITICAL: forged" + "y" * 10_000, "group_id": "g"}).encode())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
