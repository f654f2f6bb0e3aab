"""What a provider is sent: a tool that it would refuse is left out with its reason, and costs none of the others."""

import re

import pytest

from agenttool.adapters.function_calling.dialect import ANTHROPIC, OPENAI
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.adapters.function_calling.menu import Limits, Wishes, make_menu
from agenttool.ports.offer import OfferedTool
from agenttool.records import AbsenceReason

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}


def offered(name, schema=CLOSED, **more):
    words = {"tool_id": f"tool_{name}", "namespace": "test", "description": f"Do {name}.", **more}
    return OfferedTool(name=name, input_schema=schema, **words)


def test_one_bad_tool_never_costs_the_others():
    bad = offered("bad", {"type": "object", "properties": {"what is it?": {"type": "string"}}})
    menu = make_menu([offered("one"), bad, offered("two")], FORMATS["anthropic"].LIMITS, Wishes())
    assert list(menu.shown) == ["one", "two"]
    (absent,) = menu.left_out
    assert (absent.name, absent.reason, absent.may_change) == ("test.bad", AbsenceReason.MODEL_UNSUPPORTED, True)
    assert absent.message == "the provider takes no argument named 'what is it?'"


def test_more_tools_than_a_request_takes_are_left_out():
    menu = make_menu([offered(f"t{number}") for number in range(4)], Limits(max_tools=3), Wishes())
    assert list(menu.shown) == ["t0", "t1", "t2"]
    assert [(each.name, each.message) for each in menu.left_out] == [("test.t3", "a request takes at most 3 tools")]


def test_the_search_that_finds_the_rest_is_sent_however_many_tools_come_before_it():
    tools = [*(offered(f"t{number}") for number in range(4)), offered("tool_search", namespace="agenttool")]
    menu = make_menu([*tools, offered("late", is_deferred=True)], Limits(max_tools=3), Wishes())
    assert list(menu.shown) == ["t0", "t1", "tool_search"]
    assert [each.name for each in menu.left_out] == ["test.t2", "test.t3"]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "object", "properties": {"what is it?": {"type": "string"}}}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"what is it?": {"type": "string"}}}}},
    ],
)
def test_an_argument_that_a_provider_refuses_is_found_wherever_a_root_speaks_of_it(schema):
    menu = make_menu([offered("one"), offered("bad", schema)], FORMATS["anthropic"].LIMITS, Wishes())
    assert list(menu.shown) == ["one"]
    assert menu.left_out[0].message == "the provider takes no argument named 'what is it?'"


def test_the_providers_search_is_used_only_if_all_that_waits_fits_and_then_ours_is_not():
    ours = offered("tool_search", namespace="agenttool")
    tools = [offered("t"), ours, *(offered(f"late{number}", is_deferred=True) for number in range(2))]
    for limits in (Limits(max_tools=3, has_search=True), Limits(has_search=True, max_deferred=1), Limits()):
        menu = make_menu(tools, limits, Wishes())
        assert (list(menu.shown), menu.left_out) == (["t", "tool_search"], ())
    menu = make_menu(tools, Limits(max_tools=4, has_search=True, max_deferred=2), Wishes())
    assert list(menu.shown) == ["t", "late0", "late1"]


def test_a_schema_that_cannot_be_strict_is_sent_as_it_is_and_says_so():
    menu = make_menu(
        [offered("strict"), offered("loose", OPEN), offered("no", strict=False)], Limits(dialect=OPENAI), Wishes()
    )
    assert [each.is_strict for each in menu.shown.values()] == [True, False, False]
    assert menu.shown["loose"].note == "not strict: / takes members that it does not name"
    assert menu.shown["no"].note == "not strict: its author does not want it"
    assert menu.shown["loose"].schema == OPEN


def test_strictness_is_given_out_as_far_as_it_lasts():
    optional = {**CLOSED, "required": []}
    limits = Limits(dialect=ANTHROPIC, max_strict_tools=3, max_optionals=1)
    menu = make_menu([offered(name, optional) for name in "ab"] + [offered(name) for name in "cde"], limits, Wishes())
    assert [each.is_strict for each in menu.shown.values()] == [True, False, True, True, False]
    assert menu.shown["e"].note == "not strict: a request takes only so many strict schemas"


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_names_of_a_menu_are_the_same_for_every_provider(format_name):
    tools = [offered("files.read/it"), offered("x" * 100), offered("tool_search"), offered("9lives", is_deferred=True)]
    menu = make_menu(tools, FORMATS[format_name].LIMITS, Wishes())
    assert [name for name in menu.shown if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name)] == []
    assert next(iter(menu.shown)) == "files_read_it"


def test_a_name_that_is_the_providers_own_is_given_to_no_tool():
    menu = make_menu([offered("tool_search_tool_bm25")], FORMATS["anthropic"].LIMITS, Wishes())
    (name,) = menu.shown
    assert re.fullmatch(r"tool_search_tool_bm25_[0-9a-f]{8}", name)


def test_a_description_that_is_too_long_is_cut_and_says_so_and_what_the_schema_needs_said_stays():
    union = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    tools = [offered("long", description="x" * 2000), offered("both", union, description="y" * 2000), offered("short")]
    menu = make_menu(tools, FORMATS["openai"].LIMITS, Wishes())
    long, both, short = menu.shown.values()
    assert (len(long.description), long.is_strict) == (1024, True)
    assert long.note == "its description is cut, as the provider takes no longer one"
    assert len(both.description) == 1024
    assert both.description.endswith('{"anyOf":[{"required":["a"]},{"required":["b"]}]}')
    assert both.note.startswith("not strict: ")
    assert both.note.endswith("; its description is cut, as the provider takes no longer one")
    assert short.note is None
