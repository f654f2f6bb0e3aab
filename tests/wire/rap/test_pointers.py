"""Where a message is wrong: what an error points to stands in the message, or is missing from something that does."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttool.adapters.rap.wire import Invocation, read, read_callback, read_manifest
from agenttool.errors import RecordError

IMAGE = {"type": "image", "data": "aGk=", "mediaType": "image/png"}
ABOUT = {"group_id": "g", "id": "i", "call_id": "c"}
RESULT = {
    "type": "tool_result",
    **ABOUT,
    "content": [{"type": "text", "text": "t"}, IMAGE],
    "display_as": [{"type": "diff", "content": {"path": "p", "patch": "q"}}, {"type": "text", "content": "t"}],
    "subscription": True,
}
CALLBACKS = (
    RESULT,
    {"type": "view_update", "group_id": "g", "view_type": "v", "content": {"a.b": {"c[0]": [1, {"": 2}]}}},
    {"type": "subscription_event", "group_id": "g", "tool_call_id": "i", "text": "t", "final": True},
    {"type": "user_choice", **ABOUT, "prompt": "p", "choices": ["a", "b"], "default": 0, "response_url": "https://x"},
    {"type": "oauth", **ABOUT, "auth_url": "https://x"},
)
TOOL = {"name": "a", "description": "d", "inputSchema": {"type": "object"}, "annotations": {"x": {"y": [1]}}}
MANIFEST = {"name": "n", "endpoint": "https://x/y", "tools": [TOOL, {**TOOL, "name": "b"}]}
CALL = {"operation": "o", "arguments": {"a": [{"b": 1}]}, "id": "i", "callback_url": "https://x", "group_id": "g"}

DOCUMENTS = (
    *((message, read_callback) for message in CALLBACKS),
    (MANIFEST, read_manifest),
    (CALL, lambda data: read(data, Invocation)),
)
HUGE = "1e999"
"""Stands for a number that JSON can say and no reader can keep."""

WRONG = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.just(HUGE)
    | st.sampled_from(["text", "image"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.just("type"), inner, max_size=3)
    ),
    max_leaves=5,
)


def written(document):
    return json.dumps(document).replace(f'"{HUGE}"', HUGE).encode()


def places(value, path=()):
    """Go through every place of a document."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in members:
        yield from places(member, (*path, step))


def with_other(document, path, other, leave_out):
    """Copy a document with something else at one place, or nothing."""
    if not path:
        return other
    copy = json.loads(json.dumps(document))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    if leave_out:
        del holder[path[-1]]
    else:
        holder[path[-1]] = other
    return copy


def resolves(document, pointer):
    """Return whether a pointer leads to something, or to a member that is missing from an object."""
    *before, last = ["", *pointer.split("/")[1:]]
    at = document
    for step in before[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        at = at[int(name)] if isinstance(at, list) else at[name]
    return not pointer or isinstance(at, dict) or (isinstance(at, list) and int(last) < len(at))


@st.composite
def spoiled(draw):
    document, reader = draw(st.sampled_from(DOCUMENTS))
    path = draw(st.sampled_from(list(places(document))))
    return with_other(document, path, draw(WRONG), draw(st.booleans())), reader


@given(spoiled())
@example((with_other(RESULT, ("display_as", 0, "content", "path"), HUGE, leave_out=False), read_callback))
@example((with_other(RESULT, ("content", 0, "more"), {"x": HUGE}, leave_out=False), read_callback))
@example((with_other(CALL, ("arguments", "a"), HUGE, leave_out=False), lambda data: read(data, Invocation)))
def test_what_an_error_points_to_is_there_or_missing_from_what_is(case):
    document, reader = case
    pointer = ""
    try:
        reader(written(document))
    except RecordError as error:
        pointer = error.pointer or ""
    assert resolves(document, pointer), pointer


@pytest.mark.parametrize(
    ("document", "path", "pointer"),
    [
        (RESULT, ("content", 1, "data"), "/content/1/data"),
        (RESULT, ("content", 0), "/content/0"),
        (RESULT, ("display_as", 0, "content", "path"), "/display_as/0/content"),
        (CALLBACKS[1], ("content", "a.b"), "/content"),
        (CALLBACKS[1], ("content", "a.b", "c[0]", 0), "/content"),
    ],
)
def test_an_error_points_as_far_as_the_place_is_known(document, path, pointer):
    with pytest.raises(RecordError) as caught:
        read_callback(written(with_other(document, path, HUGE, leave_out=False)))
    assert caught.value.pointer == pointer
