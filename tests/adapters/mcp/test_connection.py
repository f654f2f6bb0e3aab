"""Servers that hang, die, flood, print garbage, or send too much: each costs only its own calls."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import wait_until

from agenttool import ProviderState
from agenttool.adapters.mcp import source
from agenttool.records import ErrorClass, NextAction, ToolProgress

OWNER = Path(__file__).parents[2] / "support" / "mcp_owner.py"


async def test_a_server_that_hangs_at_start_costs_only_its_own_tools(open_server, server, monkeypatch):
    monkeypatch.setattr(source, "FIRST_ANSWER_S", 0.5)
    async with open_server(more=(server("hang=1", name="stuck"),)) as rt:
        while not rt.sources.status_of("fx").is_ready:
            await asyncio.sleep(0.01)
        fine = await rt.call("fx.echo", {"text": "hi"})
        missing = await rt.call("stuck.echo", {"text": "hi"})
        _, stuck = await rt.sources.status()
        shown = {each.name for each in rt.offered(await rt.surface())}
    assert fine.ok
    assert (missing.error.error_code, missing.error.next_action) == ("pending_provider", NextAction.WAIT_FOR_PROVIDER)
    assert stuck.state is ProviderState.CONNECTING
    assert "has not listed its tools" in stuck.fault
    assert "echo" in shown


@pytest.mark.parametrize(
    ("options", "settings", "words", "line"),
    [
        (("exit=3",), {}, "closed the connection", "fixture: started"),
        (
            ("hang=1",),
            {"start_timeout_s": 0.5},
            "did not start within 0.5 s",
            "agenttool: the server 'fx' did not start within 0.5 s",
        ),
    ],
)
async def test_a_server_that_cannot_start_is_tried_again_and_says_when(open_server, options, settings, words, line):
    async with open_server(*options, **settings) as rt:
        (status,) = await rt.sources.status()
        result = await rt.call("fx.echo", {"text": "hi"})
        lines = rt.sources.get("fx").log
    assert status.state is ProviderState.CONNECTING
    assert words in status.fault
    assert status.next_try_at_ns is not None
    assert result.error.error_code == "pending_provider"
    assert line in lines


async def test_a_command_that_does_not_exist_is_named(open_server):
    async with open_server(command="no-such-program", args=()) as rt:
        (status,) = await rt.sources.status()
    assert status.state is ProviderState.UNAVAILABLE
    assert "the command 'no-such-program' was not found; install it" in status.fault


async def test_a_server_that_dies_in_a_call_is_started_again_for_the_next_one(open_server):
    async with open_server() as rt:
        lost = await rt.call("fx.die", {})
        after = await rt.call("fx.echo", {"text": "back"})
        lines = rt.sources.get("fx").log
    assert (lost.error.error_class, lost.error.error_code) == (ErrorClass.DEPENDENCY_UNAVAILABLE, "connection_lost")
    assert lost.error.retry.safe is False
    assert after.text == "back"
    assert "agenttool: the process ended with exit code 3" in lines


async def test_a_server_that_dies_again_and_again_is_delayed(open_server):
    async with open_server() as rt:
        for _ in range(2):
            await rt.call("fx.die", {})
        result = await rt.call("fx.echo", {"text": "hi"})
    assert result.error.error_class is ErrorClass.DEPENDENCY_UNAVAILABLE
    assert result.error.retry_after > 0
    assert "tried again" in result.error.message


async def test_text_on_standard_output_is_logged_and_ignored(open_server):
    async with open_server("garbage=1") as rt:
        result = await rt.call("fx.echo", {"text": "hi"})
        lines = rt.sources.get("fx").log
    assert result.ok
    assert "stdout: Welcome to the fixture server!" in lines
    assert "stdout: {not json}" in lines


@pytest.mark.parametrize("id_last", [False, True])
async def test_a_very_long_result_is_refused_in_bounded_memory(open_server, id_last):
    async with open_server() as rt:
        await rt.call("fx.echo", {"text": "warm"})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        refused = await rt.call("fx.big", {"bytes": 200_000_000, "id_last": id_last})
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        after = await rt.call("fx.echo", {"text": "hi"})
    assert (refused.error.error_class, refused.error.error_code) == (ErrorClass.RESULT_TOO_LARGE, "message_too_large")
    assert "16777216 bytes are allowed (max_message_bytes)" in refused.error.message
    assert grown_kb < 100_000
    assert after.ok


async def test_a_result_of_very_many_blocks_is_refused(open_server, monkeypatch):
    monkeypatch.setattr("agenttool.adapters.mcp.content.MAX_BLOCKS", 2)
    async with open_server() as rt:
        result = await rt.call("fx.content", {})
    assert (result.error.error_class, result.error.error_code) == (ErrorClass.RESULT_TOO_LARGE, "too_many_blocks")
    assert "at most 2 are accepted; ask for less" in result.error.message


async def test_a_flood_of_progress_is_bounded(open_server):
    async with open_server() as rt:
        result = await rt.call("fx.flood", {"count": 20_000})
        events = [each async for each in rt.journal.export() if isinstance(each, ToolProgress)]
    assert result.text == "flooded"
    assert 0 < len(events) < 1000


async def test_a_result_that_does_not_fit_its_schema_is_reported(open_server):
    async with open_server() as rt:
        lie, broken = await rt.call("fx.lie", {}), await rt.call("fx.no_content", {})
    assert lie.error.error_class is ErrorClass.RESULT_MAPPING_FAILED
    assert "/sum must be integer" in lie.error.message
    assert broken.error.error_code == "invalid_result"


async def test_the_faults_of_servers_do_not_disturb_another(open_server, server):
    faults = {
        "noisy.flood": {"count": 20_000},
        "large.big": {"bytes": 50_000_000},
        "noisy.lie": {},
        "noisy.no_content": {},
        "dying.die": {},
    }
    others = (server("garbage=1", name="noisy"), server(name="large"), server(name="dying"))
    async with open_server(more=others) as rt:
        pid = (await rt.call("fx.pid", {})).text
        calls = [rt.call(name, given) for name, given in faults.items()]
        calls += [rt.call("fx.echo", {"text": str(number)}) for number in range(20)]
        results = await asyncio.gather(*calls)
        same = (await rt.call("fx.pid", {})).text
    assert [each.is_error for each in results[: len(faults)]] == [False, True, True, True, True]
    assert [each.text for each in results[len(faults) :]] == [str(number) for number in range(20)]
    assert same == pid


class FirstProgress:
    """An observer that notes when the server runs a call; a start returns earlier, when the approver is asked."""

    def __init__(self):
        self.seen = asyncio.Event()

    def started(self, invocation_id, /):
        pass

    def progressed(self, update, /):
        self.seen.set()

    def ended(self, result, /):
        self.seen.set()


async def start_slow(rt, name, **options):
    """Start a call, and return once the server runs it."""
    observer = FirstProgress()
    started = await rt.start(name, {}, observer=observer, **options)
    await observer.seen.wait()
    return started


async def test_a_call_that_hangs_at_one_server_holds_up_the_calls_of_that_server_alone(open_server, server, tmp_path):
    log = tmp_path / "messages"
    async with open_server(more=(server(f"log={log}", name="stuck"),)) as rt:
        stuck = await start_slow(rt, "stuck.slow")
        behind = asyncio.create_task(rt.call("stuck.echo", {"text": "later"}))
        assert (await rt.call("fx.echo", {"text": "now"})).text == "now"
        assert not behind.done()
        assert await rt.cancel(stuck.invocation_id)
        assert (await behind).text == "later"
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["params"]["name"] for each in sent if each["method"] == "tools/call"] == ["slow", "echo"]


async def test_calls_of_a_server_run_at_the_same_time_if_the_owner_says_so(open_server):
    async with open_server(parallel=True) as rt:
        slow = await start_slow(rt, "fx.slow")
        assert (await rt.call("fx.echo", {"text": "now"})).text == "now"
        assert await rt.cancel(slow.invocation_id)


async def test_the_connections_of_actors_are_bounded_and_the_one_that_is_idle_for_longest_is_closed(
    open_server, monkeypatch
):
    monkeypatch.setattr("agenttool.adapters.mcp.source.MAX_ACTORS", 2)
    async with open_server(sessions="actor", parallel=True) as rt:
        pids = {}
        for actor in ("ada", "bob", "ada", "eve"):
            pids[actor] = (await rt.call("fx.pid", {}, actor_ref=actor)).text
        while is_running(int(pids["bob"])):
            await asyncio.sleep(0.01)
        assert (await rt.call("fx.pid", {}, actor_ref="ada")).text == pids["ada"]
        busy = [await start_slow(rt, "fx.slow", actor_ref=actor) for actor in ("ada", "eve")]
        refused = await rt.call("fx.pid", {}, actor_ref="bob")
        for each in busy:
            await rt.cancel(each.invocation_id)
    assert refused.error.message.startswith("nothing was sent: 2 actors use the server 'fx' now")


async def test_invalid_definitions_cost_only_their_own_tools(open_server, tmp_path):
    definitions = tmp_path / "definitions.json"
    definitions.write_text('[{"name": 7}, {"name": "odd", "inputSchema": {"type": "nonsense"}}, {"description": "x"}]')
    async with open_server(f"definitions={definitions}") as rt:
        (status,) = await rt.sources.status()
        result = await rt.call("fx.echo", {"text": "hi"})
    assert result.ok
    assert status.is_ready
    assert "a tool has no name, got 7" in status.fault
    assert "'odd' is not offered" in status.fault


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def test_closing_a_runtime_ends_the_server_and_the_processes_below_it(open_server, tmp_path):
    pids = tmp_path / "pids"
    async with open_server(f"child={pids}") as rt:
        assert (await rt.call("fx.echo", {"text": "hi"})).ok
    wait_until(lambda: not any(map(is_running, map(int, pids.read_text().split()))))


@pytest.mark.slow
async def test_no_server_process_outlives_a_killed_owner(tmp_path):
    pids = tmp_path / "pids"
    owner = subprocess.Popen([sys.executable, str(OWNER), f"child={pids}"], stdout=subprocess.PIPE)
    try:
        assert (await asyncio.to_thread(owner.stdout.readline)) == b"ready\n"
        found = list(map(int, pids.read_text().split()))
        assert all(map(is_running, found))
        os.kill(owner.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, found)))
    finally:
        owner.kill()
        owner.communicate()
