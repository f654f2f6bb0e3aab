"""A server behind our server: its tools, resources, prompts and questions reach the client, on all four pairs of revisions."""

import asyncio
import json
import sys
from pathlib import Path

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from mcp_clients import Person, connected, text_of
from waiting import wait_until

from agenttool import FunctionHook, Hook, Runtime
from agenttool.adapters.mcp.settings import McpServer
from agenttool.hooks.reply import HookReply
from agenttool.ports.surfacing import Role
from agenttool.records import Behavior, HookEvent, ResultPersistence, ToolInvocation

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"


class Honest(Person):
    """Allows calls, and answers the questions of servers."""

    async def __call__(self, context, params):
        wanted = params.requested_schema["properties"]
        self.content = {"decision": "allow"} if "decision" in wanted else {"name": "Ada"}
        return await super().__call__(context, params)


@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_a_client_uses_a_server_through_the_gateway(mode, upstream):
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE), *upstream))
    person = Honest()
    async with Runtime.open(sources=[source], approve="wait") as rt, connected(rt, mode, person) as client:
        assert "ask" in [each.name for each in (await client.list_tools()).tools]
        (resource,) = (await client.list_resources()).resources
        assert (await client.read_resource(resource.uri)).contents[0].text == "the memo"
        (prompt,) = (await client.list_prompts()).prompts
        got = await client.get_prompt(prompt.name, {"who": "Ada"})
        assert got.messages[0].content.text == "Greet Ada."
        result = await client.call_tool("ask", {})
    assert "Ada" in text_of(result)
    assert "fx asks: Your name?" in person.asked


def server(name, *options):
    return McpServer(name, command=sys.executable, args=("-I", "-S", str(FIXTURE), *options))


@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_completion_is_asked_of_the_server_that_has_the_prompt_or_template(mode, upstream):
    sources = [server("plain"), server("fx", "offers=1", *upstream)]
    async with Runtime.open(sources=sources, approve="wait") as rt, connected(rt, mode) as client:
        prompts = [each.name for each in (await client.list_prompts()).prompts]
        assert prompts == ["fx__greet", "plain__greet"]
        (template,) = (await client.list_resource_templates()).resource_templates
        completed = [
            await client.complete(ref, {"name": "who", "value": "A"})
            for ref in (
                types.PromptReference(type="ref/prompt", name="fx__greet"),
                types.PromptReference(type="ref/prompt", name="plain__greet"),
                types.ResourceTemplateReference(type="ref/resource", uri=template.uri_template),
            )
        ]
        got = await client.get_prompt("fx__greet", {"who": "Ada"})
        read = await client.read_resource("memo://any")
    assert [each.completion.values for each in completed] == [["greet A…"], [], ["memo://{name} A…"]]
    assert got.messages[0].content.text == "Greet Ada."
    assert read.contents[0].text == "the memo"


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("behavior", ["deny", "ask"])
async def test_nothing_is_sent_for_completion_or_a_subscription_that_a_read_would_not_send_unasked(behavior, tmp_path):
    log = tmp_path / "log"
    rules = [
        {"behavior": behavior, "tool": "fx.get_prompt", "actor": "user:eve"},
        {"behavior": behavior, "tool": "fx.read_resource", "argument": {"/uri": {"one_of": ["memo://secret"]}}},
    ]
    prompt = types.PromptReference(type="ref/prompt", name="greet")
    template = types.ResourceTemplateReference(type="ref/resource", uri="memo://{name}")
    async with (
        Runtime.open(sources=[server("fx", "offers=1", f"log={log}")], approve="wait", rules=rules) as rt,
        connected(rt, "legacy", actor="user:eve") as client,
    ):
        refused = [
            await client.complete(prompt, {"name": "who", "value": "A"}),
            await client.complete(template, {"name": "name", "value": "secret"}),
        ]
        with pytest.raises(MCPError, match="permission_denied" if behavior == "deny" else "approval_required"):
            await client.subscribe_resource("memo://secret")
        assert "memo://secret" not in log.read_text()
        assert "completion/complete" not in log.read_text()
        allowed = await client.complete(template, {"name": "name", "value": "o"})
    assert [each.completion.values for each in refused] == [[], []]
    assert allowed.completion.values == ["memo://{name} o…"]


@pytest.mark.parametrize("behavior", [None, "deny", "ask"])
async def test_completions_are_calls_that_hooks_decide_about_and_the_journal_records(mode, tmp_path, behavior):
    async def guard(query):
        return None if behavior is None else HookReply(permission_result=Behavior(behavior))

    log = tmp_path / "log"
    hook = Hook(name="guard", event=HookEvent.PRE_TOOL_USE, runner=FunctionHook(guard))
    prompt = types.PromptReference(type="ref/prompt", name="greet")
    async with Runtime.open(sources=[server("fx", "offers=1", f"log={log}")], approve="wait", hooks=[hook]) as rt:
        async with connected(rt, mode, actor="user:ada") as client:
            found = await client.complete(prompt, {"name": "who", "value": "A"})
            offered = [each.name for each in (await client.list_tools()).tools]
        calls = [each async for each in rt.journal.export() if isinstance(each, ToolInvocation)]
        assert await rt.approvals.list() == ()
    assert found.completion.values == (["greet A…"] if behavior is None else [])
    assert ("completion/complete" in log.read_text()) is (behavior is None)
    assert "complete" not in offered
    assert [(str(each.tool_id), each.actor_ref, each.model_input["argument"]) for each in calls] == [
        ("tool_fx.complete", "user:ada", {"name": "who", "value": "A"})
    ]


async def test_the_error_of_a_server_about_its_own_prompt_reaches_the_client(mode):
    async with Runtime.open(sources=[server("fx")], approve="wait") as rt, connected(rt, mode) as client:
        with pytest.raises(MCPError, match="the argument who is missing"):
            await client.get_prompt("greet", {})


async def test_a_resource_is_read_in_the_session_of_its_actor(mode):
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE)), sessions="actor")
    rules, pids = [{"behavior": "allow", "tool": "fx.pid"}], []
    async with Runtime.open(sources=[source], rules=rules, approve="wait") as rt:
        for actor in ("user:ada", "user:eve"):
            async with connected(rt, mode, actor=actor) as client:
                called = text_of(await client.call_tool("pid", {}))
                assert (await client.read_resource("memo://pid")).contents[0].text == called
                pids.append(called)
    assert pids[0] != pids[1]


async def test_a_rule_about_the_tool_that_reads_holds_for_resources_and_prompts(mode):
    rules = [
        {"behavior": "deny", "tool": "fx.read_resource", "argument": {"/uri": {"one_of": ["memo://one"]}}},
        {"behavior": "deny", "tool": "fx.get_prompt", "actor": "user:eve"},
    ]
    async with Runtime.open(sources=[server("fx")], approve="wait", rules=rules) as rt:
        async with connected(rt, mode, actor="user:ada") as client:
            with pytest.raises(MCPError, match="permission_denied"):
                await client.read_resource("memo://one")
            assert (await client.read_resource("memo://two")).contents
            assert (await client.get_prompt("greet", {"who": "Ada"})).messages
        async with connected(rt, mode, actor="user:eve") as client:
            with pytest.raises(MCPError, match="permission_denied"):
                await client.get_prompt("greet", {"who": "Ada"})


async def test_reads_of_resources_and_prompts_are_recorded_as_calls_of_their_actor(mode):
    async with Runtime.open(sources=[server("fx")], approve="wait") as rt:
        async with connected(rt, mode, actor="user:ada") as client:
            (big,) = (await client.read_resource("memo://big")).contents
            got = await client.get_prompt("greet", {"who": "Ada"})
        calls = [each async for each in rt.journal.export() if isinstance(each, ToolInvocation)]
    assert big.text == "line\n" * 50_000
    assert [(each.role, each.content.text) for each in got.messages] == [("user", "Greet Ada.")]
    assert [(str(each.tool_id), each.actor_ref, str(each.status)) for each in calls] == [
        ("tool_fx.read_resource", "user:ada", "succeeded"),
        ("tool_fx.get_prompt", "user:ada", "succeeded"),
    ]


HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def passed_on(result, sent, mode):
    """Return a result without what the gateway adds; an older revision has no cache hints."""
    got = result.model_dump(by_alias=True, exclude_none=True, mode="json")
    meta = {name: value for name, value in got.pop("_meta", {}).items() if name != types.SERVER_INFO_META_KEY}
    hints = {name: got.pop(name) for name in HINTS if name in got}
    assert hints == {name: sent.get(name, HINTS[name]) if mode != "legacy" else HINTS[name] for name in hints}
    return {**got, **({"_meta": meta} if meta else {}), **{name: sent[name] for name in HINTS if name in sent}}


@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_a_client_gets_resources_and_prompts_with_their_cache_hints_exactly_as_the_server_sent_them(
    mode, upstream
):
    async with Runtime.open(sources=[server("fx", *upstream)], approve="wait") as rt:
        source = rt.sources.get("fx")
        async with connected(rt, mode) as client:
            for uri in ("memo://folder", "memo://big", "memo://huge", "ui://page"):
                sent = await source.read("read_resource", uri=uri)
                sent |= {"cacheScope": "private"} if "cacheScope" in sent else {}  # rules decide for each caller
                assert passed_on(await client.read_resource(uri), sent, mode) == sent
            sent = await source.read("get_prompt", name="greet", arguments={"who": "pictures"})
            assert passed_on(await client.get_prompt("greet", {"who": "pictures"}), sent, mode) == sent


async def test_a_long_resource_is_stored_once_and_read_in_parts(mode):
    stored = []
    async with Runtime.open(sources=[server("fx")], approve="wait") as rt, connected(rt, mode) as client:
        for uri, length in {"memo://big": 250_000, "memo://huge": 2_500_000}.items():
            result = await client.call_tool("read_resource", {"uri": uri})
            (item,) = (await rt.journal.result(result.meta["agenttool/invocation"])).content
            assert result.structured_content["contents"][0] == {"uri": uri, "mimeType": "text/plain", "text": None}
            assert (item.ref.size_bytes, item.name) == (length, uri)
            assert "To read more, call read_result" in text_of(result)
            ask = {"payload_id": item.ref.id, "start_line": 49_999, "end_line": 50_000}
            assert "line" in text_of(await client.call_tool("read_result", ask))
        stored = [each async for each in rt.journal.export() if isinstance(each, ResultPersistence)]
    assert [each.persisted_ref for each in stored if each.persisted_ref] == [], "the text is not stored again"


async def test_a_read_that_hangs_delays_no_other_call_of_the_server(mode, tmp_path):
    log, rules = tmp_path / "log", [{"behavior": "allow", "tool": "fx.pid"}]
    async with (
        Runtime.open(sources=[server("fx", f"log={log}")], approve="wait", rules=rules) as rt,
        connected(rt, mode, actor="user:eve") as other,
        connected(rt, mode, actor="user:ada") as client,
    ):
        hanging = asyncio.create_task(other.read_resource("memo://never"))
        await asyncio.to_thread(wait_until, lambda: "memo://never" in log.read_text())
        async with asyncio.timeout(30):
            assert (await client.read_resource("memo://one")).contents
            assert not (await client.call_tool("pid", {})).is_error
        hanging.cancel()


_READING = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from agenttool import Runtime
from agenttool.adapters.mcp.settings import McpServer
from mcp_clients import connected

async def main(store, *args):
    source = McpServer("fx", command=sys.executable, args=args)
    rt = Runtime.open(sources=[source], approve="wait", store=store)
    rt._core.durability.lease_s = 0.5
    async with rt, connected(rt) as client:
        reading = asyncio.create_task(client.read_resource("memo://never"))
        while not any(rt.calls.open_ids()):
            await asyncio.sleep(0.01)
        await rt.call("fx.list_prompts", {})
        print("the start of the read is stored", flush=True)
        await reading

asyncio.run(main(*sys.argv[2:]))
"""


async def test_a_read_of_a_process_that_died_is_not_sent_again(tmp_path):
    log, store = tmp_path / "log", str(tmp_path / "calls.db")
    source = server("fx", f"log={log}")
    program = [sys.executable, "-c", _READING, str(FIXTURE.parent), store, *source.args]
    child = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    assert await child.stdout.readline()
    child.kill()
    await child.wait()
    async with Runtime.open(sources=[source], approve="wait", store=store) as rt:
        await rt.calls.recover()
        calls = [each async for each in rt.journal.export() if isinstance(each, ToolInvocation)]
        (call,) = [each for each in calls if each.tool_id == "tool_fx.read_resource"]
        result = await rt.calls.get(call.invocation_id).result(60)
    assert result.error.error_code == "process_died"
    assert log.read_text().count("memo://never") == 1


async def test_a_rule_asks_about_a_read_in_the_client_or_elsewhere(mode):
    rules, person = [{"behavior": "ask", "tool": "fx.read_resource"}], Person(decision="allow")
    async with Runtime.open(sources=[server("fx")], approve="wait", rules=rules) as rt:
        async with connected(rt, mode, person) as client:
            assert (await client.read_resource("memo://one")).contents[0].text == "the memo"
            assert "Allow fx.read_resource?" in person.asked[0]
        async with connected(rt, mode) as client:
            with pytest.raises(MCPError, match="approval_required"):
                await client.read_resource("memo://one")
            (question,) = await rt.approvals.list()
            await rt.approvals.decide(question, "allow")
            assert (await client.read_resource("memo://one")).contents[0].text == "the memo"


@pytest.mark.parametrize(
    ("tools", "without", "resources", "prompts"),
    [
        (("*",), ("closed.*",), ["memo://one"], ["greet"]),
        (("open.*",), ("open.read_resource",), [], ["greet"]),
        (("open.*",), ("get_prompt",), ["memo://one"], []),
        (("open.echo",), (), [], []),
    ],
)
async def test_a_profile_reads_what_its_tools_may_read(mode, tools, without, resources, prompts):
    role = Role(name="some", tools=tools, without=without)
    sources = [server("open"), server("closed", "offers=1")]
    async with Runtime.open(sources=sources, approve="wait") as rt, connected(rt, mode, role=role) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == resources
        assert [each.name for each in (await client.list_prompts()).prompts] == prompts
        assert (await client.list_resource_templates()).resource_templates == []
        if not resources:
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource("memo://one")
        if not prompts:
            with pytest.raises(MCPError, match="no prompt is named 'greet'"):
                await client.get_prompt("greet", {"who": "Ada"})


async def test_a_name_stays_with_its_server_while_that_is_not_connected(mode):
    rule = {"behavior": "allow", "tool": ["first.*", "second.*"]}
    options = {"approve": "wait", "rules": [rule]}
    async with (
        Runtime.open(sources=[server("first"), server("second")], **options) as rt,
        connected(rt, mode) as client,
    ):
        listed = {each.name: each.meta["agenttool/name"] for each in (await client.list_tools()).tools}
        prompts = [each.name for each in (await client.list_prompts()).prompts]
    async with (
        Runtime.open(sources=[server("first", "exit=1"), server("second")], **options) as rt,
        connected(rt, mode) as client,
    ):
        left = {each.name: each.meta["agenttool/name"] for each in (await client.list_tools()).tools}
        left_prompts = [each.name for each in (await client.list_prompts()).prompts]
        calls = [await client.call_tool(name, {"text": "hi"}) for name in ("second__echo", "first__echo", "echo")]
        with pytest.raises(MCPError, match="no prompt is named 'greet'"):
            await client.get_prompt("greet", {"who": "Ada"})
    assert {"first__echo", "second__echo"} <= listed.keys()
    assert left == {name: owner for name, owner in listed.items() if not owner.startswith("first.")}
    assert (prompts, left_prompts) == (["first__greet", "second__greet"], ["second__greet"])
    served, absent, bare = map(text_of, calls)
    assert served == "hi"
    assert "no tool is known as 'first.echo' yet: its provider 'first'" in absent
    assert bare == "unknown_tool: no tool is named 'echo'; did you mean 'second__echo'?"


async def test_a_server_that_does_not_answer_does_not_hide_the_resource_of_another(mode, monkeypatch):
    monkeypatch.setattr("agenttool.mcp.offers.GUESS_S", 0.3)
    sources = [server("hung", "never=memo://hidden"), server("healthy")]
    async with Runtime.open(sources=sources, approve="wait") as rt, connected(rt, mode) as client:
        assert (await client.read_resource("memo://hidden")).contents[0].text == "the memo"


async def test_servers_that_do_not_answer_are_asked_at_the_same_time(mode, monkeypatch, tmp_path):
    monkeypatch.setattr("agenttool.mcp.offers.GUESS_S", 3600.0)
    logs = [tmp_path / name for name in ("first", "second")]
    sources = [server(log.name, "never=memo://hidden", f"log={log}") for log in logs]
    async with Runtime.open(sources=sources, approve="wait") as rt, connected(rt, mode) as client, asyncio.timeout(60):
        reading = asyncio.create_task(client.read_resource("memo://hidden"))
        while not all("memo://hidden" in log.read_text() for log in logs):
            await client.list_tools()
        reading.cancel()


async def test_a_uri_that_no_server_lists_reaches_only_servers_that_may_have_it(mode, tmp_path):
    logs = {name: tmp_path / name for name in ("plain", "templates")}
    sources = [server("plain", f"log={logs['plain']}"), server("templates", "offers=1", f"log={logs['templates']}")]
    async with Runtime.open(sources=sources, approve="wait") as rt, connected(rt, mode) as client:
        await client.read_resource("memo://unlisted")
        await client.read_resource("mail://inbox")
    read = {
        name: [
            each["params"]["uri"]
            for each in map(json.loads, log.read_text().splitlines())
            if "uri" in each.get("params", {})
        ]
        for name, log in logs.items()
    }
    assert read == {"plain": ["mail://inbox"], "templates": ["memo://unlisted"]}


@pytest.mark.parametrize(
    ("behavior", "code", "outcome"),
    [
        (None, -32002, "the memo"),
        (None, -32602, "the memo"),
        (None, -32603, "the server says no"),
        ("deny", -32002, "permission_denied"),
        ("ask", -32002, "approval_required"),
    ],
)
async def test_only_a_server_that_lacks_a_resource_lets_another_one_be_asked(mode, behavior, code, outcome, tmp_path):
    log, rules = tmp_path / "log", [{"behavior": behavior, "tool": "first.read_resource"}] if behavior else []
    sources = [
        server("first", "offers=1", "lacks=memo://two", f"code={code}"),
        server("second", "offers=1", "template=memo://{other}", f"log={log}"),
    ]
    async with (
        Runtime.open(sources=sources, approve="wait", rules=rules) as rt,
        connected(rt, mode) as client,
    ):
        if outcome == "the memo":
            assert (await client.read_resource("memo://two")).contents[0].text == outcome
        else:
            with pytest.raises(MCPError, match=outcome):
                await client.read_resource("memo://two")
            assert "memo://two" not in log.read_text()


@pytest.mark.parametrize(
    ("rule", "resources", "prompts"),
    [
        ({"tool": "fx.*"}, [], []),
        ({"tool": "fx.read_resource"}, [], ["greet"]),
        ({"tool": "fx.read_resource", "url": "memo://two"}, ["memo://one"], ["greet"]),
    ],
)
async def test_lists_have_no_entries_that_the_actor_may_never_read(mode, rule, resources, prompts):
    rules = [{"behavior": "deny", "actor": "user:eve", **rule}]
    async with Runtime.open(sources=[server("fx")], approve="wait", rules=rules) as rt:
        for actor, shown in (("user:eve", (resources, prompts)), ("user:ada", (["memo://one"], ["greet"]))):
            async with connected(rt, mode, actor=actor) as client:
                listed = (await client.list_resources()).resources, (await client.list_prompts()).prompts
            assert ([each.uri for each in listed[0]], [each.name for each in listed[1]]) == shown


async def test_a_tool_of_the_server_is_never_taken_for_the_one_that_reads(mode, tmp_path):
    definitions = tmp_path / "definitions.json"
    definitions.write_text(json.dumps([{"name": "read_resource"}, {"name": "get_prompt"}]))
    rules = [{"behavior": "deny", "tool": "fx.read_resource", "actor": "user:eve"}]
    async with Runtime.open(sources=[server("fx", f"definitions={definitions}")], approve="wait", rules=rules) as rt:
        async with connected(rt, mode, actor="user:ada") as client:
            assert (await client.read_resource("memo://one")).contents[0].text == "the memo"
            assert (await client.get_prompt("greet", {"who": "Ada"})).messages[0].content.text == "Greet Ada."
        async with connected(rt, mode, actor="user:eve") as client:
            with pytest.raises(MCPError, match="permission_denied"):
                await client.read_resource("memo://one")


@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_a_client_is_notified_of_the_changed_lists_of_a_server(upstream):
    seen = set()
    async with (
        Runtime.open(sources=[server("fx", "offers=1", *upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(prompts_list_changed=True, resources_list_changed=True) as events,
    ):
        assert [each.name for each in (await client.list_prompts(cache_mode="bypass")).prompts] == ["greet"]
        assert not (await rt.call("fx.change", {})).is_error
        async with asyncio.timeout(30):
            async for each in events:
                seen.add(type(each).__name__)
                if len(seen) == 2:
                    break
        assert [each.name for each in (await client.list_prompts(cache_mode="bypass")).prompts] == ["greet", "new"]
    assert seen == {"PromptsListChanged", "ResourcesListChanged"}


@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_a_client_of_2026_is_notified_of_a_changed_resource_of_a_server(upstream):
    wanted = ["memo://one", "plain://x"]
    sources = [server("fx", "offers=1", *upstream), server("plain")]
    async with (
        Runtime.open(sources=sources, approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=wanted) as events,
    ):
        assert events.honored.resource_subscriptions == ["memo://one"]  # the other server does not notice changes
        assert not (await rt.call("fx.change", {})).is_error
        async with asyncio.timeout(30):
            assert (await anext(aiter(events))).uri == "memo://one"


@pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")
@pytest.mark.parametrize("upstream", [(), ("modern=1",)])
async def test_a_client_of_2025_is_notified_of_a_changed_resource_until_it_unsubscribes(upstream, tmp_path):
    updated, log = asyncio.Queue(), tmp_path / "log"

    async def note(message):
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.put_nowait(message.params.uri)

    sources = [server("fx", "offers=1", f"log={log}", *upstream), server("plain")]
    async with (
        Runtime.open(sources=sources, approve=lambda _: True) as rt,
        connected(rt, "legacy", callbacks={"message_handler": note}) as client,
    ):
        await client.subscribe_resource("memo://one")
        assert not (await rt.call("fx.change", {})).is_error
        async with asyncio.timeout(30):
            assert await updated.get() == "memo://one"
        with pytest.raises(MCPError, match="no source notices changes"):
            await client.subscribe_resource("plain://x")
        await client.unsubscribe_resource("memo://one")
        await rt.call("fx.change", {})
        if not upstream:
            await asyncio.to_thread(wait_until, lambda: "resources/unsubscribe" in log.read_text())
    assert updated.empty()


APP = {
    "name": "chart",
    "title": "Chart",
    "inputSchema": {"properties": {"rows": {"type": "array"}}},
    "icons": [{"src": "data:,x", "mimeType": "image/png", "sizes": ["48x48"]}],
    "annotations": {"title": "Other", "readOnlyHint": True, "destructiveHint": True},
    "_meta": {"ui": {"resourceUri": "ui://chart/view", "visibility": ["model"]}, "vendor/x": 1},
    "execution": {"taskSupport": "required"},
}
BROKEN = {"name": "broken", "inputSchema": {"type": "object"}, "icons": "none", "_meta": {"a": 1}}


async def test_the_definition_of_a_tool_passes_the_gateway_and_an_invalid_one_breaks_no_list(mode, tmp_path):
    definitions = tmp_path / "definitions.json"
    definitions.write_text(json.dumps([APP, BROKEN]))
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE), f"definitions={definitions}"))
    async with Runtime.open(sources=[source], approve="wait") as rt, connected(rt, mode, Honest()) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        (page,) = (await client.read_resource("ui://chart/view")).contents
        assert not (await client.call_tool("chart", {})).is_error
    chart = listed["chart"].model_dump(by_alias=True, exclude_none=True, mode="json")
    assert chart == {
        "name": "chart",
        "title": "Chart",
        "description": "",
        "inputSchema": {"type": "object", "properties": {"rows": {"type": "array"}}},
        "icons": APP["icons"],
        "annotations": {"title": "Chart", "readOnlyHint": False, "destructiveHint": True},
        "_meta": {**APP["_meta"], "agenttool/name": "fx.chart"},
    }
    assert listed["broken"].icons is None
    assert page.text == "the memo"
    assert page.meta == {"ui": {"csp": {}}}


async def test_a_call_of_a_tool_that_waits_for_a_review_says_so(mode, caplog):
    source = McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE)), new_tools="review")
    sources = [source, server("other")]
    async with Runtime.open(sources=sources, approve="wait") as rt, connected(rt, mode) as client:
        waiting = rt.sources.get("fx").waiting
        await rt.sources.get("fx").accept({name: each for name, each in waiting.items() if name != "echo"})
        assert "fx__pid" in [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool("fx__echo", {})
    assert result.is_error
    assert "waits for a review; ask the operator to change that" in text_of(result)
    assert "agenttool sources review fx" in caplog.text
