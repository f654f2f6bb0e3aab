"""Deferred tools: by policy, by tool and by provider; and the tool by which a model finds and loads them."""

import json

import pytest

from agenttool import (
    Circumstances,
    ConfigError,
    ModelCapabilities,
    RecordError,
    Role,
    Runtime,
    SurfacePolicy,
    ToolCall,
)
from agenttool.codec import from_json, to_json
from agenttool.records import DeferredToolRef, McpMapping
from agenttool.testing.fakes import scripted_tool

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}


def many_tools(size, **facts):
    return [scripted_tool(f"chore_{number}", namespace="office", **facts) for number in range(size)]


def issue_tool(**facts):
    return scripted_tool("create_issue", namespace="tracker", schema=SCHEMA, **facts)


def found_in(result):
    assert result.error is None, result.error
    return result.structured_content


@pytest.mark.requirement("AT-SURF-16")
async def test_several_hundred_tools_come_to_one_search_tool_and_those_that_always_stay():
    tools = [*many_tools(400), scripted_tool("read_file", namespace="files", always_load=True)]
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface()
    assert surface.loaded_tools == ("tool_files.read_file", "tool_agenttool.tool_search")
    assert len(surface.deferred_tools) == 400
    assert surface.selection_policy["discovery"] == "tool_search"
    assert surface.selection_policy["loaded_tokens"] * 10 < surface.selection_policy["deferred_tokens"]


@pytest.mark.parametrize(
    ("policy", "model", "deferred"),
    [
        (SurfacePolicy(max_tools=12), None, 0),
        (SurfacePolicy(max_tools=11), None, 12),
        (SurfacePolicy(max_tools=None, max_tokens=None), None, 0),
        (SurfacePolicy(max_tokens=100), None, 12),
        (SurfacePolicy(max_tools=12), ModelCapabilities(max_tools=8), 12),
    ],
)
async def test_a_limit_of_tools_or_tokens_decides_whether_they_wait(policy, model, deferred):
    async with Runtime.open(tools=many_tools(12), surface=policy) as rt:
        surface = await rt.surface(model=model)
    assert len(surface.deferred_tools) == deferred
    assert ("tool_agenttool.tool_search" in surface.loaded_tools) is bool(deferred)


async def test_settings_say_how_much_a_surface_shows(tmp_path):
    settings = tmp_path / "agenttool.toml"
    settings.write_text("[surface]\nmax_tools = 5\nmax_tokens = false\n")
    async with Runtime.open(tools=many_tools(6), config=settings) as rt:
        assert len((await rt.surface()).deferred_tools) == 6
    async with Runtime.open(tools=many_tools(6), config=settings, surface=SurfacePolicy()) as rt:
        assert (await rt.surface()).deferred_tools == ()


async def test_loading_never_hides_what_was_shown():
    tools = [*many_tools(12), *(issue_tool(should_defer=True),)]
    async with Runtime.open(tools=tools, surface=SurfacePolicy(max_tools=12)) as rt:
        before = await rt.surface()
        after = await rt.load(["create_issue"], surface=before)
    assert set(before.loaded_tools) - set(after.loaded_tools) == {"tool_agenttool.tool_search"}
    assert "tool_tracker.create_issue" in after.loaded_tools


@pytest.mark.requirement("AT-DEFER-02", "AT-DEFER-03", "AT-DEFER-04")
async def test_a_deferred_ref_states_where_the_tool_comes_from_and_how_to_select_it(changed, sound_export):
    native = McpMapping(server_name="github", tool_name="search_issues")
    tool = changed(
        scripted_tool("search_issues", namespace="mcp.github", should_defer=True),
        declaration={"search_hint": "search repository issues", "external_mappings": (native,)},
    )
    connecting = Circumstances(providers={"mcp.slow": "connecting"})
    pending = scripted_tool("post", namespace="mcp.slow")
    async with Runtime.open(tools=[tool, pending], circumstances=connecting) as rt:
        ready, waiting = (to_json(each) for each in (await rt.surface()).deferred_tools)
        await sound_export(rt)
    assert ready == {
        "schema_version": "0.2.0",
        "record_type": "deferred_tool_ref",
        "tool_id": "tool_mcp.github.search_issues",
        "name": "search_issues",
        "namespace": "mcp.github",
        "search_hint": "search repository issues",
        "source": "mcp",
        "schema_visibility": "deferred",
        "loading_state": "discoverable",
        "reason": "deferred_until_discovered",
        "selection_ref": "select:mcp.github.search_issues",
        "native_ref": {"source": "mcp", "server_name": "github", "tool_name": "search_issues"},
    }
    with pytest.raises(RecordError, match="loading_state"):
        from_json({**ready, "loading_state": "soon"}, DeferredToolRef)
    assert waiting["loading_state"] == "pending_provider"
    assert waiting["pending_provider_or_server"] == "mcp.slow"


@pytest.mark.requirement("AT-DEFER-07", "AT-DEFER-10")
async def test_a_provider_that_connects_breaks_and_comes_back_changes_what_can_be_loaded(allow, error):
    tools = [scripted_tool("post", namespace="mcp.slow"), issue_tool(should_defer=True)]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        first = await rt.surface()
        seen = []
        for state in ("connecting", "unavailable", "ready"):
            await rt.surfaces.change(providers={"mcp.slow": state})
            surface = rt.surfaces.current(first)
            states = {each.name: each.loading_state.value for each in surface.deferred_tools}
            search = await rt.search("select:mcp.slow.post", surface=surface)
            result = await rt.call("post", {}, surface=surface)
            seen.append((states.get("post"), search.pending_providers, search.next_action.value, error(result)))
    assert seen == [
        ("pending_provider", ("mcp.slow",), "wait_for_provider", "dependency_unavailable"),
        ("unavailable", (), "refine_query", "blocked_tool"),
        (None, (), "none", None),
    ]
    assert len(tools[0].executor.inputs) == 1


@pytest.mark.requirement("AT-DEFER-06")
async def test_a_tool_known_by_name_only_is_selected_and_not_found_by_words():
    tools = [issue_tool(should_defer=True), scripted_tool("create_invoice", schema_visibility="native_ref")]
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface()
        by_words = await rt.search("create", surface=surface)
        by_name = await rt.search("select:create_invoice", surface=surface)
        loaded = await rt.load(["create_invoice"], surface=surface)
    states = {each.name: each.loading_state.value for each in surface.deferred_tools}
    assert states == {"create_issue": "discoverable", "create_invoice": "deferred"}
    assert [each.name for each in by_words.matches] == ["tracker.create_issue"]
    assert [each.name for each in by_name.matches] == ["test.create_invoice"]
    assert "tool_test.create_invoice" in loaded.loaded_tools


@pytest.mark.requirement("AT-DEFER-15")
async def test_a_model_searches_and_calls_what_was_found_and_both_are_governed_calls(call_records):
    tools = [*many_tools(200), issue_tool(is_read_only=True, is_open_world=False, is_destructive=False)]
    async with Runtime.open(tools=tools, approve="deny", rules=[]) as rt:
        surface = await rt.surface()
        early = await rt.call("tracker.create_issue", {"title": "it leaks"}, surface=surface)
        searched = await rt.call("tool_search", {"query": "open an issue"}, surface=surface)
        stale = await rt.call("tracker.create_issue", {"title": "it leaks"}, surface=surface)
        current = rt.surfaces.current(surface)
        recorded = await call_records(rt, searched)
        shown = set(current.loaded_tools) - set(surface.loaded_tools)
    assert (early.error.error_class, tools[-1].executor.inputs) == ("schema_not_loaded", [])
    assert "call tool_search with 'select:tracker.create_issue'" in early.error.message
    match = found_in(searched)["matches"][0]
    assert match["name"] == "tracker.create_issue"
    assert 0 < match["score"] <= 1
    assert match["reason"]
    assert found_in(searched)["next_action"] == "none"
    assert found_in(searched)["loaded"] == [
        {"name": "tracker.create_issue", "description": "The tool create_issue, for tests.", "parameters": SCHEMA}
    ]
    assert found_in(searched)["surface_id"] == current.surface_id
    assert shown == {"tool_tracker.create_issue"}
    assert stale.error.message.endswith("call it in the next turn")
    assert recorded.moves[-1] == "succeeded"
    assert json.loads(searched.model_facing_content[0].text) == found_in(searched)


@pytest.mark.parametrize("query", ["do a chore", "regex:^office"])
async def test_a_search_loads_the_best_matches_within_a_limit_of_tokens(query):
    large = {"type": "object", "properties": {"text": {"type": "string", "description": "word " * 1200}}}
    tools = many_tools(120, schema=large)
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface()
        found = found_in(await rt.call("tool_search", {"query": query}, surface=surface))
        after = rt.surfaces.current(surface)
    names = [each["name"] for each in found["matches"]]
    assert (len(names), [each["name"] for each in found["loaded"]]) == (5, names[:2])
    assert set(after.loaded_tools) - set(surface.loaded_tools) == {f"tool_{each}" for each in names[:2]}
    assert found["loaded"][0]["parameters"] == large
    assert found["next_step"].endswith("for another match, call tool_search with the query select:NAME")


@pytest.mark.parametrize("query", ["regex:(", "regex:", "regex:(?=a)b", r"regex:(a)\1"])
async def test_a_pattern_that_cannot_be_used_is_an_invalid_argument(query):
    async with Runtime.open(tools=many_tools(120)) as rt:
        refused = await rt.call("tool_search", {"query": query}, surface=await rt.surface())
        with pytest.raises(ConfigError, match=r"expression|look-around"):
            await rt.search(query, surface=await rt.surface())
    assert refused.error.error_class == "invalid_arguments"


@pytest.mark.requirement("AT-DEFER-05")
async def test_two_selections_at_once_are_both_on_the_current_surface(allow):
    tools = [*many_tools(200), issue_tool()]
    async with Runtime.open(tools=tools, rules=allow) as rt:
        surface = await rt.surface()
        wanted = ("office.chore_7", "tracker.create_issue")
        await rt.batch(
            [ToolCall(name="tool_search", arguments={"query": f"select:{name}"}) for name in wanted], surface=surface
        )
        current = rt.surfaces.current(surface)
        done = await rt.batch(
            [ToolCall(name="chore_7", arguments={}), ToolCall(name="create_issue", arguments={"title": "it leaks"})],
            surface=current,
        )
    assert set(current.loaded_tools) - set(surface.loaded_tools) == {f"tool_{name}" for name in wanted}
    assert [each.status for each in done] == ["succeeded", "succeeded"]


async def test_tool_search_reveals_nothing_that_the_surface_of_its_caller_leaves_out():
    tools = [*many_tools(120), issue_tool(), scripted_tool("create_payment", namespace="bank")]
    role = Role(name="clerk", without=("bank.*",))
    async with Runtime.open(tools=tools) as rt:
        surface = await rt.surface(role=role)
        for query in ("create", "select:bank.create_payment", "bank payment"):
            found = found_in(await rt.call("tool_search", {"query": query, "limit": 50}, surface=surface))
            assert "bank" not in repr((found["matches"], found.get("loaded")))


async def test_a_rule_can_keep_a_model_from_searching(rule, error):
    async with Runtime.open(tools=many_tools(120), rules=[rule("deny", "agenttool.tool_search")]) as rt:
        refused = await rt.call("tool_search", {"query": "chore"}, surface=await rt.surface())
    assert error(refused) == "permission_denied"


async def test_a_foreign_tool_with_the_name_of_ours_hides_neither(allow, error):
    own = scripted_tool("tool_search", namespace="acme", always_load=True)
    async with Runtime.open(tools=[*many_tools(120), own], rules=allow) as rt:
        surface = await rt.surface()
        bare = await rt.call("tool_search", {}, surface=surface)
        theirs = await rt.call("acme.tool_search", {}, surface=surface)
        ours = await rt.call("agenttool.tool_search", {"query": "chore 7"}, surface=surface)
    assert (error(bare), bare.error.error_code) == ("unknown_tool", "ambiguous_name")
    assert "call one of 'acme.tool_search', 'agenttool.tool_search'" in bare.error.message
    assert (theirs.status, len(own.executor.inputs)) == ("succeeded", 1)
    assert found_in(ours)["matches"]


@pytest.mark.parametrize(
    "declaration",
    [
        {"namespace": "agenttool", "name": "tool_search"},
        {"namespace": "agenttool", "name": "read_result"},
        {"namespace": "agenttool", "name": "anything"},
        {"namespace": "agenttool.more", "name": "anything"},
        {"tool_id": "tool_agenttool.tool_search"},
    ],
)
async def test_no_other_source_can_declare_a_tool_under_a_full_name_or_an_id_of_ours(declaration, changed):
    taken = changed(scripted_tool("mine"), declaration=declaration)
    with pytest.raises(ConfigError, match=r"are reserved for the runtime; give the tool another namespace and id"):
        async with Runtime.open(tools=[taken]):
            pass
    async with Runtime.open(tools=[scripted_tool("look")]) as rt:
        with pytest.raises(ConfigError, match="the namespace 'agenttool'"):
            rt.declare(taken)
        assert (await rt.surface()).loaded_tools == ("tool_test.look",)


async def test_a_name_that_several_waiting_tools_share_says_how_to_select_each():
    tools = [issue_tool(should_defer=True), scripted_tool("create_issue", namespace="backlog", should_defer=True)]
    async with Runtime.open(tools=tools) as rt:
        refused = await rt.call("create_issue", {}, surface=await rt.surface())
    assert refused.error.error_class == "schema_not_loaded"
    assert "'select:backlog.create_issue' or 'select:tracker.create_issue'" in refused.error.message


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("max_tools = -1", "max_tools must be a whole number or false"),
        ("max_tools = true", "max_tools must be a whole number or false"),
        ("hide_denied = 1", "hide_denied must be true or false"),
        ("limit = 3", r"\[surface\] has no 'limit'"),
    ],
)
async def test_settings_that_say_nothing_sensible_are_refused_with_their_place(tmp_path, written, message):
    settings = tmp_path / "agenttool.toml"
    settings.write_text(f"\n[surface]\n{written}\n")
    with pytest.raises(ConfigError, match=rf"agenttool\.toml:3: .*{message}"):
        Runtime.open(config=settings)
