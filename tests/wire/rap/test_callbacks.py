"""What a tool may post to a callback URL, and what a runtime must refuse."""

import json

import pytest

from agenttool.adapters.rap.wire import (
    ImageItem,
    OAuth,
    Segment,
    SubscriptionEvent,
    TextItem,
    ToolResultMessage,
    UserChoice,
    ViewUpdate,
    display_diff,
    display_image,
    display_text,
    read_callback,
    write,
)
from agenttool.errors import RecordError

PIXEL = "/9j/4AAQSkZJRg=="
PICTURE = {"data": PIXEL, "mediaType": "image/jpeg"}
HEAD = {"group_id": "plot-9", "id": "tc-7"}


def spelled(**members):
    return json.dumps(members).encode()


def result(**members):
    return spelled(type="tool_result", **HEAD, **members)


EXAMPLES = [
    (
        {
            "type": "tool_result",
            "group_id": "plot-9/sub-2",
            "id": "tc-7f21",
            "call_id": "m-4",
            "content": [{"type": "text", "text": "Leaf photo"}, {"type": "image", **PICTURE}],
            "display_as": [
                {"type": "image", "content": PICTURE},
                {"type": "diff", "content": {"path": "beds/12.toml", "patch": "--- a\n+++ b"}},
                {"type": "text", "content": "photo of bed 12"},
            ],
        },
        ToolResultMessage(
            group_id="plot-9/sub-2",
            id="tc-7f21",
            call_id="m-4",
            content=(TextItem(text="Leaf photo"), ImageItem(data=PIXEL, media_type="image/jpeg")),
            display_as=(
                display_image(PIXEL, "image/jpeg"),
                display_diff("beds/12.toml", "--- a\n+++ b"),
                display_text("photo of bed 12"),
            ),
        ),
    ),
    (
        {"type": "tool_result", "group_id": "plot-9", "id": "tc-80", "text": "Watching bed 3.", "subscription": True},
        ToolResultMessage(group_id="plot-9", id="tc-80", text="Watching bed 3.", subscription=True),
    ),
    (
        {"type": "tool_result", "group_id": "g", "id": "i", "call_id": "", "text": ""},
        ToolResultMessage(group_id="g", id="i", call_id="", text=""),
    ),
    (
        {
            "type": "subscription_event",
            "group_id": "plot-9",
            "tool_call_id": "tc-80",
            "text": '{"bed":3}',
            "associative": True,
            "final": True,
        },
        SubscriptionEvent(group_id="plot-9", tool_call_id="tc-80", text='{"bed":3}', associative=True, final=True),
    ),
    (
        {"type": "oauth", "group_id": "plot-9", "id": "tc-90", "auth_url": "https://id.example.test/a?state=5b1c"},
        OAuth(group_id="plot-9", id="tc-90", auth_url="https://id.example.test/a?state=5b1c"),
    ),
    (
        {
            "type": "user_choice",
            "group_id": "plot-9",
            "id": "tc-91",
            "prompt": "Open the main valve?",
            "choices": ["Open it", "Leave closed"],
            "default": 1,
            "response_url": "http://127.0.0.1:8123/picked",
        },
        UserChoice(
            group_id="plot-9",
            id="tc-91",
            prompt="Open the main valve?",
            choices=("Open it", "Leave closed"),
            default=1,
            response_url="http://127.0.0.1:8123/picked",
        ),
    ),
    (
        {"type": "view_update", "group_id": "plot-9", "view_type": "valve-map", "content": {"open": [4, 7]}},
        ViewUpdate(group_id="plot-9", view_type="valve-map", content={"open": [4, 7]}),
    ),
    (
        {"type": "view_update", "group_id": "plot-9", "view_type": "diff", "content": {}},
        ViewUpdate(group_id="plot-9", view_type="diff", content={}),
    ),
]


@pytest.mark.requirement("RAP-001")
@pytest.mark.parametrize(("members", "message"), EXAMPLES, ids=lambda each: getattr(each, "id", None))
def test_a_callback_reads_as_what_it_is_and_writes_back_the_same(members, message):
    assert read_callback(spelled(**members)) == message
    assert json.loads(write(message)) == members


@pytest.mark.requirement("RAP-408")
@pytest.mark.parametrize(("members", "message"), EXAMPLES, ids=lambda each: getattr(each, "id", None))
def test_unknown_members_are_ignored_and_null_is_absence(members, message):
    optional = {"call_id"} if members["type"] in ("tool_result", "oauth", "user_choice") else set()
    padded = {**dict.fromkeys(optional), **members, "x-news": {"deep": [1]}}
    assert read_callback(spelled(**padded)) == message


REFUSED = [
    (b"", ""),
    (b"[]", ""),
    (b"{}", "/type"),
    (b'\xef\xbb\xbf{"type":"oauth"}', ""),
    (b'{"type":"tool_result","group_id":"\xff","id":"i","text":"t"}', ""),
    (b'{"type":"tool_result","group_id":"g","id":"i","text":"\\ud800"}', ""),
    (b'{"type":"tool_result","group_id":"g","id":"i","id":"j","text":"t"}', ""),
    (b'{"type":"view_update","group_id":"g","view_type":"v","content":{"a":NaN}}', ""),
    (spelled(type="tool_progress", group_id="g"), "/type"),
    (spelled(type=5, group_id="g"), "/type"),
    (spelled(type="tool_result", group_id="g", text="t"), "/id"),
    (spelled(type="tool_result", id="i", text="t"), "/group_id"),
    (result(), ""),
    (result(content=[]), ""),
    (result(text=5), "/text"),
    (result(text="t", call_id=7), "/call_id"),
    (result(text="t", subscription="yes"), "/subscription"),
    (result(content=[{"type": "video", "data": PIXEL}]), "/content/0/type"),
    (result(content=[{"type": "text", "text": "t"}, {"type": "image", "data": PIXEL}]), "/content/1/mediaType"),
    (result(content=[{"type": "image", **PICTURE, "data": "/9j/\n4AAQ"}]), "/content/0"),
    (result(content=[{"type": "image", **PICTURE, "data": "_9j_4AAQSkZJRg=="}]), "/content/0"),
    (result(content=[{"type": "image", **PICTURE, "data": "data:image/png;base64," + PIXEL}]), "/content/0"),
    (result(content=[{"type": "image", **PICTURE, "mediaType": "jpeg"}]), "/content/0"),
    (result(text="t", display_as=[{"type": "diff", "content": {"path": "p"}}]), "/display_as/0"),
    (result(text="t", display_as=[{"type": "text", "content": 5}]), "/display_as/0"),
    (result(text="t", display_as=[{"content": "t"}]), "/display_as/0/type"),
    (spelled(type="subscription_event", group_id="g", id="i", text="t"), "/tool_call_id"),
    (
        spelled(type="subscription_event", group_id="g", tool_call_id="i", text="t", associative=None),
        "/associative",
    ),
    (spelled(type="oauth", **HEAD), "/auth_url"),
    (spelled(type="user_choice", **HEAD, prompt="p", choices=[], default=0, response_url="u"), "/choices"),
    (spelled(type="user_choice", **HEAD, prompt="p", choices=["a"], response_url="u"), "/default"),
    *[
        (spelled(type="user_choice", **HEAD, prompt="p", choices=["a"], default=default, response_url="u"), pointer)
        for default, pointer in [(-1, "/default"), (True, "/default"), (0.5, "/default"), ("0", "/default"), (1, "")]
    ],
    (spelled(type="view_update", group_id="g", view_type="v", content=[]), "/content"),
    (spelled(type="view_update", group_id="g", view_type="v"), "/content"),
]


@pytest.mark.requirement("RAP-072", "RAP-241")
@pytest.mark.parametrize(("data", "pointer"), REFUSED)
def test_a_malformed_callback_is_rejected_with_a_pointer(data, pointer):
    with pytest.raises(RecordError) as refusal:
        read_callback(data)
    assert refusal.value.pointer == pointer


def test_an_unknown_segment_is_preserved():
    message = read_callback(
        result(text="t", display_as=[{"type": "chart", "rows": 3}, {"type": "text", "content": "s"}])
    )
    assert message.display_as == (Segment(type="chart"), display_text("s"))
    assert [segment.is_known for segment in message.display_as] == [False, True]


@pytest.mark.requirement("RAP-072", "RAP-241")
def test_a_tool_cannot_make_what_a_runtime_must_refuse():
    with pytest.raises(ValueError, match="'text' or a 'content'"):
        ToolResultMessage(group_id="g", id="i")
    with pytest.raises(ValueError, match="default must be below 1"):
        UserChoice(group_id="g", id="i", prompt="p", choices=("a",), default=1, response_url="u")


@pytest.mark.requirement("RAP-410")
@pytest.mark.parametrize("depth", [600, 100_000])
def test_a_message_nested_too_deeply_is_refused(depth):
    data = b'{"type":"view_update","group_id":"g","view_type":"v","content":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    with pytest.raises(RecordError, match="deeply"):
        read_callback(data)


def test_what_json_cannot_say_never_reaches_the_wire():
    assert b'"text":"lone ?"' in write(ToolResultMessage(group_id="g", id="i", text="lone \ud800")).replace(b": ", b":")
    with pytest.raises(RecordError, match="nan"):
        write(ViewUpdate(group_id="g", view_type="v", content={"a": float("nan")}))
