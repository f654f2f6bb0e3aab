"""Surfaces through the runtime: what is on them, what is not and why, and what a call meets."""

import pytest

from agenttool import Circumstances, ConfigError, ModelCapabilities, Role, Runtime, SurfacePolicy
from agenttool.records import Lifecycle, OutputContract, SurfaceScope, ToolKind
from agenttool.testing.fakes import scripted_tool

SAFE = {"is_read_only": True, "is_concurrency_safe": True, "is_destructive": False, "is_open_world": False}


def names(surface):
    return {each.removeprefix("tool_") for each in surface.loaded_tools}


def absent(surface):
    entries = (*surface.blocked_tools, *surface.excluded_tools)
    return {each.name: each.reason.value for each in entries}


@pytest.mark.requirement("AT-SURF-01", "AT-SURF-03", "AT-SURF-04")
@pytest.mark.parametrize("scope", [scope.value for scope in SurfaceScope])
async def test_every_scope_has_its_surface_and_calls_carry_its_id(scope, allow, sound_export):
    async with Runtime.open(tools=[scripted_tool("look")], rules=allow) as rt:
        surface = await rt.surface(scope)
        result = await rt.call("look", {}, surface=surface)
        invocation = await rt.journal.invocation(result.invocation_id)
        exported = await sound_export(rt)
    assert surface.scope == scope
    assert invocation.surface_id == surface.surface_id
    assert [each["scope"] for each in exported if each["record_type"] == "tool_surface"] == [scope]


@pytest.mark.requirement("AT-SURF-02", "AT-SURF-15", "AT-SURF-06")
async def test_a_surface_lists_the_whole_field_set(rule, changed, sound_export):
    tools = [
        scripted_tool("shown"),
        scripted_tool("waiting", should_defer=True),
        scripted_tool("locked", required_credentials=("vault:key",)),
        changed(scripted_tool("gone"), declaration={"lifecycle": Lifecycle.RETIRED}),
    ]
    model = ModelCapabilities(strict_schemas=True, media=frozenset({"image"}))
    async with Runtime.open(tools=tools, rules=[rule("ask", "test.shown", ref="ask-first")]) as rt:
        surface = await rt.surface(
            "session", role=Role(name="coder"), model=model, refs=["session:42"], reason="a new session"
        )
        (exported,) = [each for each in await sound_export(rt) if each["record_type"] == "tool_surface"]
    fields = """surface_id scope created_at producer tool_refs loaded_tools deferred_tools blocked_tools excluded_tools
    selection_policy default_tool_choice capability_requirements model_capabilities role_constraints policy_refs
    runtime_refs surface_reason"""
    assert set(fields.split()) <= exported.keys()
    considered = {*exported["loaded_tools"], *(each["tool_id"] for each in exported["deferred_tools"])}
    assert set(exported["tool_refs"]) == considered
    assert "tool_test.shown" in exported["loaded_tools"]
    assert [each["tool_id"] for each in exported["deferred_tools"]] == ["tool_test.waiting"]
    assert [each["tool_id"] for each in exported["blocked_tools"]] == ["tool_test.locked"]
    assert [each["tool_id"] for each in exported["excluded_tools"]] == ["tool_test.gone"]
    assert (exported["model_capabilities"]["media"], exported["role_constraints"]["role"]) == (["image"], "coder")
    assert "ask-first" in surface.policy_refs
    assert (surface.runtime_refs, surface.surface_reason) == (("session:42",), "a new session")


@pytest.mark.requirement("AT-SURF-05", "AT-SURF-09")
async def test_a_tool_that_rules_deny_in_any_case_can_be_hidden_and_the_rule_is_named(rule, error):
    rules = [rule("deny", "test.pay", ref="no-payments"), rule("allow", "test.look")]
    tools = [scripted_tool("look"), scripted_tool("pay")]
    async with Runtime.open(tools=tools, rules=rules, surface=SurfacePolicy(hide_denied=True)) as rt:
        surface = await rt.surface()
        refused = await rt.call("pay", {}, surface=surface)
    (entry,) = surface.blocked_tools
    assert names(surface) == {"test.look"}
    assert (entry.tool_id, entry.reason, entry.policy_refs) == ("tool_test.pay", "policy_blocked", ("no-payments",))
    assert (error(refused), refused.error.error_code) == ("blocked_tool", "policy_blocked")
    assert tools[1].executor.inputs == []


EIGHT = {
    "policy_blocked": ({}, {}, {"mode": "read_only"}),
    "credential_missing": ({"required_credentials": ("vault:key",)}, {}, {}),
    "setup_required": ({"requires_setup": True}, {}, {}),
    "model_unsupported": ({"model_requirements": {"media": ["image"]}}, {"model": ModelCapabilities()}, {}),
    "role_not_allowed": ({}, {"role": Role(name="reader", tools=("files.*",))}, {}),
    "feature_disabled": ({"feature_gate_refs": ("beta",)}, {}, {}),
}


@pytest.mark.requirement("AT-SURF-11")
@pytest.mark.parametrize("reason", EIGHT)
async def test_each_cause_has_its_token_and_the_log_says_what_would_change_it(reason, error, caplog):
    facts, context, options = EIGHT[reason]
    probe = scripted_tool("probe", **facts)
    async with Runtime.open(tools=[probe], **options) as rt:
        surface = await rt.surface(**context)
        refused = await rt.call("probe", {}, surface=surface)
    (entry,) = (*surface.blocked_tools, *surface.excluded_tools)
    assert (entry.reason, entry.may_change) == (reason, True)
    assert entry.would_change not in refused.text, "the model cannot do that"
    assert "ask the operator to change that" in refused.text
    assert f"to change that: {entry.would_change}" in caplog.text
    assert (error(refused), refused.error.error_code) == ("blocked_tool", reason)
    assert probe.executor.inputs == []


@pytest.mark.requirement("AT-SURF-11", "AT-SURF-18")
async def test_the_other_two_tokens_are_for_agents_in_agents_and_for_what_waits(changed):
    agent = changed(scripted_tool("delegate"), declaration={"tool_kind": ToolKind.PEER_AGENT_TOOL})
    async with Runtime.open(tools=[agent, scripted_tool("look"), scripted_tool("later", should_defer=True)]) as rt:
        above = await rt.surface()
        child = rt.child(above)
        below = await child.surface()
    assert absent(below)["test.delegate"] == "recursive_tool_forbidden"
    assert "test.delegate" in names(above)
    assert [each.reason for each in above.deferred_tools] == ["deferred_until_discovered"]


@pytest.mark.requirement("AT-SURF-10")
async def test_five_filters_exclude_before_anything_is_considered(changed):
    def of_kind(name, kind, **facts):
        return changed(scripted_tool(name, classifier_input="input", **facts), declaration={"tool_kind": kind})

    tools = [
        scripted_tool("by_role", namespace="bank"),
        of_kind("by_recursion", ToolKind.PEER_AGENT_TOOL),
        scripted_tool("by_feature", feature_gate_refs=("beta",)),
        scripted_tool("by_model", model_requirements=["strict_schemas"]),
        of_kind("by_policy", ToolKind.SHELL_COMMAND),
    ]
    async with Runtime.open(tools=tools, circumstances=Circumstances(gates=frozenset({"beta"}))) as rt:
        child = rt.child(await rt.surface())
        await rt.surfaces.change(gates=[], allows_shell=False)
        surface = await child.surface(role=Role(name="worker", tools=("test.*",)), model=ModelCapabilities())
    assert {each.name.partition(".")[2]: each.reason.value for each in surface.excluded_tools} == {
        "by_role": "role_not_allowed",
        "by_recursion": "recursive_tool_forbidden",
        "by_feature": "feature_disabled",
        "by_model": "model_unsupported",
        "by_policy": "policy_blocked",
    }


@pytest.mark.parametrize("choice", ["auto", "none", "required", "test.look"])
async def test_a_surface_says_how_tools_may_be_selected(choice):
    async with Runtime.open(tools=[scripted_tool("look")]) as rt:
        surface = await rt.surface(tool_choice=choice, model=ModelCapabilities())
    assert surface.default_tool_choice == choice
    assert surface.selection_policy["select_from"] == "loaded_tools"
    assert surface.selection_policy["parallel_calls"] is False


@pytest.mark.requirement("AT-SURF-13")
async def test_a_tool_whose_output_is_a_picture_needs_a_model_that_takes_pictures(changed):
    camera = changed(scripted_tool("camera"), declaration={"output_contract": OutputContract(content_types=("image",))})
    async with Runtime.open(tools=[camera]) as rt:
        blind = await rt.surface(model=ModelCapabilities(parallel_calls=True))
        seeing = await rt.surface(model=ModelCapabilities(media=frozenset({"image"})))
        unknown = await rt.surface()
    assert absent(blind) == {"test.camera": "model_unsupported"}
    assert blind.model_capabilities["parallel_calls"] is True
    assert names(seeing) == names(unknown) == {"test.camera"}
    assert seeing.capability_requirements == ("media:image",)


@pytest.mark.requirement("AT-SURF-14")
async def test_a_background_worker_gets_what_its_role_allows_and_no_approver():
    tools = [
        scripted_tool("read", namespace="files"),
        scripted_tool("pay", namespace="bank"),
        scripted_tool("confirm", namespace="files", requires_user_interaction=True),
        scripted_tool("shred", namespace="files"),
    ]
    worker = Role(name="background_worker", tools=("files.*",), without=("files.shred",), is_background=True)
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface("role", role=worker)
    assert surface.role_constraints["role"] == "background_worker"
    assert names(surface) == {"files.read"}
    assert absent(surface) == {
        "bank.pay": "role_not_allowed",
        "files.shred": "role_not_allowed",
        "files.confirm": "policy_blocked",
    }


@pytest.mark.requirement("AT-SURF-19")
async def test_without_a_person_or_the_right_to_write_such_tools_are_blocked():
    tools = [scripted_tool("confirm", requires_user_interaction=True, **SAFE), scripted_tool("write")]
    async with Runtime.open(tools=tools, approve="deny") as rt:
        alone = await rt.surface()
    async with Runtime.open(tools=tools, mode="read_only", approve="wait") as rt:
        reading = await rt.surface()
    assert {each.name: each.reason for each in alone.blocked_tools} == {"test.confirm": "policy_blocked"}
    assert {each.name: each.reason for each in reading.blocked_tools} == {"test.write": "policy_blocked"}


@pytest.mark.requirement("AT-SURF-20")
async def test_what_is_not_discovered_has_no_browser_or_may_run_no_commands_says_so(changed):
    def of_kind(name, kind, **facts):
        return changed(scripted_tool(name, classifier_input="input", **facts), declaration={"tool_kind": kind})

    tools = [
        of_kind("search_issues", ToolKind.MCP_TOOL, should_defer=True),
        of_kind("click", ToolKind.BROWSER_ACTION),
        of_kind("run", ToolKind.SHELL_COMMAND),
    ]
    here = Circumstances(has_browser=False, allows_shell=False)
    async with Runtime.open(tools=tools, circumstances=here) as rt:
        surface = await rt.surface()
    assert [(each.name, each.reason) for each in surface.deferred_tools] == [
        ("search_issues", "deferred_until_discovered")
    ]
    expected = {each.name: (each.reason.value, each.message) for each in surface.excluded_tools}
    assert expected == {
        "test.click": ("setup_required", "no browser session exists"),
        "test.run": ("policy_blocked", "the sandbox or the platform forbids commands and code"),
    }


async def test_a_deprecated_tool_is_listed_apart_because_it_still_answers(changed, allow):
    old = changed(scripted_tool("old"), declaration={"lifecycle": Lifecycle.DEPRECATED})
    async with Runtime.open(tools=[old], rules=allow) as rt:
        surface = await rt.surface()
        result = await rt.call("old", {}, surface=surface)
    (entry,) = surface.unoffered_tools
    assert (entry.tool_id, entry.reason, entry.may_change) == ("tool_test.old", "feature_disabled", False)
    assert result.status == "succeeded"


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"role": "reader"}, "create one with Role"),
        ({"model": "gpt"}, "must be ModelCapabilities"),
        ({"tool_choice": 7}, "tool_choice must be text"),
        ({"refs": "session:1"}, "refs must be a list"),
        ({"roles": None}, "takes no 'roles'"),
    ],
)
async def test_an_invalid_context_is_refused_with_a_message(context, expected):
    async with Runtime.open(tools=[scripted_tool("look")]) as rt:
        with pytest.raises(ConfigError, match=expected):
            await rt.surface(**context)
