"""The RAP client of a runtime: sessions, threads, migration and the registry of tools."""

import asyncio
import json
from functools import partial

import pytest
from starting import begin

from agenttool import ConfigError, Runtime, tool
from agenttool.adapters.rap import discovery, source
from agenttool.adapters.rap.credentials import Bearer
from agenttool.adapters.rap.settings import RapServer
from agenttool.errors import StoreError
from agenttool.http import client as http_client
from agenttool.http.client import HttpClient, HttpReply
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.server.stream_routes import status_of

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


@pytest.mark.requirement("RAP-300", "RAP-302")
async def test_every_server_gets_the_notice_of_a_closed_thread(running, tool_server):
    used, unused, broken = tool_server(), tool_server(tools=["water"]), tool_server(tools=["prune"])
    broken.statuses["/close_thread"] = [500]
    async with running(used, unused, broken) as rt:
        await rt.sources.get("rap").close_thread("plot-9/sub-2")
        for server in (used, unused, broken):
            await server.until(lambda server=server: server.posts("/close_thread"))
    for server in (used, unused, broken):
        assert server.posts("/close_thread") == [{"thread_id": "plot-9/sub-2"}]


@pytest.mark.requirement("RAP-282", "RAP-283", "RAP-301", "RAP-302")
@pytest.mark.parametrize("path", ["/close_thread", "/cancel_tool_call"])
async def test_notices_go_to_all_servers_at_once_and_block_nothing(running, tool_server, started, monkeypatch, path):
    monkeypatch.setattr(source, "HttpClient", partial(HttpClient, timeout_s=600))  # no notice times out
    all_have_it, may_answer = asyncio.Barrier(3), asyncio.Event()

    class Waiting(tool_server):
        async def __call__(self, scope, receive, send):
            if scope["path"] == path:
                await all_have_it.wait()
                await may_answer.wait()
            await super().__call__(scope, receive, send)

    servers = [Waiting(tools=[name]) for name in ("read_probe", "water", "prune")]
    async with running(*servers) as rt:
        call, _ = await started(rt, servers[0])
        if path == "/close_thread":
            await rt.sources.get("rap").close_thread("plot-9")
        else:
            assert await rt.cancel(call.invocation_id)
        may_answer.set()
        for server in servers:
            assert len(await server.until(lambda server=server: server.posts(path))) == 1


@pytest.mark.requirement("RAP-321", "RAP-325")
async def test_only_servers_with_state_migrate_and_a_failure_is_returned(running, tool_server):
    keeps, plain = tool_server(needsMigration=True), tool_server(tools=["water"])
    async with running(keeps, plain) as rt:
        assert await rt.sources.get("rap").migrate("plot-9", {}) == (
            "'s0' stores state and has no destination; name one",
        )
        there = {"s0": "http://127.0.0.1:9441", "s1": "http://127.0.0.1:9442"}
        assert await rt.sources.get("rap").migrate("plot-9", there) == ()
        assert keeps.posts("/migrate") == [{"session_id": "plot-9", "destination_url": there["s0"]}]
        assert plain.posts("/migrate") == []
        keeps.statuses["/migrate"] = [500]
        (fault,) = await rt.sources.get("rap").migrate("plot-9", there)
        assert "'s0' did not migrate: 500" in fault


@pytest.mark.requirement("RAP-322", "RAP-285")
async def test_a_session_that_rests_moves_and_its_next_calls_go_to_the_new_server(running, tool_server, started):
    source, destination = tool_server(needsMigration=True), tool_server(tools=["water"])
    async with running(source, destination, options={"thread": "plot-9"}) as rt:
        call, invocation = await started(rt, source)
        await rt.cancel(call.invocation_id)  # the session stops, and nothing that comes late counts
        await rt.calls.get(call.invocation_id).result()
        assert await source.settle(invocation, "too late") == 200
        assert await rt.deferred.list() == ()
        assert await rt.sources.get("rap").migrate("plot-9", {"s0": destination.url}) == ()
        assert source.posts("/migrate") == [{"session_id": "plot-9", "destination_url": destination.url}]
        await rt.sources.get("rap").close_thread("plot-9")
        await source.until(lambda: source.posts("/close_thread"))
        moved = [path for method, path, _ in source.requests if method == "POST"]
        assert moved.index("/migrate") < moved.index("/close_thread")
        destination.manifest["tools"] = source.manifest["tools"]
        there = RapServer(name="s0", url=destination.url, allow=("127.0.0.0/8",))
        async with type(rt).open(sources=[there], rules=ALL, thread="plot-9") as after:
            await begin(after, "read_probe", {"bed": 1}, surface=await after.surface())
            assert (await destination.invoked())["group_id"] == "plot-9"


@pytest.mark.requirement("RAP-122")
async def test_a_runtime_whose_store_cannot_be_read_fails_without_requests(running, tool_server, tmp_path):
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + b"scrambled" * 1000)
    server = tool_server()
    with pytest.raises((ConfigError, StoreError), match=r"state\.db"):
        async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}):
            pass
    assert server.requests == []


@pytest.mark.requirement("RAP-144")
@pytest.mark.parametrize("member", ["tools = []", 'manifest = "tools.json"', 'endpoint = "http://h/invoke"'])
async def test_tools_are_defined_by_their_server_and_nowhere_else(tmp_path, member):
    file = tmp_path / "agenttool.toml"
    file.write_text(f'[sources.gh]\nkind = "rap"\nurl = "https://gh.example"\n{member}\n')
    with pytest.raises(ConfigError, match="a rap source has no"):
        Runtime.open(config=file)


@pytest.mark.requirement("RAP-160")
async def test_a_manifest_that_is_not_the_pinned_one_offers_nothing(running, tool_server):
    server = tool_server()
    async with running(server, pin="sha256:" + "0" * 64) as rt:
        assert "tool_s0.read_probe" not in (await rt.surface()).tool_refs
        (fault,) = rt.sources.get("rap").faults
        digest = fault.rpartition(" ")[2]
        source = RapServer(name="s0", url=server.url, allow=("127.0.0.0/8",), pin=digest)
        async with type(rt).open(sources=[source]) as other:
            assert "tool_s0.read_probe" in (await other.surface()).tool_refs
    with pytest.raises(ConfigError, match="sha256"):
        RapServer(name="s0", url="https://h", pin="md5:1")


@pytest.mark.requirement("RAP-010")
async def test_a_server_without_tls_is_logged(caplog):
    async with Runtime.open(sources=[RapServer(name="gh", url="http://127.0.0.1:9")]):
        assert "requests to the server 'gh' are sent without TLS" in caplog.text


async def test_a_base_url_keeps_its_path_and_loses_its_slash(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        source = RapServer(name="s", url=f"{server.url}/below/", allow=("127.0.0.0/8",))
        async with type(rt).open(sources=[source]) as other:
            assert "tool_s.read_probe" in (await other.surface()).tool_refs
            await other.sources.get("rap").close_thread("t")
            await server.until(lambda: server.posts("/below/close_thread"))
    assert "/below/.well-known/rap-toolset" in [path for _, path, _ in server.requests]


@pytest.mark.parametrize(
    "members",
    [{"name": "a b", "url": "http://h"}, {"name": "a", "url": "h"}, {"name": "a", "url": "http://h", "attempts": 0}],
)
def test_a_source_that_cannot_be_is_refused(members):
    with pytest.raises(ConfigError):
        RapServer(**members)


async def test_two_sources_have_two_names():
    twins = [RapServer(name="a", url="http://h"), RapServer(name="a", url="http://i")]
    with pytest.raises(ConfigError, match="two sources are named 'a'"):
        Runtime.open(sources=twins)


async def test_settings_name_sources(tmp_path, monkeypatch):
    file = tmp_path / "agenttool.toml"
    file.write_text('[sources.gh]\nkind = "rap"\nurl = "https://gh.example"\ntoken_env = "GH"\nwithin_s = 5\n')
    with pytest.raises(ConfigError, match=r"agenttool.toml:1: token_env names 'GH'"):
        Runtime.open(config=file)
    monkeypatch.setenv("GH", "a-token-of-sixteen")
    (source,) = Runtime.open(config=file).sources.get("rap").servers
    assert (source.name, source.within_s) == ("gh", 5)
    assert source.headers("GET", "https://gh.example") == {"Authorization": "Bearer a-token-of-sixteen"}
    for wrong in ("kind = 'soap'", "kind = 'rap'", "kind = 'rap'\nurl = 3", "kind = 'rap'\nurl = 'http://h'\nx = 1"):
        file.write_text(f"[sources.gh]\n{wrong}\n")
        with pytest.raises(ConfigError, match=r"agenttool.toml:[12]: "):
            Runtime.open(config=file)


async def test_a_server_that_is_found_over_tls_cannot_have_its_token_sent_in_the_clear(monkeypatch):
    posted = []

    async def connected(endpoint, addresses):
        return None

    async def resolved(*_):
        return ["203.0.113.7"]

    async def use(self, connection, endpoint, *_):
        posted.append(endpoint)
        tool = {"name": "probe", "description": "d", "inputSchema": {"type": "object"}}
        message = {"name": "gh", "endpoint": "http://gh.example/invoke", "tools": [tool]}
        return HttpReply(status=200, body=json.dumps(message).encode())

    monkeypatch.setattr(http_client, "resolve", resolved)
    monkeypatch.setattr(http_client, "_connect", connected)
    monkeypatch.setattr(HttpClient, "_use", use)
    source = RapServer(name="gh", url="https://gh.example", credential=Bearer("a-token-of-sixteen"))
    async with Runtime.open(sources=[source], rules=ALL) as rt:
        result = await rt.call("probe", {}, surface=await rt.surface())
        assert result.is_error
        assert "https" in str(result.error)
    assert all(endpoint.is_tls for endpoint in posted)


@pytest.mark.requirement("RAP-025")
async def test_a_runtime_with_an_address_also_listens_where_calls_were_sent_from_without_one(
    running, tool_server, started, tmp_path
):
    server, place = tool_server(), {"store": f"sqlite:{tmp_path}/state.db"}
    async with running(server, options=place) as rt:
        call, invocation = await started(rt, server)
    elsewhere = {**place, "callback_url": "https://agents.example"}
    source = RapServer(name="s0", url=server.url, allow=("127.0.0.0/8",))
    async with Runtime.open(sources=[source], **elsewhere) as rt:
        async with Runtime.open(sources=[source], **place) as beside:
            assert "held by another program" not in str(beside.sources.get("rap").faults)
        assert await server.settle(invocation, "wet") == 200
        assert await rt.sources.get("rap").callbacks.results.get(call.invocation_id) is None


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(discovery, "MAX_DELAY_S", 0.02)


async def until(true):
    """Wait until something is so."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 -- what is awaited has no event
            await asyncio.sleep(0.01)


async def there(rt):
    """Wait until the first server has said what it offers."""
    await until(lambda: rt.sources.get("rap").health()[0].is_ready)


async def test_a_server_that_comes_later_takes_no_name_from_one_that_offers_it(away, tool_server, caplog):
    early = tool_server(tools=["read_probe", "water"])
    async with away(early) as (rt, late):
        late.manifest["tools"].append({"name": "dig", "description": "d", "inputSchema": {"type": "object"}})
        surface = await rt.surface()
        first = await begin(rt, "read_probe", {"bed": 1}, surface=surface)
        invoked = await early.invoked()
        await there(rt)
        await until(lambda: not rt.sources.get("rap").awaits("tool_s0.dig"))
        current = rt.surfaces.current(surface)
        assert {"tool_s1.read_probe", "tool_s1.water", "tool_s0.dig"} <= set(current.tool_refs)
        assert "tool_s0.read_probe" not in current.tool_refs
        second = await begin(rt, "read_probe", {"bed": 2}, surface=current)
        await early.settle(invoked, "wet")
        assert (await rt.calls.get(first.invocation_id).result()).content[0].text == "wet"
        assert (await rt.call("s0.read_probe", {"bed": 1}, surface=current)).error.error_class == "blocked_tool"
        assert late.invocations == []
        await early.settle(await early.invoked(2), "dry")
        assert (await rt.calls.get(second.invocation_id).result()).content[0].text == "dry"
        [fault] = rt.sources.get("rap").faults
        assert "tools of 's0' cannot be offered: 'read_probe', because 's1' offers that name already" in fault
        assert caplog.text.count(fault) == 1
        message = await status_of(rt)
        assert message["faults"] == [fault]
        assert [(each["name"], each["withheld"]) for each in message["sources"]] == [("s0", ["read_probe"]), ("s1", [])]


async def test_a_withheld_name_stays_withheld_when_another_server_answers(away, tool_server):
    one, other = tool_server(tools=["read_probe", "water"]), tool_server(tools=["read_probe"])
    async with away(one, other) as (rt, _):
        await there(rt)
        await until(lambda: not rt.sources.get("rap").awaits("tool_s0.read_probe"))
        assert [each for each in (await rt.surface()).tool_refs if each.endswith("read_probe")] == []
        assert [each["withheld"] for each in (await status_of(rt))["sources"]] == [["read_probe"]] * 3


async def test_a_late_tool_that_the_runtime_cannot_have_costs_no_other(away):
    @tool(namespace="s0")
    def read_probe() -> str:
        """Read."""
        return "ours"

    async with away(options={"tools": [read_probe]}) as (rt, server):
        assert (await rt.call("s0.read_probe", {}, surface=await rt.surface())).content[0].text == "ours"
        server.manifest["tools"].append({"name": "water", "description": "d", "inputSchema": {"type": "object"}})
        await there(rt)
        (fault,) = rt.sources.get("rap").faults
        assert "'read_probe' of 's0' cannot be offered" in fault
        surface = await rt.surface()
        assert "tool_s0.water" in surface.tool_refs
        assert (await rt.call("s0.read_probe", {}, surface=surface)).content[0].text == "ours"
