"""Enum words, times and digests are checked wherever they stand."""

import base64
import json
import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from requirement_marks import find_requirement

from agenttool import records
from agenttool.codec import digest_of, digest_of_bytes, record_digest, to_json
from agenttool.conformance.validate.value_checks import (
    ROWS,
    flaw_of_time,
    is_before,
    plan_of,
    value_places,
)
from agenttool.records import (
    RECORD_TYPES,
    ContentClass,
    Lifecycle,
    OpenEnum,
    Timestamp,
    ToolDeclaration,
    ToolKind,
    ToolResult,
    ToolSurface,
    replace,
)

MEANINGS = {Timestamp, ContentClass}


def test_a_place_is_found_wherever_the_types_put_it():
    members = {
        "created_at": "t",
        "content": [{"type": "a", "ref": {"expires_at": "u"}}, {"type": "b"}],
        "persistence_refs": ["x"],
    }
    assert list(value_places(members, plan_of(ToolResult, MEANINGS))) == [
        (ContentClass, ("content", 0, "type"), "a"),
        (Timestamp, ("content", 0, "ref", "expires_at"), "u"),
        (ContentClass, ("content", 1, "type"), "b"),
        (Timestamp, ("created_at",), "t"),
    ]


@pytest.mark.parametrize("value", [None, 7, [], {}, [7, None, [[]], {"type": 7}], {"type": []}])
def test_what_has_the_wrong_shape_is_passed_over(value):
    plan = plan_of(ToolResult, MEANINGS)
    members = {"created_at": value, "content": value}
    assert [place for place in value_places(members, plan) if not isinstance(place[2], str)] == []


def test_the_parts_of_a_surface_are_looked_into():
    plan = plan_of(ToolSurface, {Timestamp})
    assert [slot.name for slot in plan] == ["created_at"]


def test_no_open_list_of_the_records_is_out_of_reach():
    reachable = set()
    for kind in RECORD_TYPES.values():
        reachable |= meanings(plan_of(kind, dict.fromkeys(ROWS, bool)))
    assert reachable == set(ROWS)


def meanings(plan):
    return {slot.meaning for slot in plan if slot.meaning} | {each for slot in plan for each in meanings(slot.inner)}


def test_no_member_has_two_meanings():
    wanted = {*ROWS, Timestamp}
    for kind in RECORD_TYPES.values():
        for field in msgspec.structs.fields(kind):
            assert len([each for each in typing.get_args(field.type) if each in wanted]) <= 1


OPEN_LISTS = {each for each in vars(records).values() if isinstance(each, type) and issubclass(each, OpenEnum)} - {
    OpenEnum
}

PLACES = [
    ("tool_declaration", {"tool_kind": "X"}, "/tool_kind", "AT-DECL-18"),
    ("tool_declaration", {"input_contract": {"argument_mode": "X"}}, "/input_contract/argument_mode", "AT-IO-08"),
    (
        "tool_declaration",
        {"output_contract": {"content_types": ["X"]}},
        "/output_contract/content_types/0",
        "AT-RES-03",
    ),
    ("tool_execution_profile", {"execution_kind": "X"}, "/execution_kind", "AT-EXEC-02"),
    ("tool_permission_profile", {"access_kinds": ["network", "X"]}, "/access_kinds/1", "AT-PERM-03"),
    ("tool_permission_profile", {"write_effects": ["X"]}, "/write_effects/0", "AT-PERM-04"),
    ("tool_surface", {"scope": "X"}, "/scope", "AT-SURF-03"),
    ("tool_surface", {"blocked_tools": [{"reason": "X"}]}, "/blocked_tools/0/reason", "AT-SURF-11"),
    ("tool_surface", {"excluded_tools": [{"reason": "X"}]}, "/excluded_tools/0/reason", "AT-SURF-11"),
    ("tool_search_result", {"query_type": "X"}, "/query_type", "AT-DEFER-12"),
    ("tool_search_result", {"next_action": "X"}, "/next_action", "AT-DEFER-12"),
    ("tool_invocation", {"status": "X"}, "/status", "AT-INV-07"),
    ("tool_invocation", {"scheduler": {"state": "X"}}, "/scheduler/state", "AT-SCHED-11"),
    ("tool_hook", {"outputs": [{"type": "X"}]}, "/outputs/0/type", "G-25"),
    ("tool_permission_decision", {"reason": {"type": "X"}}, "/reason/type", "AT-PERM-19"),
    ("tool_permission_decision", {"reason": {"rule_source": "X"}}, "/reason/rule_source", "AT-PERM-20"),
    ("tool_permission_decision", {"content_blocks": [{"type": "X"}]}, "/content_blocks/0/type", "AT-RES-03"),
    ("tool_progress", {"status": "X"}, "/status", "AT-PROG-05"),
    ("tool_result", {"content": [{"type": "X"}]}, "/content/0/type", "AT-RES-03"),
    ("tool_result", {"abort_reason": "X"}, "/abort_reason", "AT-PROG-09"),
    ("tool_result", {"redaction_state": "X"}, "/redaction_state", "G-55"),
    ("tool_event", {"event_type": "X"}, "/event_type", "AT-EVT-02"),
]


@pytest.mark.parametrize(("kind", "members", "pointer", "row"), PLACES)
def test_an_unlisted_word_is_a_warning_wherever_it_stands(check, record, kind, members, pointer, row):
    assert check(record(kind, **members)) == [("warning", pointer, row)]


def test_an_unlisted_error_class_is_a_warning_and_so_is_an_unlisted_status(check, record):
    error = {"error_class": "oops", "error_code": "c", "message": "m", "recoverability": "retryable"}
    assert check(record("tool_result", status="failed", is_error=True, error=error)) == [
        ("warning", "/error/error_class", "AT-ERR-02")
    ]
    assert check(record("tool_result", status="maybe", is_error=True, error=error)) == [
        ("warning", "/status", "AT-RES-04"),
        ("warning", "/error/error_class", "AT-ERR-02"),
    ]


def test_the_nearest_word_is_offered(validated, record):
    (finding,) = validated([record("tool_declaration", tool_kind="shell_comand")])
    assert finding.advice == "write 'shell_command', if that is meant"
    assert "'shell_comand'" in finding.message


def test_a_word_that_may_be_a_secret_is_not_repeated(validated, record):
    for secret in ("hunter2", "correct horse", "s" * 50):
        (finding,) = validated([record("tool_declaration", tool_kind=secret)])
        assert secret not in repr(finding)


def test_every_open_list_has_a_row_of_the_ledger_or_an_entry_of_the_gaps():
    assert set(ROWS) == OPEN_LISTS
    assert all(row.startswith("G-") or find_requirement(row) for row in ROWS.values())


@pytest.mark.parametrize("kind", ToolKind)
def test_a_listed_word_is_well(check, record, kind):
    assert check(record("tool_declaration", tool_kind=kind)) == []


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
    assert finding.message.startswith("the name is used twice")


@pytest.mark.parametrize("content", [7, [7], [{}], [{"digest": 7}], [{"digest": ZEROS, "type": []}]])
def test_content_of_any_shape_is_looked_at(check, record, content):
    assert all(row != "AT-REF-03" for _, _, row in check(record("tool_result", content=content)))


GOOD = [
    "2026-05-08T00:00:00Z",
    "2026-05-08T23:59:59.123456789Z",
    "2026-05-08t00:00:00z",
    "2026-05-08T00:00:00+00:00",
    "2024-02-29T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "0000-01-01T00:00:00Z",
]
BAD = [
    "",
    "now",
    "2026-05-08",
    "2026-05-08 00:00:00Z",
    "2026-05-08T00:00:00",
    "2026-05-08T00:00Z",
    "2026-05-08T24:00:00Z",
    "2026-05-08T00:60:00Z",
    "2026-13-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-05-08T00:00:00.Z",
    "2026-05-08T02:00:00+02:00",
    "2026-05-08T00:00:00-00:00",
    "20260508T000000Z",
    "1778198400",
    "\uff12026-05-08T00:00:00Z",
    "2026-05-08T00:00:00Z\n",
]


@pytest.mark.parametrize("time", GOOD)
def test_a_moment_in_utc_is_a_time(time):
    assert flaw_of_time(time, "") is None


@pytest.mark.parametrize("time", BAD)
def test_anything_else_is_none(check, record, time):
    assert check(record("tool_result", created_at=time)) == [("error", "/created_at", "G-03")]


@given(st.datetimes())
def test_every_moment_there_is_has_a_plain_spelling(moment):
    text = moment.isoformat() + "Z"
    assert flaw_of_time(text, "") is None


def test_times_are_asked_for_wherever_the_types_put_one(check, record):
    assert check(record("tool_invocation", cancellation={"cancel_requested": "soon"})) == [
        ("error", "/cancellation/cancel_requested", "G-03")
    ]
    assert check(record("tool_permission_decision", expires_at="never")) == [("error", "/expires_at", "G-03")]


@pytest.mark.parametrize("kind", ["tool_invocation", "tool_hook"])
def test_nothing_ends_before_it_started(check, record, kind):
    early, late = "2026-05-08T00:00:00.5Z", "2026-05-08T00:00:00.50001+00:00"
    status = {"status": "failed"} if kind == "tool_invocation" else {}
    assert check(record(kind, started_at=early, ended_at=late, **status)) == []
    assert check(record(kind, started_at=late, ended_at=early, **status)) == [("error", "/ended_at", "AT-INV-09")]


def test_no_call_ends_before_there_is_a_record_of_it(check, record):
    late, early = "2026-05-08T00:00:01Z", "2026-05-08T00:00:00Z"
    ended = record("tool_invocation", status="failed", created_at=late, ended_at=early)
    assert check(ended) == [("error", "/ended_at", "AT-INV-09")]
    assert check(ended | {"ended_at": late}) == []


def test_moments_are_compared_by_when_they_are_and_not_by_how_they_are_written():
    assert is_before("2026-05-08T00:00:00Z", "2026-05-08T00:00:00.1Z")
    assert not is_before("2026-05-08T00:00:00.0Z", "2026-05-08T00:00:00+00:00")
    assert not is_before("2026-05-08T00:00:00.10Z", "2026-05-08t00:00:00.1z")
    assert not is_before("garbage", "2026-05-08T00:00:00Z")
    assert not is_before(None, 7)
