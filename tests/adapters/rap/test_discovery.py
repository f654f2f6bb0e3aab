"""Servers that come later than their runtime: awaited without haste, and then as if they had been there all along."""

import asyncio
import logging
import sys
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from starting import begin

from agenttool import Runtime
from agenttool.adapters import declared_tools
from agenttool.adapters.rap import discovery
from agenttool.adapters.rap.settings import RapServer
from agenttool.durable import deferred_results, recovery
from agenttool.errors import StoreError
from agenttool.policy.rules import Rule
from agenttool.ports.source import SourceStatus
from agenttool.ports.surfacing import ProviderState, Role
from agenttool.records import Behavior, EventType, RuleSource, ToolEvent
from agenttool.server.stream_routes import status_of

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
WELL_KNOWN = "/.well-known/rap-toolset"


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(discovery, "MAX_DELAY_S", 0.02)
    monkeypatch.setattr(deferred_results, "REDELIVER_EVERY_S", 0.02)


async def until(true):
    """Wait until something is so."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 -- what is awaited has no event
            await asyncio.sleep(0.01)


async def there(rt, place=0):
    """Wait until a server has said what it offers."""
    await until(lambda: rt.sources.get("rap").health()[place].is_ready)


def asked(server):
    return [path for method, path, _ in server.requests if method == "GET"]


async def test_tools_of_a_server_that_comes_later_appear_by_themselves(away):
    async with away() as (rt, server):
        before = await rt.surface()
        assert "tool_s0.read_probe" not in before.tool_refs
        assert (await rt.call("read_probe", {"bed": 1}, surface=before)).is_error
        await there(rt)
        after = rt.surfaces.current(before)
        assert "tool_s0.read_probe" in after.tool_refs
        assert rt.sources.get("rap").faults == ()
        call = await begin(rt, "read_probe", {"bed": 1}, surface=after)
        await server.settle(await server.invoked(), "wet")
        assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "wet"
        events = [each async for each in rt.journal.export() if isinstance(each, ToolEvent)]
        assert EventType.SURFACE_UPDATED in [each.event_type for each in events]


async def test_a_search_says_which_server_is_still_awaited(away):
    async with away(times=20) as (rt, _):
        surface = await rt.surface()
        found = await rt.search("select:s0.read_probe", surface=surface)
        assert (found.pending_providers, found.next_action) == (("s0",), "wait_for_provider")
        await rt.surfaces.change(providers={"elsewhere": "connecting"})
        found = await rt.search("select:s0.read_probe", surface=rt.surfaces.current(surface))
        assert found.pending_providers == ("elsewhere", "s0")
        await rt.surfaces.change(providers={})
        await there(rt)
        found = await rt.search("select:s0.read_probe", surface=rt.surfaces.current(surface))
        assert (found.pending_providers, [each.tool_id for each in found.matches]) == ((), ["tool_s0.read_probe"])


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (503, "pending_provider", "has not listed its tools yet"),
        (404, "unavailable_provider", "did not return a usable list of tools"),
    ],
)
async def test_a_call_of_a_tool_whose_server_has_not_said_what_it_offers_says_what_to_wait_for(
    away, monkeypatch, status, code, message
):
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 40.0)
    monkeypatch.setattr(discovery, "MAX_DELAY_S", 40.0)
    async with away(status=status) as (rt, server):
        surface = await rt.surface()
        result = await rt.call("s0.read_probe", {"bed": 1}, surface=surface)
        error, again_ns = result.error, rt.sources.get("rap").health()[0].next_try_at_ns
        assert (error.error_class, error.error_code, error.next_action) == ("unknown_tool", code, "wait_for_provider")
        assert f"'s0' {message}" in error.message
        assert again_ns is not None
        assert 1 <= error.retry_after <= 40
        assert f"Wait {error.retry_after:g} seconds first" in result.content[0].text
        assert error.retry.safe
        for unknown in ("s1.read_probe", "read_probe", "s0"):
            found = (await rt.call(unknown, {"bed": 1}, surface=surface)).error
            assert (found.error_code, found.next_action, found.retry_after) == ("unknown_tool", None, None)
        assert server.invocations == []


async def test_a_caller_that_may_not_see_every_tool_learns_nothing_of_servers_that_are_away(away):
    async with away(times=1000) as (rt, _):
        surface = await rt.surface(role=Role(name="guest", tools=("files.*",)))
        assert (await rt.call("s0.read_probe", {}, surface=surface)).error.error_code == "unknown_tool"


async def test_a_call_on_an_old_surface_names_the_current_one(away):
    async with away() as (rt, _):
        surface = await rt.surface()
        await there(rt)
        await until(lambda: not rt.sources.get("rap").awaits("tool_s0.read_probe"))
        error = (await rt.call("s0.read_probe", {"bed": 1}, surface=surface)).error
        assert (error.error_class, error.error_code) == ("blocked_tool", "later_surface")


@pytest.mark.requirement("RAP-157")
async def test_a_server_that_has_said_what_it_offers_is_not_asked_again(away):
    async with away(times=2) as (rt, server):
        await there(rt)
        server.manifest["tools"] = []
        await asyncio.sleep(0.1)
        assert asked(server) == [WELL_KNOWN] * 3
        assert rt.sources.get("rap").health()[0].next_try_at_ns is None


async def test_retries_stop_when_the_runtime_closes(away):
    async with away(times=1000) as (_, server):
        await server.until(lambda: len(asked(server)) > 3)
    before = len(asked(server))
    await asyncio.sleep(0.1)
    assert len(asked(server)) == before


@pytest.mark.parametrize("status", [404, 401])
async def test_a_server_that_refuses_is_asked_seldom_and_not_called_pending(away, status):
    async with away(times=2, status=status) as (rt, _):
        assert rt.sources.get("rap").health()[0].state is ProviderState.UNAVAILABLE
        assert ("check its url" if status == 404 else "check its credential") in rt.sources.get("rap").faults[0]
        assert (await rt.search("probe", surface=await rt.surface())).pending_providers == ()
        await there(rt)
        assert "tool_s0.read_probe" in (await rt.surface()).tool_refs


def test_the_longer_it_takes_the_less_often_a_server_is_asked(monkeypatch):
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 1.0)
    monkeypatch.setattr(discovery, "MAX_DELAY_S", 60.0)

    def delay(state, tries):
        return discovery._delay(SourceStatus(source="s", state=state, since_ns=0, tries=tries))

    for tries, longest in ((1, 1), (2, 2), (4, 8), (7, 60), (10_000, 60)):
        assert longest / 2 <= delay(ProviderState.CONNECTING, tries) <= longest
    assert 30 <= delay(ProviderState.UNAVAILABLE, 1) <= 60


async def test_how_a_server_is_awaited_can_be_seen_and_is_logged_less_and_less(away, caplog):
    with caplog.at_level(logging.WARNING, "agenttool.rap"):
        async with away(times=9) as (rt, _):
            (standing,) = rt.sources.get("rap").health()
            assert standing.state is ProviderState.CONNECTING
            assert "503" in standing.fault
            began = standing.since_ns
            await until(lambda: rt.sources.get("rap").health()[0].tries == 4)
            (standing,) = rt.sources.get("rap").health()
            assert standing.since_ns == began < standing.next_try_at_ns
            await there(rt)
            assert rt.sources.get("rap").health()[0].since_ns > began
    messages = [each.getMessage() for each in caplog.records if "manifest" in each.getMessage()]
    assert [each.rpartition("(")[2] for each in messages[1:]] == ["2 tries)", "4 tries)", "8 tries)"]
    assert "is ready after 10 tries" in caplog.text


@pytest.mark.requirement("RAP-154", "RAP-155")
async def test_a_late_manifest_is_valid_as_a_whole_or_offers_nothing(away):
    async with away(times=2) as (rt, server):
        good = server.manifest["tools"]
        server.manifest["tools"] = [*good, {"name": "bad", "description": "d", "inputSchema": True}]
        await until(lambda: rt.sources.get("rap").health()[0].state is ProviderState.UNAVAILABLE)
        assert "tool_s0.read_probe" not in (await rt.surface()).tool_refs
        assert "none of its tools is offered" in rt.sources.get("rap").faults[0]
        server.manifest["tools"] = good
        await there(rt)
        assert "tool_s0.read_probe" in (await rt.surface()).tool_refs
        assert rt.sources.get("rap").faults == ()


async def test_a_change_that_cannot_be_stored_is_retried(away, monkeypatch):
    async with away() as (rt, _):
        really, failed = rt._agent.declare, []

        def declare(tool):
            if not failed:
                failed.append(tool)
                raise StoreError("the disk is full")
            really(tool)

        monkeypatch.setattr(rt._agent, "declare", declare)
        surface = await rt.surface()
        async with asyncio.timeout(60):
            while "tool_s0.read_probe" not in rt.surfaces.current(surface).tool_refs:  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.01)
        assert failed


async def test_a_sub_agent_gets_no_tool_that_came_after_it_and_leaves_its_parents_ears_alone(away):
    async with away() as (rt, server):
        async with rt.child(await rt.surface()) as child:
            own = await child.surface()
            await there(rt)
            assert "tool_s0.read_probe" not in child.surfaces.current(own).tool_refs
        call = await begin(rt, "read_probe", {"bed": 1}, surface=await rt.surface())
        assert await server.settle(await server.invoked(), "wet") == 200
        assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "wet"


@pytest.fixture
def taken_up(serve_app, tool_server, started, tmp_path, monkeypatch):
    """Start a call, close its runtime, and open another one while the server is not there.

    With `forgets`, the store has no manifest of the server, as after an upgrade.
    """
    monkeypatch.setattr(recovery, "RECOVER_EVERY_S", 1000.0)  # whatever settles, settles because the server has come

    @asynccontextmanager
    async def taken_up(*, forgets=False):
        server, stored = tool_server(), f"sqlite:{tmp_path}/state.db"
        async with serve_app(server, lifespan="off") as server.url:
            sources = [RapServer(name="s0", url=server.url, allow=["127.0.0.0/8"])]
            async with Runtime.open(sources=sources, store=stored, rules=ALL) as before:
                call, invocation = await started(before, server)
                if forgets:
                    await before._core.durability.documents.put("rap_toolset", "s0", None)
            server.statuses[WELL_KNOWN] = [503] * 1000
            async with Runtime.open(sources=sources, store=stored, rules=ALL) as rt:
                yield rt, server, call.invocation_id, invocation
            await server.hang_up()

    return taken_up


@pytest.mark.requirement("RAP-123")
async def test_a_result_settles_its_call_though_the_server_is_away_because_the_manifest_is_stored(taken_up):
    async with taken_up() as (rt, server, call, invocation):
        assert await server.settle(invocation, "wet") == 200
        assert (await rt.calls.get(call).result(within_s=60)).content[0].text == "wet"
        status = await status_of(rt)
        assert (status["unsettled"], status["sources"][0]["state"]) == ([], "connecting")


async def test_without_a_manifest_a_result_settles_its_call_when_the_server_comes(taken_up):
    async with taken_up(forgets=True) as (rt, server, call, invocation):
        assert await server.settle(invocation, "wet") == 200
        (unsettled,) = await rt.deferred.unsettled()
        assert (unsettled.invocation_id, await rt.deferred.list(), await rt.journal.result(call)) == (call, (), None)
        status = await status_of(rt)
        assert [each["awaits"] for each in status["unsettled"]] == ["s0"]
        assert [(each["name"], each["state"]) for each in status["sources"]] == [("s0", "connecting")]
        server.statuses.clear()
        assert (await rt.calls.get(call).result(within_s=60)).content[0].text == "wet"
        status = await status_of(rt)
        assert (status["unsettled"], status["sources"][0]["state"], status["faults"]) == ([], "ready", [])


async def test_a_result_that_came_after_days_is_not_given_up_because_its_server_is_away(taken_up, monkeypatch):
    monkeypatch.setattr(recovery, "ABANDONED_AFTER_S", 0.0)  # the call was made long ago
    async with taken_up(forgets=True) as (rt, server, call, invocation):
        assert await server.settle(invocation, "wet") == 200
        assert await rt._agent.recovery.recover() == 0
        server.statuses.clear()
        assert (await rt.calls.get(call).result(within_s=60)).content[0].text == "wet"


async def test_a_choice_that_was_made_while_its_server_was_away_is_brought_when_it_comes(taken_up):
    choice = {"prompt": "Open it?", "choices": ["Yes", "No"], "default": 1}
    async with taken_up(forgets=True) as (rt, server, call, invocation):
        assert await server.post(invocation, "user_choice", response_url=f"{server.url}/picked", **choice) == 200
        (prompt,) = await rt.prompts.list()
        assert not (await rt.prompts.choose(prompt.prompt_id, 0)).is_delivered
        server.statuses.clear()
        assert await server.until(lambda: server.posts("/picked")) == [{"id": call, "selected": 0}]
        await server.settle(invocation, "open")
        assert (await rt.calls.get(call).result(within_s=60)).content[0].text == "open"


async def test_a_subscription_and_its_events_need_not_wait_for_their_server(taken_up):
    async with taken_up() as (rt, server, call, invocation):
        assert await server.settle(invocation, "watching", subscription=True) == 200
        assert await server.post(invocation, "subscription_event", text="one") == 200
        server.statuses.clear()
        assert (await rt.calls.get(call).result(within_s=60)).content[0].text == "watching"
        assert await server.post(invocation, "subscription_event", text="two", final=True) == 200
        assert [each.text for each in await rt.sources.get("rap").subscriptions.events()] == ["one", "two"]


@pytest.fixture
def returning(serve_app, tool_server, tmp_path):
    """Load a manifest and close the runtime; open another one with other settings while the server is away."""

    @asynccontextmanager
    async def returning(tools=("read_probe",), **settings):
        server, stored = tool_server(tools=tools), f"sqlite:{tmp_path}/state.db"
        async with serve_app(server, lifespan="off") as server.url:
            first = RapServer(name="s0", url=server.url, allow=["127.0.0.0/8"])
            async with Runtime.open(sources=[first], store=stored, rules=ALL):
                pass
            server.statuses[WELL_KNOWN] = [503] * 1000
            source = RapServer(**{"name": "s0", "url": server.url, "allow": ["127.0.0.0/8"], **settings})
            async with Runtime.open(sources=[source], store=stored, rules=ALL) as rt:
                yield rt, server
            await server.hang_up()

    return returning


def pending(surface):
    return [each.name for each in surface.deferred_tools if each.loading_state == "pending_provider"]


@pytest.mark.requirement("RAP-123", "RAP-158")
async def test_the_manifest_of_a_server_that_is_back_replaces_the_stored_one(returning):
    async with returning(tools=("read_probe", "water")) as (rt, server):
        surface = await rt.surface()
        assert sorted(pending(surface)) == ["read_probe", "water"]
        [tool, _] = server.manifest["tools"]
        server.manifest["tools"] = [{**tool, "description": "Read it well."}, {**tool, "name": "prune"}]
        server.statuses.clear()
        await there(rt)
        await until(lambda: not rt.sources.get("rap").awaits("tool_s0.prune"))
        current = await rt.surface()
        assert {each for each in current.tool_refs if ".s0" in each or "_s0" in each} == {
            "tool_s0.prune",
            "tool_s0.read_probe",
        }
        found = await rt.search("select:s0.read_probe", surface=current)
        assert found.missing_names == ()
        assert rt._agent.catalog.find("tool_s0.read_probe").tool.declaration.description == "Read it well."
        error = (await rt.call("water", {"bed": 1}, surface=current)).error
        assert error.error_class.value == "blocked_tool"


@pytest.mark.parametrize("settings", [{"pin": "sha256:" + "0" * 64}, {"url": "http://127.0.0.1:9"}, {"name": "s1"}])
async def test_a_stored_manifest_is_used_only_for_its_own_server_and_pin(returning, settings):
    async with returning(**settings) as (rt, _):
        assert pending(await rt.surface()) == []


async def test_a_late_server_with_many_tools_does_not_block_the_event_loop(away, monkeypatch):
    monkeypatch.setattr(declared_tools, "_DECLARED_AT_A_TIME", 10)
    async with away(times=2) as (rt, server):
        [tool] = server.manifest["tools"]
        server.manifest["tools"] = [{**tool, "name": f"probe_{each}"} for each in range(100)]
        host, seen, turns = rt.sources.get("rap")._host, [], 0

        def counted(made):
            seen.append(turns)
            return host.declare(made)

        rt.sources.get("rap")._host = replace(host, declare=counted)
        async with asyncio.timeout(60):
            while len(seen) < 100:
                turns += 1
                await asyncio.sleep(0)
        assert max(map(seen.count, seen)) <= 10
        await until(lambda: not rt.sources.get("rap")._update_lock.locked())
        assert len([each for each in (await rt.surface()).tool_refs if each.startswith("tool_s0.")]) == 100


async def test_a_slow_server_does_not_delay_opening_and_is_discovered_later(running, tool_server, monkeypatch):
    monkeypatch.setattr(discovery, "FIRST_ANSWER_S", 0.05)

    class Slow(tool_server):
        continues = asyncio.Event()

        async def __call__(self, scope, receive, send):
            await self.continues.wait()
            await super().__call__(scope, receive, send)

    slow, quick = Slow(), tool_server("quick", tools=("look",))
    async with running(slow, quick) as rt:
        await there(rt, 1)
        assert rt.sources.get("rap").health()[0].state is ProviderState.CONNECTING
        assert "sent no manifest within 0.05 s" in rt.sources.get("rap").health()[0].fault
        slow.continues.set()
        await there(rt)
        assert "tool_s0.read_probe" in (await rt.surface()).tool_refs


CALLER = """
import asyncio, sys
from agenttool import Runtime
from agenttool.adapters.rap.settings import RapServer
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

async def main(url, store, within_s):
    source = RapServer(name="s0", url=url, allow=("127.0.0.1",), within_s=float(within_s) or None, attempts=3)
    rules = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
    async with Runtime.open(sources=[source], rules=rules, store=store, lease_s=1.0) as rt:
        await rt.call("read_probe", {"bed": 3}, surface=await rt.surface())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def unacknowledged(serve_app, tool_server, tmp_path, monkeypatch):
    """Kill a process while its call is unacknowledged, and open a runtime on its store while the server is down."""
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 0.1)
    monkeypatch.setattr(discovery, "MAX_DELAY_S", 0.1)

    @asynccontextmanager
    async def unacknowledged(within_s=0):
        server, store, release = tool_server(), f"sqlite:{tmp_path}/calls.db", asyncio.Event()

        async def stall(_):
            await release.wait()

        server.on_invoke = stall
        async with asyncio.timeout(90):
            async with serve_app(server, lifespan="off") as server.url:
                program = [sys.executable, "-c", CALLER, server.url, store, str(within_s)]
                child = await asyncio.create_subprocess_exec(*program)
                invocation = await server.invoked()
                child.kill()
                await child.wait()
                release.set()
            source = RapServer(name="s0", url=server.url, allow=("127.0.0.1",), within_s=within_s or None, attempts=3)
            async with Runtime.open(sources=[source], rules=ALL, store=store, lease_s=1.0) as rt:
                yield rt, server, invocation
            await server.hang_up()

    return unacknowledged


@pytest.mark.slow
async def test_a_call_to_be_sent_again_waits_for_its_server(unacknowledged, serve_app):
    async with unacknowledged() as (rt, server, invocation):
        (status,) = await rt.sources.status()
        assert status.state.value == "connecting"
        await asyncio.sleep(2.0)  # the lease of the dead process expires
        assert await rt.calls.recover() == 0
        assert [each.is_sent for each in await rt.deferred.list()] == [False]
        async with serve_app(server, lifespan="off", port=int(server.url.rpartition(":")[2])):
            assert (await server.invoked(2))["id"] == invocation["id"]
            assert await server.settle(server.invocations[-1], "wet") == 200
            assert (await rt.calls.get(invocation["id"]).result()).content[0].text == "wet"


@pytest.mark.slow
@pytest.mark.requirement("RAP-127")
async def test_within_s_holds_though_the_process_and_the_server_are_dead(unacknowledged):
    async with unacknowledged(within_s=3) as (rt, server, invocation):  # so long that a busy machine has sent it
        result = await rt.calls.get(invocation["id"]).result()
        assert result.error.error_class.value == "timeout"
        assert len(server.invocations) == 1
