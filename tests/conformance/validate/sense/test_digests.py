import base64
import json

import pytest

from agenttool.codec import digest_of, digest_of_bytes, record_digest, to_json
from agenttool.records import Lifecycle, ToolDeclaration, ToolKind, replace

ZEROS = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "digest", ["sha256:example", "md5:abc", "", "0" * 64, "sha256:" + "G" * 64, "SHA256:" + "0" * 64]
)
def test_a_digest_is_well_formed_wherever_the_types_put_one(check, record, digest):
    assert check(record("tool_result", resource_refs=[{"digest": digest}])) == [
        ("error", "/resource_refs/0/digest", "AT-REF-03")
    ]
    assert check(record("tool_permission_decision", input_digest=digest)) == [("error", "/input_digest", "AT-REF-03")]
    assert check(record("tool_event", digest=digest)) == [("error", "/digest", "AT-REF-03")]


def test_a_digest_of_something_elsewhere_is_taken_on_trust(check, record):
    assert check(record("tool_result", resource_refs=[{"digest": ZEROS}])) == []
    assert check(record("tool_result", content=[{"type": "resource_link", "text": "preview", "digest": ZEROS}])) == []


def test_a_member_of_that_name_in_the_arguments_of_a_tool_is_not_ours(check, record):
    assert check(record("tool_invocation", model_input={"digest": "latest", "content": [{"digest": "x"}]})) == []


def test_the_digest_of_a_record_is_that_of_its_canonical_json(check):
    declared = ToolDeclaration(
        tool_id="t", namespace="n", name="a", description="d", lifecycle=Lifecycle.DRAFT, tool_kind=ToolKind.CUSTOM
    )
    signed = to_json(replace(declared, digest=record_digest(declared)))
    assert check(signed) == []
    assert check({**signed, "description": "another"}) == [("error", "/digest", "AT-REF-03")]
    assert check(dict(reversed(signed.items()))) == []


@pytest.mark.parametrize(
    "item",
    [
        {"type": "text", "text": "tëxt", "digest": digest_of_bytes("tëxt".encode())},
        {"type": "image", "data": base64.b64encode(b"\x00\x01").decode(), "digest": digest_of_bytes(b"\x00\x01")},
        {"type": "structured_content", "data": {"b": 1, "a": [1.5]}, "digest": digest_of({"a": [1.5], "b": 1})},
    ],
)
def test_the_digest_of_embedded_content_is_that_of_its_bytes_or_its_canonical_json(check, record, item):
    assert check(record("tool_result", content=[item])) == []
    assert check(record("tool_result", content=[{**item, "digest": ZEROS}])) == [
        ("error", "/content/0/digest", "AT-REF-03")
    ]


def test_a_digest_of_what_could_not_be_read_exactly_is_not_judged(validated, record):
    text = json.dumps(record("tool_event", digest=ZEROS, x=0)).replace('"x": 0', '"x": 1, "x": 2')
    (finding,) = validated(text.encode())
    assert finding.pointer == "/x"


@pytest.mark.parametrize("content", [7, [7], [{}], [{"digest": 7}], [{"digest": ZEROS, "type": []}]])
def test_content_of_any_shape_is_looked_at(check, record, content):
    assert all(row != "AT-REF-03" for _, _, row in check(record("tool_result", content=content)))
