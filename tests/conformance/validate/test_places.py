import typing

import msgspec
import pytest

from agenttool.conformance.validate.places import Place, all_fit, places, plan_of
from agenttool.conformance.validate.sense.open_lists import ROWS
from agenttool.records import RECORD_TYPES, ContentClass, Timestamp, ToolInvocation, ToolResult, ToolSurface

NEVER = {Timestamp: set().__contains__, ContentClass: set().__contains__}


def test_a_place_is_found_wherever_the_types_put_it():
    members = {
        "created_at": "t",
        "content": [{"type": "a", "ref": {"expires_at": "u"}}, {"type": "b"}],
        "persistence_refs": ["x"],
    }
    assert list(places(members, plan_of(ToolResult, NEVER))) == [
        Place(ContentClass, ("content", 0, "type"), "a"),
        Place(Timestamp, ("content", 0, "ref", "expires_at"), "u"),
        Place(ContentClass, ("content", 1, "type"), "b"),
        Place(Timestamp, ("created_at",), "t"),
    ]


@pytest.mark.parametrize("value", [None, 7, [], {}, [7, None, [[]], {"type": 7}], {"type": []}])
def test_what_has_the_wrong_shape_is_passed_over(value):
    plan = plan_of(ToolResult, NEVER)
    members = {"created_at": value, "content": value}
    assert all_fit(members, plan)
    assert [place for place in places(members, plan) if not isinstance(place.text, str)] == []


def test_all_fit_only_if_every_place_does():
    plan = plan_of(ToolInvocation, {Timestamp: {"good"}.__contains__})
    assert all_fit({"created_at": "good", "status_transitions": [{"at": "good"}]}, plan)
    assert not all_fit({"created_at": "good", "status_transitions": [{"at": "good"}, {"at": "bad"}]}, plan)


def test_the_parts_of_a_surface_are_looked_into():
    plan = plan_of(ToolSurface, {Timestamp: bool})
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
