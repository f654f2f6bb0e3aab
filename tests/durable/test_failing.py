"""A disk that fails: nothing runs that could not be written down, nothing is returned that could not be stored."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agenttool import tool
from agenttool.errors import StoreError
from agenttool.stores.sqlite.writer import Writer

PROGRAM = Path(__file__).parent / "failing.py"


SMALL = "mount -t tmpfs -o size=512k small {0} && exec {1} {2} full {0}"


def failing(mode, folder):
    """Run the program on a disk that fails in one way."""
    if mode == "io":
        return [sys.executable, PROGRAM, mode, folder]
    apart = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*apart, f"mount -t tmpfs x {folder}"], check=False).returncode
    ):
        pytest.skip("a small file system of its own needs unshare and mount")
    return [*apart, SMALL.format(folder, sys.executable, PROGRAM)]


@pytest.mark.parametrize("mode", ["io", "full"])
def test_a_disk_that_fails_stops_effects_and_successes_until_it_is_mended(tmp_path, mode):
    done = subprocess.run(failing(mode, tmp_path), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    unavailable = ["journal_unavailable", True]
    assert json.loads(done.stdout) == {
        "whole disk": None,
        "breaks while it runs": ["result_not_stored", False],
        "given to who looks": [None, None],
        "effect on a broken disk": unavailable,
        "reading on a broken disk": ["result_not_stored", True],
        "asking on a broken disk": unavailable,
        "behind a backlog": ["result_not_stored", True],
        "returned as stored": 0,
        "effect on a mended disk": None,
        "broken is stored as it was returned": True,
        "stored otherwise than returned": 0,
        "flaws": [],
        "ledger": [1, 7],
    }


async def test_a_result_that_the_journal_cannot_write_is_a_failed_call(survivor, monkeypatch):
    def count(number: int) -> int:
        """Count."""
        return number

    async with survivor(tools=[count]) as rt:
        journal, surface = rt._core.journal, await rt.surface()
        append, is_first = journal._append, iter([True])

        def refuse_the_first_end(fact):
            if fact.step.name == "ended_succeeded" and next(is_first, False):
                raise StoreError("the fact cannot be written")
            append(fact)

        monkeypatch.setattr(journal, "_append", refuse_the_first_end)
        result = await rt.call("count", {"number": 1}, surface=surface)
        assert result.error.error_code == "result_not_stored"
        assert await rt.journal.result(result.invocation_id) == result
        assert await rt._core.durability.checkpoints.page(limit=1) == []


async def test_a_started_call_whose_result_is_not_stored_has_failed(survivor, monkeypatch):
    @tool(read_only=True, open_world=False)
    def count(number: int) -> int:
        """Count."""
        return number

    def refuse(*_, **__):
        raise StoreError("the disk is full")

    async with survivor(tools=[count]) as rt:
        await rt.call("count", {"number": 1})
        with monkeypatch.context() as disk:
            disk.setattr(Writer, "commit", refuse)
            started = await (await rt.start("count", {"number": 2})).idle()
        assert started.status == "failed"
        assert (await (await rt.start("count", {"number": 3})).idle()).status == "succeeded"
