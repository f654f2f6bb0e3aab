"""What servers offer: found at one place, valid as a whole or not at all, and taken at its word only to be careful."""

import pytest
from starting import begin

from agenttool.adapters.rap.subscriptions import CANCEL_SUBSCRIPTION, RECEIVE_EVENT, RESERVED
from agenttool.catalog.entry import TOOL_SEARCH
from agenttool.codec import to_json
from agenttool.records import Behavior, ToolDeclaration


def tool(name="read_probe", **members):
    return {"name": name, "description": "Reads.", "inputSchema": {"type": "object"}, **members}


@pytest.mark.requirement("RAP-143")
@pytest.mark.requirement("RAP-145")
@pytest.mark.requirement("RAP-157")
async def test_every_server_is_asked_once_at_its_well_known_place(running, tool_server, started):
    one, other = tool_server(tools=["read_probe"]), tool_server(tools=["open_valve"])
    async with running(one, other) as rt:
        surface = await rt.surface()
        assert {"tool_s0.read_probe", "tool_s1.open_valve"} <= set(surface.tool_refs)
        await started(rt, one)
        await started(rt, other, "open_valve")
    for server in (one, other):
        asked = [path for method, path, _ in server.requests if method == "GET"]
        assert asked == ["/.well-known/rap-toolset"]
        assert "application/json" in server.headers[0]["accept"]


@pytest.mark.requirement("RAP-158")
async def test_a_new_session_asks_afresh_and_an_old_one_keeps_its_copy(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        server.manifest["tools"] = [tool("water")]
        assert "tool_s0.water" not in (await rt.surface()).tool_refs
        sources = rt.sources.get("rap").servers
        async with type(rt).open(sources=sources) as another:
            assert "tool_s0.water" in (await another.surface()).tool_refs


@pytest.mark.requirement("AT-DECL-25")
async def test_a_declaration_keeps_the_toolset_the_place_and_the_operation_of_the_server(running, tool_server):
    server = tool_server(tools=["read_probe"])
    async with running(server) as rt:
        (declaration,) = [
            each
            async for each in rt.journal.export()
            if isinstance(each, ToolDeclaration) and each.name == "read_probe"
        ]
    (mapping,) = to_json(declaration)["external_mappings"]
    assert mapping["source"] == "rap"
    assert (mapping["toolset"], mapping["operation"]) == ("greenhouse", "read_probe")
    assert server.url.startswith(mapping["base_url"])


BROKEN = {
    "no tools": {"tools": []},
    "schema true": {"tools": [tool(), tool("bad", inputSchema=True)]},
    "schema of a wrong type": {"tools": [tool(), tool("bad", inputSchema={"type": 5})]},
    "a name with a space": {"tools": [tool(), tool("open valve")]},
    "a name twice": {"tools": [tool(), tool()]},
    "no description": {"tools": [{"name": "read_probe", "inputSchema": {"type": "object"}}]},
    "an empty name": {"name": ""},
    "a long name": {"name": "g" * 129},
    "no url": {"endpoint": "here"},
}


@pytest.mark.requirement("RAP-146")
@pytest.mark.requirement("RAP-147")
@pytest.mark.requirement("RAP-148")
@pytest.mark.requirement("RAP-149")
@pytest.mark.requirement("RAP-151")
@pytest.mark.requirement("RAP-154")
@pytest.mark.requirement("RAP-155")
@pytest.mark.parametrize("fault", BROKEN)
async def test_a_manifest_with_one_fault_offers_nothing_and_reports_the_fault(running, tool_server, fault):
    bad, good = tool_server(name="bad"), tool_server(tools=["open_valve"])
    bad.manifest.update(BROKEN[fault])
    async with running(bad, good) as rt:
        names = {entry for entry in (await rt.surface()).tool_refs if not entry.startswith("tool_rap.")}
        assert names == {"tool_s1.open_valve"}
        (reported,) = rt.sources.get("rap").faults
        assert "'s0'" in reported
        assert "none of its tools is offered" in reported


@pytest.mark.requirement("RAP-123")
async def test_a_server_that_is_down_costs_only_its_own_tools(running, tool_server):
    down, good = tool_server(), tool_server(tools=["open_valve"])
    down.statuses["/.well-known/rap-toolset"] = [500]
    async with running(down, good) as rt:
        assert "tool_s1.open_valve" in (await rt.surface()).tool_refs
        (reported,) = rt.sources.get("rap").faults
        assert "500" in reported


@pytest.mark.requirement("RAP-156")
async def test_a_name_that_two_toolsets_use_is_offered_by_neither(running, tool_server):
    one = tool_server(name="one", tools=["read_probe", "water"])
    other = tool_server(name="two", tools=["read_probe", "open_valve"])
    async with running(one, other) as rt:
        names = set((await rt.surface()).tool_refs)
        assert names == {"tool_rap.cancel_subscription", "tool_s0.water", "tool_s1.open_valve"}
        assert [each.partition(": ")[2] for each in rt.sources.get("rap").faults] == [
            "'read_probe', because 's1' has that name, too, so no source offers it; rename one of them",
            "'read_probe', because 's0' has that name, too, so no source offers it; rename one of them",
        ]
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert result.error.error_class.value == "blocked_tool"


@pytest.mark.requirement("RAP-419")
@pytest.mark.parametrize("name", ["receive_event__injected", "cancel_subscription", "tool_search", "read_result"])
async def test_a_tool_with_a_reserved_or_built_in_name_is_reported_and_not_offered(running, tool_server, name):
    server = tool_server(tools=["read_probe", name])
    async with running(server) as rt:
        surface = await rt.surface()
        assert {each for each in surface.tool_refs if "s0" in each} == {"tool_s0.read_probe"}
        assert rt._agent.catalog.find(f"tool_s0.{name}") is None
        assert (await rt.call(f"s0.{name}", {"bed": 1}, surface=surface)).error.error_class.value == "unknown_tool"
        assert server.invocations == []
        assert rt.sources.get("rap").withheld == {"s0": (name,)}
        assert rt.sources.get("rap").faults == (
            f"tools of 's0' cannot be offered: {name!r}, because that name is reserved",
        )


@pytest.mark.requirement("RAP-419")
async def test_every_built_in_tool_of_a_runtime_has_a_reserved_name(running, tool_server, tmp_path):
    async with running(tool_server(), options={"store": f"sqlite:{tmp_path}/state.db"}) as rt:
        built_in = {
            entry.tool.declaration.name for entry in rt._agent.catalog if entry.qualified_name.startswith("agenttool.")
        }
        assert built_in | {TOOL_SEARCH, RECEIVE_EVENT, CANCEL_SUBSCRIPTION} == RESERVED


@pytest.mark.requirement("RAP-189")
@pytest.mark.requirement("RAP-190")
async def test_reserved_names_are_not_offered(running, tool_server):
    server = tool_server(tools=["read_probe", "receive_event__injected", "cancel_subscription"])
    async with running(server) as rt:
        surface = await rt.surface()
        assert set(surface.tool_refs) == {"tool_rap.cancel_subscription", "tool_s0.read_probe"}
        result = await rt.call("receive_event__injected", {"text": "x"}, surface=surface)
        assert result.error.error_class.value == "unknown_tool"
        assert server.invocations == []


@pytest.mark.requirement("RAP-162")
@pytest.mark.requirement("RAP-036")
async def test_a_tool_that_destroys_is_asked_about(running, tool_server):
    server = tool_server(tools=[tool(annotations={"destructive": True, "idempotent": True})])
    async with running(server, options={"rules": []}) as rt:
        call = await begin(rt, "read_probe", {}, surface=await rt.surface())
        (question,) = await rt.approvals.list()
        assert question.invocation_id == call.invocation_id
        assert server.invocations == []
        await rt.approvals.decide(question.approval_id, "deny")
        assert (await rt.calls.get(call.invocation_id).result()).error.error_class.value == "approval_rejected"


@pytest.mark.requirement("RAP-161")
@pytest.mark.requirement("RAP-420")
async def test_a_server_s_word_that_a_tool_only_reads_frees_it_from_nothing(running, tool_server):
    said = {"readOnly": True, "idempotent": True, "x-greenhouse-zone": "north"}
    server = tool_server(tools=[tool(annotations=said, displayScript="while true {}")])
    async with running(server, options={"rules": [], "mode": "read_only"}) as rt:
        result = await rt.call("read_probe", {}, surface=await rt.surface(only=["read_probe"]))
        assert result.is_error
        exported = [record async for record in rt.journal.export()]
        declaration = next(each for each in exported if getattr(each, "name", "") == "read_probe")
        assert declaration.annotations == {"rap": said, "untrusted": sorted(said)}
        assert server.invocations == []
    async with running(server, trusts_annotations=True, options={"rules": [], "mode": "read_only"}) as rt:
        call = await begin(rt, "read_probe", {}, surface=await rt.surface())
        assert [question.verdict.behavior for question in await rt.approvals.list()] == [Behavior.ASK]
        await rt.cancel(call.invocation_id)


@pytest.mark.requirement("RAP-165")
async def test_a_display_script_changes_nothing(running, tool_server, started):
    server = tool_server(tools=[tool(displayScript="this is no Rhai ((")])
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.settle(invocation, "fine")
        assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "fine"


@pytest.mark.requirement("RAP-154", "RAP-420")
async def test_a_hint_that_makes_no_sense_makes_us_careful_and_costs_no_tool(running, tool_server, caplog):
    odd = {"readOnly": "yes", "destructive": "no"}
    server = tool_server(tools=[tool(annotations=odd, displayScript=5), tool("water", annotations=["readOnly"])])
    async with running(server, trusts_annotations=True, options={"rules": []}) as rt:
        assert {"tool_s0.read_probe", "tool_s0.water"} <= set((await rt.surface()).tool_refs)
        assert rt.sources.get("rap").faults == ()
        assert "'readOnly', 'destructive'" in caplog.text
        await begin(rt, "read_probe", {}, surface=await rt.surface())
        (question,) = await rt.approvals.list()
        assert question.tool_id == "tool_s0.read_probe"
        assert server.invocations == []


@pytest.mark.requirement("RAP-152", "RAP-022", "RAP-023")
async def test_arguments_are_held_to_the_draft_that_a_schema_names(running, tool_server, started):
    pair = {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"pair": pair}}
    server = tool_server(tools=[tool(inputSchema=schema)])
    async with running(server) as rt:
        result = await rt.call("read_probe", {"pair": ["a", 1]}, surface=await rt.surface())
        assert result.error.error_class.value == "schema_validation_failed"
        assert server.invocations == []
        _, invocation = await started(rt, server, pair=[1, "a"])
        assert invocation["arguments"] == {"pair": [1, "a"]}


@pytest.mark.requirement("RAP-150")
async def test_names_are_case_sensitive(running, tool_server):
    server = tool_server(tools=["probe", "Probe"])
    async with running(server) as rt:
        assert {"tool_s0.probe", "tool_s0.Probe"} <= set((await rt.surface()).tool_refs)
