"""Interfaces and contracts: what is left unsaid, what is shown to whom, and what comes out."""

from typing import Annotated

import pytest

from agenttool import ConfigError, Internal, ModelCapabilities, Runtime, tool
from agenttool.ports.output import NativeOutput
from agenttool.records import (
    InputContract,
    OutputContract,
    Ref,
    Rendering,
    ToolKind,
)
from agenttool.testing.fakes import scripted_tool


@tool(title="Add up", aliases=["sum"], read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int = 1) -> int:
    """Add two whole numbers. Not for text."""
    return a + b


@tool
async def post(text: str, tenant: Annotated[str, Internal] = "acme") -> str:
    """Post a note. Not for letters."""
    return f"{text} for {tenant}"


@tool
async def weigh(text: str, tenant: Annotated[str, Internal] = "acme") -> dict[str, int]:
    """Weigh a note. Not for letters."""
    return {text: len(tenant)}


@pytest.mark.requirement("AT-IFACE-05", "AT-IO-02")
async def test_the_models_schema_and_the_runtimes_differ_by_exactly_the_internal_field(records):
    async with Runtime.open(tools=[weigh]) as rt:
        (declaration,) = await records(rt, "tool_declaration")
    contract = declaration["input_contract"]
    model, runtime = contract["model_input_schema"], contract["runtime_input_schema"]
    assert runtime["properties"].keys() - model["properties"].keys() == {"tenant"}
    assert {**runtime["properties"], "tenant": None} == {**model["properties"], "tenant": None}
    assert contract["internal_only_fields"] == ["tenant"]
    assert contract["strict"] is True
    output = declaration["output_contract"]["structured_schema"]
    assert (output["type"], output["additionalProperties"]) == ("object", {"type": "integer"})


@pytest.mark.requirement("AT-IFACE-03")
async def test_a_tool_that_defers_waits_and_one_that_is_always_loaded_does_not(records):
    many_tools = [scripted_tool(f"chore_{n}", should_defer=True) for n in range(100)]
    discovery = {
        "search_hint": "do it now",
        "description": "Do it now.",
        "capability_refs": ("capability:haste",),
        "schema_visibility": "deferred",
        "should_defer": True,
        "always_load": True,
    }
    async with Runtime.open(tools=[*many_tools, scripted_tool("eager", **discovery)]) as rt:
        surface = await rt.surface()
        interfaces = {each["tool_id"]: each for each in await records(rt, "tool_interface")}
    assert surface.loaded_tools == ("tool_test.eager", "tool_agenttool.tool_search")
    assert len(surface.deferred_tools) == 100
    carried = {name: interfaces["tool_test.eager"][name] for name in discovery}
    assert carried == {**discovery, "capability_refs": ["capability:haste"]}


@pytest.mark.requirement("AT-IFACE-04")
async def test_an_internal_tool_is_on_no_models_list():
    async with Runtime.open(tools=[scripted_tool("hidden", schema_visibility="internal")]) as rt:
        surface = await rt.surface()
    assert surface.loaded_tools == ()


@pytest.mark.requirement("AT-IFACE-06")
@pytest.mark.parametrize(
    ("fact", "value", "reason"),
    [
        ("is_enabled", False, "feature_disabled"),
        ("feature_gate_refs", ["gate:beta"], "feature_disabled"),
        ("requires_setup", True, "setup_required"),
        ("required_credentials", ["vault:github"], "credential_missing"),
        ("model_requirements", ["media:image"], "model_unsupported"),
    ],
)
async def test_a_surface_says_what_a_tool_lacks_and_its_interface_what_it_needs(records, fact, value, reason):
    async with Runtime.open(tools=[scripted_tool("probe", **{fact: value})]) as rt:
        surface = await rt.surface(model=ModelCapabilities())
        (interface,) = await records(rt, "tool_interface")
    assert [absent.reason for absent in (*surface.blocked_tools, *surface.excluded_tools)] == [reason]
    assert interface[fact] == value


@pytest.mark.requirement("AT-IFACE-02")
async def test_an_interface_carries_the_identity_of_its_tool(records):
    async with Runtime.open(tools=[add]) as rt:
        (declaration,), (interface,) = await records(rt, "tool_declaration"), await records(rt, "tool_interface")
    for member in ("tool_id", "name", "aliases", "namespace"):
        assert interface[member] == declaration[member]
    assert interface["user_facing_name"] == declaration["title"]


@pytest.mark.requirement("AT-IFACE-14")
async def test_the_limit_of_a_tool_is_in_its_interface_and_moves_only_its_own_results(allow, call, records):
    async def say(job):
        return "x" * 50

    members = {
        "result_mapper": "mapper:text",
        "max_inline_chars": 10,
        "persistence_policy_ref": "ref_only",
        "empty_result_policy": "fail",
        "redaction_policy_refs": ("policy:names",),
    }
    tools = [scripted_tool("short", say, **members), scripted_tool("long", say)]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        short, long = await call(rt, "short", {}), await call(rt, "long", {})
        interface, *_ = await records(rt, "tool_interface")
    assert [item.type for item in short.content] == ["persisted_output_ref"]
    assert [item.text for item in long.content] == ["x" * 50]
    assert {name: interface[name] for name in members} == {**members, "redaction_policy_refs": ["policy:names"]}


@pytest.mark.requirement("AT-IFACE-11")
async def test_the_matcher_of_an_interface_decides_which_rules_apply_and_its_profile_is_found_by_ref(
    call, records, call_records
):
    body = {"type": "object", "properties": {"body": {"type": "string"}}}
    matchers = {"shell": "shell_pattern", "path": "path_pattern", "none": None}
    tools = [
        scripted_tool(
            name,
            schema=body,
            classifier_input="input.body",
            permission_matcher=matcher,
            permission_channel="console",
            permission_profile_ref=f"permission:tool_test.{name}",
        )
        for name, matcher in matchers.items()
    ]
    rules = [
        {"behavior": "allow", "tool": "*", "name": "all"},
        {"behavior": "deny", "tool": "*", "command": "rm *", "name": "no-rm"},
        {"behavior": "deny", "tool": "*", "path": "/etc/**", "name": "no-etc"},
    ]
    async with Runtime.open(tools=tools, rules=rules) as rt:
        recorded = {
            (name, text): await call_records(rt, await call(rt, name, {"body": text}))
            for name in matchers
            for text in ("rm x", "/etc/passwd")
        }
        interfaces = {each["name"]: each for each in await records(rt, "tool_interface") if each["namespace"] == "test"}
        profiles = {each["permission_profile_id"] for each in await records(rt, "tool_permission_profile")}
    denied = {each: made.decisions[-1]["rule_refs"] for each, made in recorded.items() if made.result["is_error"]}
    assert denied == {
        ("shell", "rm x"): ["cli_arg:no-rm"],
        ("shell", "/etc/passwd"): ["cli_arg:no-etc"],  # a rule about files also applies to those that a command names
        ("path", "/etc/passwd"): ["cli_arg:no-etc"],
    }
    assert {name: each.get("permission_matcher") for name, each in interfaces.items()} == matchers
    assert {each["permission_channel"] for each in interfaces.values()} == {"console"}
    assert {each["permission_profile_ref"] for each in interfaces.values()} <= profiles
    for made in recorded.values():  # a decision belongs to a call, so the call refers to it
        assert made.invocation["permission_decision_refs"] == [each["decision_id"] for each in made.decisions]


@pytest.mark.requirement("AT-IFACE-21", "AT-IFACE-22")
@pytest.mark.parametrize("kind", [ToolKind.SHELL_COMMAND, ToolKind.BROWSER_ACTION, ToolKind.OPENAPI_OPERATION])
async def test_what_is_not_declared_is_open_world_and_needs_no_person(records, kind, changed):
    probe = changed(scripted_tool("probe", classifier_input="input"), declaration={"tool_kind": kind})
    async with Runtime.open(tools=[probe], approve="deny") as rt:
        surface = await rt.surface()
        (interface,) = await records(rt, "tool_interface")
    assert (interface["is_open_world"], interface["requires_user_interaction"]) == (True, False)
    assert {"is_open_world", "requires_user_interaction"} <= set(interface["inferred_facts"])
    assert surface.loaded_tools == ("tool_test.probe",)


@pytest.mark.requirement("AT-IFACE-25")
@pytest.mark.parametrize("kind", [ToolKind.SHELL_COMMAND, ToolKind.CODE_EXECUTION])
async def test_a_security_relevant_tool_without_classifier_input_is_refused(kind, changed):
    with pytest.raises(ConfigError, match="classifier_input"):
        Runtime.open(tools=[changed(scripted_tool("probe"), declaration={"tool_kind": kind})])


@pytest.mark.requirement("AT-IFACE-15", "AT-PERS-05")
async def test_hints_for_the_eye_are_exported_and_change_nothing_a_model_reads(allow, call, records):
    hints = Rendering(
        ui_summary="Greeted",
        activity_description="Greeting",
        progress_render_hint="bar",
        rejected_render_hint="strike",
        error_render_hint="red",
        grouped_render_hint="stack",
        transcript_search_text="greeting",
    )
    results = []
    for rendering in (hints, None):
        async with Runtime.open(tools=[scripted_tool("greet", rendering=rendering)], rules=allow) as rt:
            results.append(await call(rt, "greet", {}))
            (interface,) = await records(rt, "tool_interface")
            shown = interface.get("rendering", {})
            assert shown == ({name: getattr(hints, name) for name in hints.__struct_fields__} if rendering else {})
    adorned, plain = results
    assert adorned.model_facing_content == plain.model_facing_content
    assert (adorned.ui_facing_summary, adorned.transcript_search_text) == ("Greeted", "greeting")
    assert (plain.ui_facing_summary, plain.transcript_search_text) == (None, None)


@pytest.mark.requirement("AT-IO-16", "AT-IO-20")
async def test_contracts_say_what_comes_out_and_what_came_out_agrees(allow, call, sound_export, changed):
    contract = OutputContract(
        structured_schema={"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]},
        content_types=("text", "structured_content"),
        media_modes=("text",),
        result_shape={"kind": "list", "items_at": "/rows"},
        artifact_expectations=[{"media_type": "text/csv"}],
        max_inline_chars=500,
        persistence_policy_ref="preview_and_persist",
    )

    async def query(job):
        return NativeOutput(
            structured_content={"rows": [1, 2]},
            artifact_refs=(Ref(id="art_1", uri="file:///rows.csv", media_type="text/csv"),),
        )

    asked = InputContract(media_modes=("text",), argument_mode="json")
    probe = changed(scripted_tool("query", query), declaration={"output_contract": contract, "input_contract": asked})
    async with Runtime.open(tools=[probe], rules=allow) as rt:
        result = await call(rt, "query", {})
        exported = await sound_export(rt)
    (reported,) = [each["output_contract"] for each in exported if "output_contract" in each]
    assert result.structured_content == {"rows": [1, 2]}
    assert {item.type.value for item in result.content} <= set(reported["content_types"])
    assert [ref.media_type for ref in result.artifact_refs] == [reported["artifact_expectations"][0]["media_type"]]
    assert (reported["media_modes"], reported["result_shape"]) == (["text"], {"kind": "list", "items_at": "/rows"})
    assert (reported["max_inline_chars"], reported["persistence_policy_ref"]) == (500, "preview_and_persist")
