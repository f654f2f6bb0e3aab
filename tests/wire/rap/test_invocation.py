"""What a runtime posts to a tool server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.rap.wire import (
    CancelToolCall,
    CloseThread,
    Invocation,
    Migrate,
    ReturnAddress,
    Selection,
    read,
    write,
)
from agenttool.errors import RecordError

FULL = {
    "operation": "read_probe",
    "arguments": {"bed": 12},
    "id": "tc-7f21",
    "call_id": "m-1",
    "callback_url": "https://agents.example.test/in/9d3e?k=w8",
    "group_id": "plot-9/sub-2",
    "thread_ancestors": ["plot-9", "plot-9/sub-1"],
    "user_id": "gardener-5",
}


def spelled(members):
    return json.dumps(members).encode()


def test_an_invocation_has_all_eight_fields_and_writes_back_the_same():
    invocation = read(spelled(FULL), Invocation)
    assert json.loads(write(invocation)) == FULL
    assert invocation.thread_ancestors == ("plot-9", "plot-9/sub-1")


@pytest.mark.requirement("RAP-408")
def test_null_and_absence_of_optional_members_are_alike():
    optional = ("call_id", "thread_ancestors", "user_id")
    absent = {name: value for name, value in FULL.items() if name not in optional}
    assert read(spelled(absent), Invocation) == read(spelled(FULL | dict.fromkeys(optional)), Invocation)
    assert json.loads(write(read(spelled(absent), Invocation))) == absent


@pytest.mark.parametrize("name", ["operation", "arguments", "id", "callback_url", "group_id"])
def test_a_missing_member_is_named(name):
    with pytest.raises(RecordError) as refusal:
        read(spelled({key: value for key, value in FULL.items() if key != name}), Invocation)
    assert refusal.value.pointer == f"/{name}"


@pytest.mark.parametrize("arguments", [None, [1], "text", 5])
def test_arguments_are_an_object_and_a_return_address_is_still_readable_when_not(arguments):
    data = spelled(FULL | {"arguments": arguments})
    with pytest.raises(RecordError) as refusal:
        read(data, Invocation)
    assert refusal.value.pointer == "/arguments"
    address = read(data, ReturnAddress)
    assert (address.callback_url, address.group_id, address.id, address.echo) == (
        FULL["callback_url"],
        FULL["group_id"],
        FULL["id"],
        FULL["call_id"],
    )


def test_a_call_id_that_is_no_text_is_not_echoed():
    assert read(spelled(FULL | {"call_id": 7}), ReturnAddress).echo is None
    assert read(spelled(FULL | {"call_id": ""}), ReturnAddress).echo == ""


@pytest.mark.parametrize("name", ["callback_url", "group_id", "id"])
@pytest.mark.parametrize("value", [None, 5, ""])
def test_without_a_usable_address_nothing_can_be_returned(name, value):
    with pytest.raises(RecordError) as refusal:
        read(spelled(FULL | {name: value}), ReturnAddress)
    assert refusal.value.pointer == f"/{name}"


_TEXT = st.text(max_size=20)
_NAME = st.text(min_size=1, max_size=20)


@given(
    st.builds(
        Invocation,
        operation=_NAME,
        arguments=st.dictionaries(_TEXT, st.none() | st.booleans() | st.integers(-9, 9) | _TEXT, max_size=4),
        id=_NAME,
        call_id=st.none() | _TEXT,
        callback_url=_NAME,
        group_id=_NAME,
        thread_ancestors=st.none() | st.lists(_TEXT, max_size=3).map(tuple),
        user_id=st.none() | _TEXT,
    )
)
def test_whatever_is_written_reads_back_as_itself(invocation):
    assert read(write(invocation), Invocation) == invocation


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (Selection, {"id": "tc-91", "selected": 1}),
        (CloseThread, {"thread_id": "plot-9/sub-2"}),
        (CancelToolCall, {"thread_id": "plot-9", "tool_call_id": "tc-80"}),
        (Migrate, {"session_id": "plot-9", "destination_url": "http://127.0.0.1:9441"}),
    ],
)
def test_each_notice_reads_and_writes_and_names_what_is_missing(kind, members):
    assert json.loads(write(read(spelled(members), kind))) == members
    for name in members:
        with pytest.raises(RecordError) as refusal:
            read(spelled({key: value for key, value in members.items() if key != name}), kind)
        assert refusal.value.pointer == f"/{name}"


@pytest.mark.parametrize("selected", [-1, True, "1", 1.5, None])
def test_a_selection_is_a_whole_number_and_nothing_like_one(selected):
    with pytest.raises(RecordError) as refusal:
        read(spelled({"id": "tc-91", "selected": selected}), Selection)
    assert refusal.value.pointer == "/selected"
