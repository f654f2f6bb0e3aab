"""What tests of processes that die share: the tools in `living.py`, children that run it, and a survivor's view."""

import asyncio
import io
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, closing, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from agenttool.codec import to_json, write
from agenttool.conformance.validate.validation import Validation
from agenttool.durable import recovery

BOUND_S = 150
HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def living():
    """The program that children run, as a module."""
    spec = spec_from_file_location("living", HERE / "living.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(recovery, "POLL_S", 0.02)
    monkeypatch.setattr(recovery, "RECOVER_EVERY_S", 0.1)


@pytest.fixture
def dies(tmp_path):
    """Let a child make a call whose tool kills its process."""

    def dies(name, number=1):
        program = [sys.executable, HERE / "living.py", tmp_path, name, str(number)]
        done = subprocess.run(program, capture_output=True, text=True, timeout=BOUND_S, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr

    return dies


@pytest.fixture
def approved(dies):
    """Let a child die with a call that was approved, with the number 9, and never started."""
    return lambda number: dies("approved", number)


@pytest.fixture
def asking(tmp_path, living):
    """Let a child make a call and wait for the answer; gives the process and the id of the question."""

    @contextmanager
    def asking(number=1, name="send", lease_s=living.LEASE_S):
        program = [sys.executable, HERE / "living.py", tmp_path, name, str(number), str(lease_s)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
            try:
                yield child, child.stdout.readline().strip()
            finally:
                child.kill()

    return asking


@pytest.fixture
def edit_stored(tmp_path):
    """Change what is stored of the only call, while no process uses it."""

    def edit_stored(change):
        with closing(sqlite3.connect(tmp_path / "state.db")) as file, file:
            (body,) = file.execute("SELECT body FROM open_calls").fetchone()
            stored = json.loads(body)
            change(stored)
            file.execute("UPDATE open_calls SET body = ?", (json.dumps(stored).encode(),))

    return edit_stored


@pytest.fixture
def survivor(tmp_path, living):
    """Open the store in this process, with every tool unless others are given."""

    @asynccontextmanager
    async def survivor(**options):
        async with living.open_runtime(tmp_path, **options) as rt:
            yield rt

    return survivor


@pytest.fixture
def parked(survivor):
    """Let a runtime close over calls that were asked about; gives the ids of their questions."""

    async def parked(count):
        async with survivor() as rt:
            surface = await rt.surface()
            calling = [asyncio.ensure_future(rt.call("send", {"number": 7}, surface=surface)) for _ in range(count)]
            async with asyncio.timeout(BOUND_S):
                while len(asked := await rt.approvals.list()) < count:
                    await asyncio.sleep(0.01)
        await asyncio.gather(*calling)
        return [each.approval_id for each in asked]

    return parked


@pytest.fixture(scope="session")
def ended():
    """Wait until every call but those that wait for an answer has ended; give their results, the oldest first."""

    async def ended(rt, count=1):
        found = []
        try:
            async with asyncio.timeout(BOUND_S):
                while len(found) < count:
                    await asyncio.sleep(0.02)
                    found = [record async for record in rt.journal.export() if type(record).__name__ == "ToolResult"]
        except TimeoutError:
            left = [
                (each.invocation_id, each.kind, each.owner)
                for each in await rt._core.durability.checkpoints.page(limit=9)
            ]
            pytest.fail(f"{len(found)} of {count} calls ended within {BOUND_S} s; these are open: {left}")
        return found

    return ended


@pytest.fixture(scope="session")
def sound(published_schemas):
    """Check the log's hash chain, and every record with the validator and the published schemas."""

    async def sound(rt):
        assert list(rt._core.journal.log.verify()) == []
        exported = [record async for record in rt.journal.export()]
        with Validation() as validation:
            lines = b"\n".join(map(write, exported))
            findings = [*validation.read("export", io.BytesIO(lines)), *validation.conclude()]
        assert findings == []
        for record in map(to_json, exported):
            assert published_schemas[record["record_type"]].misfits(record) == []
        return exported

    return sound
