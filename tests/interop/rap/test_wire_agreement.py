"""Every message, mended and broken in every member: our reading of the wire against the one written in Node."""

import base64
import json

import pytest

from agenttool.adapters.rap.wire import Invocation, read, read_callback, read_manifest
from agenttool.errors import RecordError

IMAGE = {"data": "iVBORw0KGgo=", "mediaType": "image/png"}
ABOUT = {"group_id": "g", "id": "i", "call_id": "c"}
MESSAGES = {
    "result": {
        "type": "tool_result",
        **ABOUT,
        "text": "t",
        "content": [{"type": "text", "text": "t"}, {"type": "image", **IMAGE}],
        "display_as": [
            {"type": "image", "content": IMAGE},
            {"type": "diff", "content": {"path": "p", "patch": "d"}},
            {"type": "text", "content": "t"},
        ],
        "subscription": True,
    },
    "text": {"type": "tool_result", **ABOUT, "text": "t"},
    "content": {"type": "tool_result", **ABOUT, "content": [{"type": "text", "text": "t"}]},
    "event": {
        "type": "subscription_event",
        "group_id": "g",
        "tool_call_id": "i",
        "text": "t",
        "associative": True,
        "final": True,
    },
    "oauth": {"type": "oauth", **ABOUT, "auth_url": "https://login.example.test/?state=1"},
    "choice": {
        "type": "user_choice",
        **ABOUT,
        "prompt": "p",
        "choices": ["a", "b"],
        "default": 1,
        "response_url": "http://127.0.0.1:1/x",
    },
    "view": {"type": "view_update", "group_id": "g", "view_type": "diff", "content": {"patch": "d"}},
    "invocation": {
        "operation": "o",
        "arguments": {"a": 1},
        **ABOUT,
        "callback_url": "http://127.0.0.1:1/x?y=z",
        "thread_ancestors": ["r"],
        "user_id": "u",
    },
    "manifest": {
        "name": "n",
        "description": "d",
        "endpoint": "http://127.0.0.1:1/run",
        "needsMigration": False,
        "tools": [
            {
                "name": "t",
                "description": "d",
                "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                "annotations": {"readOnly": True, "x-acme": 1},
            }
        ],
    },
}
READERS = {
    "callback": read_callback,
    "manifest": read_manifest,
    "invocation": lambda body: read(body, Invocation),
}
ABSENT = object()
REPLACEMENTS = [ABSENT, None, True, 0, -1, 2, 1.5, "", "x", "a b", "é", [], [None], ["x"], {}, {"type": "sound"}, [{}]]
BODIES = [b"", b"{", b"[]", b"null", b'"x"', b"7", b"\xef\xbb\xbf{}", b'{"a": "\xff"}', b"{}"]

# Places where the ledger leaves the verdict open and the two readings differ; each stands with the reason.
OPEN = {
    # Whether an address may be used is judged later in ours, with the network at hand.
    ("oauth", "auth_url"),
    ("choice", "response_url"),
    ("invocation", "callback_url"),
    # The ledger asks for a string; ours wants one that is not empty, theirs takes any.
    ("invocation", "operation"),
    ("invocation", "id"),
    ("invocation", "group_id"),
    # Annotations that are no object: ours gives them no weight, as it does with one hint of another type; theirs
    # refuses the manifest.
    ("manifest", "tools/0/annotations"),
}


def kind_of(name):
    return name if name in READERS else "callback"


def places(value, path=()):
    """Every member and item below, by path."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*path, step)
        yield from places(inner, (*path, step))


def changed(value, path, replacement):
    """A copy with one place changed or taken away."""
    copy = json.loads(json.dumps(value))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    if replacement is ABSENT:
        del holder[path[-1]]
    else:
        holder[path[-1]] = replacement
    return copy


def cases():
    for name, message in MESSAGES.items():
        yield (name, "as it is", ""), json.dumps(message).encode()
        yield (name, "with a stranger", ""), json.dumps(message | {"x-new": {"y": [1]}}).encode()
        for path in places(message):
            for replacement in REPLACEMENTS:
                label = "absent" if replacement is ABSENT else replacement
                place = "/".join(map(str, path))
                yield (name, place, label), json.dumps(changed(message, path, replacement)).encode()
        for body in BODIES:
            yield (name, "body", body), body


def is_taken(kind, body):
    try:
        READERS[kind](body)
    except RecordError:
        return False
    return True


@pytest.mark.requirement("RAP-090", "RAP-154", "RAP-155", "RAP-343")
def test_both_readings_take_and_refuse_the_same_messages(launch, node, node_programs):
    other = launch(node, node_programs / "verdict.mjs")
    asked = list(cases())
    for (name, *_), body in asked:
        other.say(kind=kind_of(name), body=base64.b64encode(body).decode())
    other.wait_for(event="verdict", count=len(asked))
    verdicts = other.reported(event="verdict")
    differ = [
        f"{label}: ours {'takes' if ours else 'refuses'} it; theirs says {verdict['fault']}"
        for (label, body), verdict in zip(asked, verdicts, strict=True)
        if label[:2] not in OPEN and (ours := is_taken(kind_of(label[0]), body)) != (verdict["fault"] is None)
    ]
    assert not differ, "\n".join(differ)
