"""`agenttool export`: every record, one moment, flat memory, and no word that a validator minds."""

import asyncio
import json
import subprocess
import sys

import pytest

from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.store import SqliteStore
from agenttool.testing.contracts.story import story_of


def test_what_is_exported_is_valid(run, journal, tmp_path):
    outcome = run("export", "--out", "records.jsonl")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert run("validate", "records.jsonl").exit_code == 0
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    kinds = {each["record_type"] for each in records}
    assert kinds == {
        "tool_event",
        "tool_hook",
        "tool_input_mutation",
        "tool_invocation",
        "tool_permission_decision",
        "tool_progress",
        "tool_result",
        "tool_result_persistence",
        "tool_surface",
    }
    calls = [each["invocation_id"] for each in records if each["record_type"] == "tool_invocation"]
    assert len(calls) == len(set(calls))
    assert set(calls) > set(journal.values())


@pytest.mark.usefixtures("journal")
def test_the_standard_output_gets_the_same_as_a_file(run, tmp_path):
    run("export", "--out", "records.jsonl")
    assert run("export").stdout == (tmp_path / "records.jsonl").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["agenttool.db", "records.jsonl"]


@pytest.mark.usefixtures("journal")
def test_a_place_that_cannot_be_written_is_told_and_nothing_is_left(run, tmp_path):
    outcome = run("export", "--out", "gone/records.jsonl")
    assert outcome.exit_code == 2
    assert "gone/records.jsonl" in outcome.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["agenttool.db"]


async def _fill(path, numbers, cut=None):
    store = SqliteStore.open(path, steps=STEPS)
    for number in numbers:
        for fact in story_of(number):
            store.log.append(fact)
            if cut is not None:  # what is written together goes together
                await store.log.settle()
        if number % 5000 == 0:
            await store.log.settle()
    await store.log.settle()
    if cut is not None:
        await store.log.let_go(cut)
    await store.close()


def test_a_call_whose_beginning_is_gone_is_exported_once(run, tmp_path):
    path = tmp_path / "cut.db"
    facts = story_of(2)
    asyncio.run(_fill(path, range(1, 4), cut=facts[2].at_ns))
    records = [json.loads(line) for line in run("export", "--store", path).stdout.splitlines()]
    calls = [each["invocation_id"] for each in records if each["record_type"] == "tool_invocation"]
    assert calls == [facts[0].invocation_id, story_of(3)[0].invocation_id]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_journal(tmp_path):
    def peak(count):
        path = tmp_path / f"{count}.db"
        asyncio.run(_fill(path, range(1, count + 1)))
        code = (
            "import resource, sys; from agenttool.cli.main import app\n"
            "app(sys.argv[1:], standalone_mode=False)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        words = [sys.executable, "-c", code, "export", "--store", str(path), "--out", str(tmp_path / "out.jsonl")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return int(done.stderr)

    small, large = peak(200), peak(8000)
    assert large < small * 1.25


@pytest.mark.usefixtures("journal")
def test_a_closed_standard_output_is_told(tmp_path):
    words = f'"{sys.executable}" -m agenttool export >&-'
    outcome = subprocess.run(["sh", "-c", words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr == "the standard output is closed; leave it open, or name a file with --out\n"
