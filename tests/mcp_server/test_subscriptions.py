"""Subscriptions to the resources of servers behind the gateway: who gets an update, and when a subscription ends."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_clients import connected
from waiting import wait_until

from agenttool import Runtime, tool
from agenttool.adapters.mcp.settings import McpServer
from agenttool.mcp.offers import Offers
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.mcp.sessions import call_at_end
from agenttool.ports.quota import PER_CALLER
from agenttool.ports.surfacing import Role

FIXTURE = Path(__file__).resolve().parents[1] / "support" / "mcp_fixture_server.py"

pytestmark = pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed")


@pytest.fixture(params=[(), ("modern=1",)])
def upstream(request):
    return request.param


def server(*options, **settings):
    return McpServer("fx", command=sys.executable, args=("-I", "-S", str(FIXTURE), "offers=1", *options), **settings)


async def next_event(events):
    return await asyncio.wait_for(anext(aiter(events)), 30)


async def test_an_update_reaches_only_the_actor_whose_connection_reported_it(upstream):
    source = server(*upstream, sessions="actor")
    async with (
        Runtime.open(sources=[source], approve=lambda _: True) as rt,
        connected(rt, actor="ann") as ann,
        connected(rt, actor="bob") as bob,
        ann.listen(resource_subscriptions=["memo://one"]) as of_ann,
        bob.listen(resource_subscriptions=["memo://one"], tools_list_changed=True) as of_bob,
    ):
        assert not (await rt.call("fx.change", {}, actor_ref="ann")).is_error
        assert (await next_event(of_ann)).uri == "memo://one"
        rt.declare(tool(name="new", read_only=True)(lambda: "new"))
        assert type(await next_event(of_bob)).__name__ == "ToolsListChanged"
        assert not (await rt.call("fx.change", {}, actor_ref="bob")).is_error
        assert (await next_event(of_bob)).uri == "memo://one"


async def test_other_work_gets_its_turn_between_the_decisions_about_many_subscriptions(upstream, monkeypatch):
    turns, decided = [0], []
    decide = Offers._verdict

    async def count_turns():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def counted(self, *given):
        decided.append(turns[0])
        return await decide(self, *given)

    monkeypatch.setattr(Offers, "_verdict", counted)
    uris = [f"memo://one/{number}" for number in range(50)]
    async with Runtime.open(sources=[server(*upstream)], approve=lambda _: True) as rt, connected(rt) as client:
        counting = asyncio.create_task(count_turns())
        async with client.listen(resource_subscriptions=uris):
            counting.cancel()
    assert len(decided) >= len(uris)
    assert max(Counter(decided).values()) <= 2


async def test_a_subscription_that_a_server_never_confirms_is_not_acknowledged_and_ends_no_other(upstream, monkeypatch):
    monkeypatch.setattr("agenttool.adapters.mcp.subscriptions.CONFIRM_S", 0.5)
    async with (
        Runtime.open(sources=[server(*upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=["memo://one"]) as events,
        client.listen(resource_subscriptions=["memo://never"]) as none,
        connected(rt, "legacy") as old,
    ):
        assert events.honored.resource_subscriptions == ["memo://one"]
        assert none.honored.resource_subscriptions is None
        with pytest.raises(MCPError, match="has not confirmed the subscription"):
            await old.subscribe_resource("memo://never")
        await old.subscribe_resource("memo://two")
        assert not (await rt.call("fx.change", {})).is_error
        assert (await next_event(events)).uri == "memo://one"


async def test_a_resource_that_a_server_refuses_is_the_only_one_that_is_not_acknowledged(upstream):
    wanted = [f"memo://{number}" for number in range(5)]
    async with (
        Runtime.open(sources=[server(*upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=[*wanted[:3], "memo://refused", *wanted[3:]]) as events,
    ):
        assert events.honored.resource_subscriptions == wanted


async def test_many_updates_at_once_all_arrive_also_after_very_much_progress(upstream):
    wanted = [f"memo://{number}" for number in range(400)]
    async with (
        Runtime.open(sources=[server(*upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=wanted) as events,
    ):
        assert events.honored.resource_subscriptions == wanted
        assert not (await rt.call("fx.update", {"uris": wanted, "progress": 1_000})).is_error
        assert sorted([(await next_event(events)).uri for _ in wanted]) == sorted(wanted)


async def test_an_update_of_a_sub_resource_reaches_the_subscriber_of_the_resource_alone(upstream):
    async with (
        Runtime.open(sources=[server(*upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=["memo://dir"]) as of_folder,
        client.listen(resource_subscriptions=["memo://di", "memo://last"]) as of_others,
    ):
        assert not (await rt.call("fx.update", {"uris": ["memo://dir/child.txt", "memo://last"]})).is_error
        assert (await next_event(of_folder)).uri == "memo://dir"
        assert (await next_event(of_others)).uri == "memo://last"


async def test_a_caller_with_many_subscriptions_leaves_room_for_others_on_the_same_stream(tmp_path):
    wanted, log = [f"memo://{number}" for number in range(250)], tmp_path / "log"
    async with (
        Runtime.open(sources=[server("modern=1", f"log={log}")], approve=lambda _: True) as rt,
        connected(rt, actor="ann") as ann,
        connected(rt, actor="bob") as bob,
        ann.listen(resource_subscriptions=wanted) as of_ann,
        bob.listen(resource_subscriptions=["memo://other"]) as of_bob,
    ):
        assert of_ann.honored.resource_subscriptions == wanted
        assert of_bob.honored.resource_subscriptions == ["memo://other"]
        assert not (await rt.call("fx.update", {"uris": ["memo://249", "memo://other"]})).is_error
        assert (await next_event(of_ann)).uri == "memo://249"
        assert (await next_event(of_bob)).uri == "memo://other"
        messages = [json.loads(line) for line in log.read_text().splitlines()]
    opened = {each["id"] for each in messages if "resourceSubscriptions" in str(each)}
    closed = {each["params"]["requestId"] for each in messages if each.get("method") == "notifications/cancelled"}
    assert len(opened - closed) == 1


async def test_a_server_that_died_is_started_again_for_its_subscribers(upstream, tmp_path):
    log = tmp_path / "log"
    subscribed = '"memo://one"'
    async with (
        Runtime.open(sources=[server(f"log={log}", *upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=["memo://one"]) as events,
    ):
        assert (await rt.call("fx.die", {})).is_error
        await asyncio.to_thread(wait_until, lambda: log.read_text().count(subscribed) == 2)
        assert not (await rt.call("fx.change", {})).is_error
        assert (await next_event(events)).uri == "memo://one"


async def test_the_subscriptions_of_a_session_end_with_it_and_are_limited(tmp_path, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "resource subscriptions", 1)
    log = tmp_path / "log"
    async with (
        Runtime.open(sources=[server(f"log={log}")], approve=lambda _: True) as rt,
        RuntimeMcpServer.open(rt) as served,
    ):
        for _ in range(2):
            async with Client(served.lowlevel, mode="legacy") as client:
                await client.subscribe_resource("memo://one")
                with pytest.raises(MCPError, match="this caller has 1 resource subscriptions, which is the limit"):
                    await client.subscribe_resource("memo://two")
            await asyncio.to_thread(
                wait_until,
                lambda: log.read_text().count('"resources/subscribe"') == log.read_text().count("/unsubscribe"),
            )


def test_a_version_of_the_sdk_that_hides_the_end_of_sessions_is_named():
    with pytest.raises(TypeError, match="the MCP SDK has no `ServerSession"):
        call_at_end(object(), print)


def settings(path, *servers, deny=()):
    """Write settings with servers, each a name with its options, and rules."""
    tables = [
        f"[sources.{name}]\nkind = 'mcp'\ncommand = {sys.executable!r}\n"
        f"args = {['-I', '-S', str(FIXTURE), 'offers=1', *options]}\n"
        for name, *options in servers
    ]
    rules = [f"[[rules]]\nbehavior = 'deny'\ntool = {each!r}\n" for each in deny]
    path.write_text("\n".join([*tables, *rules]))
    return path


async def test_a_subscription_continues_on_the_source_that_replaces_another(upstream, tmp_path):
    config = tmp_path / "agenttool.toml"
    async with (
        Runtime.open(config=settings(config, ("fx", *upstream)), approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(resource_subscriptions=["memo://one"]) as events,
    ):
        before = (await rt.call("fx.pid", {})).text
        await rt.reload(settings(config, ("fx", "tools=1", *upstream)))
        assert (await next_event(events)).uri == "memo://one", "the resource may have changed meanwhile"
        assert (await rt.call("fx.pid", {})).text != before
        assert not (await rt.call("fx.change", {})).is_error
        assert (await next_event(events)).uri == "memo://one"


async def test_a_source_that_is_added_reports_changes_and_a_deny_that_is_added_withholds_them(upstream, tmp_path):
    config = tmp_path / "agenttool.toml"
    async with (
        Runtime.open(config=settings(config, ("other", "template=other://{name}")), approve=lambda _: True) as rt,
        connected(rt) as client,
    ):
        await rt.reload(settings(config, ("other", "template=other://{name}"), ("fx", *upstream)))
        async with client.listen(resource_subscriptions=["memo://two"], tools_list_changed=True) as events:
            assert events.honored.resource_subscriptions == ["memo://two"]
            assert not (await rt.call("fx.change", {})).is_error
            while isinstance(event := await next_event(events), ToolsListChanged):
                """The tools of the added source may be reported after the stream was opened."""
            assert event.uri == "memo://two"
            await rt.reload(
                settings(config, ("other", "template=other://{name}"), ("fx", *upstream), deny=["fx.read_resource"])
            )
            assert not (await rt.call("fx.change", {})).is_error
            rt.declare(tool(name="new", read_only=True)(lambda: "new"))
            assert type(await next_event(events)).__name__ == "ToolsListChanged", "no update came before it"


async def test_an_update_of_one_server_does_not_reach_the_subscribers_of_another(upstream):
    servers = [
        McpServer(name, command=sys.executable, args=("-I", "-S", str(FIXTURE), "offers=1", *upstream))
        for name in ("first", "second")
    ]
    async with (
        Runtime.open(sources=servers, approve=lambda _: True) as rt,
        connected(rt, role=Role(name="first", tools=("first.*",))) as of_first,
        connected(rt, role=Role(name="second", tools=("second.*",))) as of_second,
        of_first.listen(resource_subscriptions=["memo://one"]) as first,
        of_second.listen(resource_subscriptions=["memo://one"], tools_list_changed=True) as second,
    ):
        assert not (await rt.call("first.change", {})).is_error
        assert (await next_event(first)).uri == "memo://one"
        rt.declare(tool(namespace="second", name="new", read_only=True)(lambda: "new"))
        assert type(await next_event(second)).__name__ == "ToolsListChanged", "no update came before it"
        assert not (await rt.call("second.change", {})).is_error
        assert (await next_event(second)).uri == "memo://one"


async def test_a_changed_list_of_tools_is_reported_as_soon_as_its_server_reports_it(upstream, tmp_path, monkeypatch):
    monkeypatch.setattr("agenttool.mcp.server.WATCH_S", 3600)
    definitions = tmp_path / "definitions"
    definitions.write_text("[]")
    source = server(*upstream, f"definitions={definitions}")
    async with (
        Runtime.open(sources=[source], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        before = [each.name for each in (await client.list_tools()).tools]
        added = {"name": "added", "description": "New.", "inputSchema": {"type": "object"}}
        definitions.write_text(json.dumps([added]))
        await rt.call("fx.change", {})
        assert type(await next_event(events)).__name__ == "ToolsListChanged"
        after = [each.name for each in (await client.list_tools()).tools]
    assert set(after) - set(before) == {"added"}


async def test_an_announcement_of_changed_tools_reaches_clients_also_if_the_list_is_the_same(upstream, monkeypatch):
    monkeypatch.setattr("agenttool.mcp.server.WATCH_S", 3600)
    async with (
        Runtime.open(sources=[server(*upstream)], approve=lambda _: True) as rt,
        connected(rt) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        before = await client.list_tools()
        assert not (await rt.call("fx.change", {})).is_error
        assert type(await next_event(events)).__name__ == "ToolsListChanged"
        assert (await client.list_tools()).tools == before.tools
