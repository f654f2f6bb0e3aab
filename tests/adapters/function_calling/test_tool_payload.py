"""The tools of a request: rejected tools are left out with a reason, and a tool choice names one that is sent."""

import re
from dataclasses import replace as changed

import pytest

from agenttool import ConfigError, Runtime
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.adapters.function_calling.strict_schema import ANTHROPIC, OPENAI, StrictBudget
from agenttool.adapters.function_calling.tool_payload import ProviderLimits, ToolRequestOptions, build_payload
from agenttool.ports.offer import OfferedTool
from agenttool.records import AbsenceReason, replace
from agenttool.testing.fakes import scripted_tool
from agenttool.testing.replies import ModelCall, reply

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}


def offered(name, schema=CLOSED, **more):
    words = {"tool_id": f"tool_{name}", "namespace": "test", "description": f"Do {name}.", **more}
    return OfferedTool(name=name, input_schema=schema, **words)


def test_a_rejected_tool_leaves_the_others_in_the_request():
    bad = offered("bad", {"type": "object", "properties": {"what is it?": {"type": "string"}}})
    payload = build_payload([offered("one"), bad, offered("two")], FORMATS["anthropic"].limits, ToolRequestOptions())
    assert list(payload.tools) == ["one", "two"]
    (absent,) = payload.left_out
    assert (absent.name, absent.reason, absent.may_change) == ("test.bad", AbsenceReason.MODEL_UNSUPPORTED, True)
    assert absent.message == "the provider takes no argument named 'what is it?'"


def test_more_tools_than_a_request_takes_are_left_out():
    payload = build_payload(
        [offered(f"t{number}") for number in range(4)], ProviderLimits(max_tools=3), ToolRequestOptions()
    )
    assert list(payload.tools) == ["t0", "t1", "t2"]
    assert [(each.name, each.message) for each in payload.left_out] == [("test.t3", "a request takes at most 3 tools")]


def test_the_search_tool_is_sent_even_if_other_tools_exceed_the_limit():
    tools = [*(offered(f"t{number}") for number in range(4)), offered("tool_search", namespace="agenttool")]
    payload = build_payload(
        [*tools, offered("late", is_deferred=True)], ProviderLimits(max_tools=3), ToolRequestOptions()
    )
    assert list(payload.tools) == ["t0", "t1", "tool_search"]
    assert [each.name for each in payload.left_out] == ["test.t2", "test.t3"]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "object", "properties": {"what is it?": {"type": "string"}}}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"what is it?": {"type": "string"}}}}},
    ],
)
def test_a_rejected_argument_name_is_found_in_branches_and_references(schema):
    payload = build_payload([offered("one"), offered("bad", schema)], FORMATS["anthropic"].limits, ToolRequestOptions())
    assert list(payload.tools) == ["one"]
    assert payload.left_out[0].message == "the provider takes no argument named 'what is it?'"


def test_native_search_replaces_ours_only_if_it_takes_all_deferred_tools():
    ours = offered("tool_search", namespace="agenttool")
    tools = [offered("t"), ours, *(offered(f"late{number}", is_deferred=True) for number in range(2))]
    for limits in (
        ProviderLimits(max_tools=3, search_name="find"),
        ProviderLimits(search_name="find", max_deferred=1),
        ProviderLimits(),
    ):
        payload = build_payload(tools, limits, ToolRequestOptions(native_search=True))
        assert (list(payload.tools), payload.left_out) == (["t", "tool_search"], ())
    payload = build_payload(
        tools, ProviderLimits(max_tools=4, search_name="find", max_deferred=2), ToolRequestOptions(native_search=True)
    )
    assert list(payload.tools) == ["t", "late0", "late1"]


def test_a_schema_without_a_strict_form_is_sent_with_a_note():
    payload = build_payload(
        [offered("strict"), offered("loose", OPEN), offered("no", strict=False)],
        ProviderLimits(dialect=OPENAI),
        ToolRequestOptions(),
    )
    assert [each.is_strict for each in payload.tools.values()] == [True, False, False]
    assert payload.tools["loose"].note == "not strict: / accepts members that it does not name"
    assert payload.tools["no"].note == "not strict: its author switched strict mode off"
    assert payload.tools["loose"].schema == OPEN


def test_tools_are_strict_until_a_limit_is_reached():
    optional = {**CLOSED, "required": []}
    limits = ProviderLimits(dialect=ANTHROPIC, strict_budget=StrictBudget(tools=3, optionals=1))
    payload = build_payload(
        [offered(name, optional) for name in "ab"] + [offered(name) for name in "cde"], limits, ToolRequestOptions()
    )
    assert [each.is_strict for each in payload.tools.values()] == [True, False, True, True, False]
    assert payload.tools["e"].note == "not strict: the provider's limit of strict schemas is reached"


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_names_of_a_menu_are_the_same_for_every_provider(format_name):
    tools = [offered("files.read/it"), offered("x" * 100), offered("tool_search"), offered("9lives", is_deferred=True)]
    payload = build_payload(tools, FORMATS[format_name].limits, ToolRequestOptions())
    assert [name for name in payload.tools if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name)] == []
    assert next(iter(payload.tools)) == "files_read_it"


def test_a_reserved_name_is_assigned_to_no_tool():
    payload = build_payload([offered("tool_search_tool_bm25")], FORMATS["anthropic"].limits, ToolRequestOptions())
    (name,) = payload.tools
    assert re.fullmatch(r"tool_search_tool_bm25_[0-9a-f]{8}", name)


def test_a_long_description_is_cut_with_a_note_and_keeps_the_remark_about_the_schema():
    union = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    tools = [offered("long", description="x" * 2000), offered("both", union, description="y" * 2000), offered("short")]
    payload = build_payload(tools, FORMATS["openai"].limits, ToolRequestOptions())
    long, both, short = payload.tools.values()
    assert (len(long.description), long.is_strict) == (1024, True)
    assert long.note == "its description is cut to the provider's limit"
    assert len(both.description) == 1024
    assert both.description.endswith('{"anyOf":[{"required":["a"]},{"required":["b"]}]}')
    assert both.note.startswith("not strict: ")
    assert both.note.endswith("; its description is cut to the provider's limit")
    assert short.note is None


TOOLS = [
    scripted_tool("search", namespace="github"),
    scripted_tool("search", namespace="jira"),
    scripted_tool("weigh", should_defer=True),
]


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("native_search", [True, False])
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("search", r"matches 2 tools; use one of 'github.search', 'jira.search'"),
        ("missing", "'missing' is not sent; name a tool of the surface, or use auto, none or required"),
        ("weigh", "is not loaded; load it first, with `tools.load`"),
        ("test.weigh", "is not loaded; load it first, with `tools.load`"),
    ],
)
async def test_a_choice_that_matches_no_tool_or_several_is_rejected(provider, native_search, choice, message):
    async with Runtime.open(tools=TOOLS) as rt:
        model = await rt.tools_for(provider, tool_choice=choice, native_search=native_search)
        with pytest.raises(ConfigError, match=message):
            model.request()


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("choice", ["github__search", "github.search", "tool_github.search"])
async def test_a_tool_is_chosen_by_any_of_its_names(provider, choice):
    async with Runtime.open(tools=TOOLS) as rt:
        request = (await rt.tools_for(provider, tool_choice=choice)).request()
    assert "github__search" in str(request.get("tool_choice", request.get("tool_config")))


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_tool_is_chosen_by_its_name_though_another_has_that_as_its_id(provider):
    rogue, own = scripted_tool("rogue"), "github.search"
    rogue = changed(
        rogue,
        declaration=replace(rogue.declaration, tool_id=own),
        interface=replace(rogue.interface, tool_id=own),
    )
    async with Runtime.open(tools=[*TOOLS, rogue]) as rt:
        request = (await rt.tools_for(provider, tool_choice="github.search")).request()
    assert "github__search" in str(request.get("tool_choice", request.get("tool_config")))


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_tool_that_was_loaded_can_be_chosen(provider):
    async with Runtime.open(tools=TOOLS) as rt:
        model = await rt.tools_for(provider, tool_choice="weigh")
        await model.load(["weigh"])
        assert "weigh" in str(model.request())


async def test_choosing_a_tool_that_the_provider_rejects_reports_the_reason():
    strange = scripted_tool("strange", schema={"type": "object", "properties": {"what is it?": {"type": "string"}}})
    async with Runtime.open(tools=[*TOOLS, strange]) as rt:
        model = await rt.tools_for("anthropic", tool_choice="test.strange")
        with pytest.raises(ConfigError, match="takes no argument named 'what is it\\?'; rename the argument"):
            model.request()


@pytest.mark.parametrize("provider", FORMATS)
async def test_a_call_gets_a_result_after_the_chosen_tool_became_unavailable(provider):
    keyed = scripted_tool("keyed", namespace="bank")
    async with Runtime.open(tools=[keyed]) as rt:
        model = await rt.tools_for(provider, tool_choice="keyed")
        model.request()
        await rt.surfaces.change(providers={"bank": "unavailable"})
        model.surface = rt.surfaces.current(model.surface)
        turn = await model.answer(reply(provider, ModelCall(name="keyed", arguments={}, call_id="call_1")))
    assert [each.error.error_class for each in turn.results] == ["blocked_tool"]
    assert len(turn.result_messages) == 1
