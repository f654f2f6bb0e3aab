"""A tool server that is killed: its tools are pending, its state is visible, and its calls continue when it is back."""

import asyncio
import re
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import pytest
from starting import begin

from agenttool import Runtime
from agenttool.adapters.rap import discovery
from agenttool.adapters.rap.settings import RapServer
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.server.stream_routes import status_of

ALL = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
PROVIDER = '''
import asyncio
from pathlib import Path
from agenttool.rap import Provider

provider = Provider("greenhouse", allow=["127.0.0.1"])

@provider.tool(idempotent=True)
async def grow(bed: int) -> str:
    """Grow a bed."""
    with Path("ran.txt").open("a") as ran:
        ran.write(f"{bed} ")
    while not Path("ripe").exists():
        await asyncio.sleep(0.02)
    return f"bed {bed} is ripe"
'''
UTC = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(discovery, "PROBE_S", 0.05)
    monkeypatch.setattr(discovery, "FIRST_DELAY_S", 2.0)
    monkeypatch.setattr(discovery, "MAX_DELAY_S", 2.0)


class Greenhouse:
    """A provider as a process, on one port, and runtimes on one store."""

    def __init__(self, folder, port):
        (folder / "greenhouse.py").write_text(PROVIDER)
        self.folder, self.port, self.store = folder, port, f"sqlite:{folder}/calls.db"

    @contextmanager
    def running(self):
        program = [sys.executable, "-m", "agenttool", "rap", "serve", "greenhouse:provider", "--port", str(self.port)]
        with subprocess.Popen([*program, "--json"], cwd=self.folder, stdout=subprocess.PIPE) as child:
            try:
                assert child.stdout.readline()
                yield child
            finally:
                child.kill()

    @asynccontextmanager
    async def runtime(self, **settings):
        url = f"http://127.0.0.1:{self.port}"
        source = RapServer(name="gh", url=url, allow=("127.0.0.1",), **settings)
        async with Runtime.open(sources=[source], rules=ALL, store=self.store) as rt, asyncio.timeout(90):
            yield rt

    async def show(self, invocation_id):
        program = [sys.executable, "-m", "agenttool", "show", invocation_id, "--store", f"{self.folder}/calls.db"]
        child = await asyncio.create_subprocess_exec(*program, stdout=subprocess.PIPE)
        shown, _ = await child.communicate()
        return " ".join(shown.decode().split())


@pytest.fixture
def greenhouse(tmp_path, free_port):
    return Greenhouse(tmp_path, free_port())


async def in_state(rt, state):
    """Wait until the server is in a state; give its status."""
    while True:
        (status,) = await rt.sources.status()
        if status.state.value == state:
            return status
        await asyncio.sleep(0.02)


async def callable_again(rt, surface):
    """Wait until the tools of the server can be called; give the current surface."""
    while True:
        current = rt.surfaces.current(surface)
        if not any(each.namespace == "gh" for each in current.deferred_tools):
            return current
        await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_server_that_is_killed_is_visible_everywhere_until_it_is_back(greenhouse):
    with greenhouse.running() as provider:
        async with greenhouse.runtime() as rt:
            surface = await rt.surface()
            call = await begin(rt, "grow", {"bed": 3}, surface=surface)
            assert (await status_of(rt))["sources"][0]["state"] == "ready"
            assert "its server works on it" in await greenhouse.show(call.invocation_id)
            provider.kill()
            provider.wait()
            status = await in_state(rt, "connecting")
            (row,) = (await status_of(rt))["sources"]
            assert (row["name"], row["state"], row["last_error"]) == ("gh", "connecting", status.fault)
            assert "the connection failed" in status.fault
            assert 0 < row["since_ns"] < row["next_try_at_ns"]
            shown = await greenhouse.show(call.invocation_id)
            assert re.search(f"its server 'gh' has not answered since {UTC} \\(.*the connection failed.*\\)", shown)
            assert re.search(f"the next attempt is at {UTC}", shown)
            result = await rt.call("grow", {"bed": 4}, surface=surface)
            assert (result.error.error_class.value, result.error.error_code) == (
                "dependency_unavailable",
                "pending_provider",
            )
            (greenhouse.folder / "ripe").touch()
            with greenhouse.running():
                await in_state(rt, "ready")
                assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "bed 3 is ripe"
                assert not (await rt.call("grow", {"bed": 5}, surface=await callable_again(rt, surface))).is_error
    assert " 4 " not in (greenhouse.folder / "ran.txt").read_text()


@pytest.mark.slow
async def test_a_call_that_finds_its_server_dead_reports_it_at_once(greenhouse, monkeypatch):
    monkeypatch.setattr(discovery, "PROBE_S", 1e6)
    with greenhouse.running() as provider:
        async with greenhouse.runtime(attempts=1) as rt:
            surface = await rt.surface()
            provider.kill()
            provider.wait()
            error = (await rt.call("grow", {"bed": 4}, surface=surface)).error
            assert (error.error_code, error.retry.safe) == ("not_acknowledged", True)
            await in_state(rt, "connecting")


@pytest.mark.slow
@pytest.mark.requirement("RAP-123")
async def test_after_a_restart_with_the_server_down_its_stored_tools_are_pending(greenhouse):
    with greenhouse.running():
        async with greenhouse.runtime() as before:
            call = await begin(before, "grow", {"bed": 3}, surface=await before.surface())
    async with greenhouse.runtime() as rt:
        surface = await rt.surface()
        (deferred,) = [each for each in surface.deferred_tools if each.namespace == "gh"]
        assert (deferred.name, deferred.loading_state.value) == ("grow", "pending_provider")
        assert deferred.pending_provider_or_server == "gh"
        error = (await rt.call("grow", {"bed": 4}, surface=surface)).error
        assert (error.error_class.value, error.error_code) == ("dependency_unavailable", "pending_provider")
        assert (error.next_action.value, error.retry.safe) == ("wait_for_provider", True)
        assert error.retry_after >= 1
        assert "ConnectionRefusedError" in error.message
        (greenhouse.folder / "ripe").touch()
        with greenhouse.running():
            assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "bed 3 is ripe"
            assert not (await rt.call("grow", {"bed": 5}, surface=await callable_again(rt, surface))).is_error


@pytest.mark.slow
@pytest.mark.requirement("RAP-123")
async def test_without_a_stored_toolset_a_server_that_is_down_is_reported(greenhouse):
    async with greenhouse.runtime() as rt:
        assert [each for each in (await rt.surface()).deferred_tools if each.namespace == "gh"] == []
        (fault,) = rt.sources.get("rap").faults
        assert "cannot load the manifest of 'gh'" in fault
        (status,) = await rt.sources.status()
        assert (status.source, status.state.value, status.fault) == ("gh", "connecting", fault)
        assert status.next_try_at_ns > status.since_ns > 0
