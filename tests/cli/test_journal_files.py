"""`agenttool export`, `backup`, `retain` and `store upgrade`: commands about the whole journal."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpcore
import pytest
from call_facts import facts_of_call
from project_settings import write_settings

from agenttool import Runtime, tool
from agenttool.journal.steps import STEPS
from agenttool.stores.sqlite.schema import VERSION
from agenttool.stores.sqlite.store import SqliteStore

OLD = Path(__file__).parents[1] / "durable" / "stores" / "version-9.db"


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
@pytest.mark.parametrize("file", ["agenttool.db", "agenttool.db-wal", "link.db"])
@pytest.mark.parametrize("command", [("export", "--out"), ("verify", "--write-head"), ("call", "add", "--out")])
def test_no_command_writes_its_output_over_a_store(run, tmp_path, command, file):
    (tmp_path / "link.db").symlink_to("agenttool.db")
    before = (tmp_path / "agenttool.db").read_bytes()
    refused = run(*command, file)
    assert refused.exit_code == 2
    assert "is not overwritten; name another file" in refused.stderr
    assert (tmp_path / "agenttool.db").read_bytes() == before


@pytest.mark.usefixtures("journal")
def test_the_standard_output_gets_the_same_as_a_file(run, tmp_path):
    run("export", "--out", "records.jsonl")
    assert run("export").stdout == (tmp_path / "records.jsonl").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["agenttool.db", "records.jsonl"]


@pytest.mark.parametrize("words", [["export"], ["log", "--json"], ["show", "--json"]])
def test_a_terminal_gets_no_control_or_invisible_character_and_the_same_records(tmp_path, words):
    nasty = "a\x9b31m \u202eb \u200b \x7f é"

    @tool(read_only=True, open_world=False)
    async def probe() -> dict[str, str]:
        """Return something. Not for anything else."""
        return {"text": nasty}

    async def fill():
        async with Runtime.open(store="sqlite:agenttool.db", tools=[probe]) as rt:
            await rt.call("probe", {}, surface=await rt.surface())

    with contextlib.chdir(tmp_path):
        asyncio.run(fill())
    main, side = os.openpty()
    command = [sys.executable, "-m", "agenttool", *words, "--store", "sqlite:agenttool.db"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=side) as process:
        os.close(side)
        pieces = []
        with contextlib.suppress(OSError):  # a terminal that was closed raises
            while piece := os.read(main, 65536):
                pieces.append(piece)
        assert process.wait() == 0
    os.close(main)
    lines = b"".join(pieces).decode().replace("\r\n", "\n").splitlines()
    assert [line for line in lines if not line.isprintable()] == []
    records = [json.loads(line) for line in lines]
    if words != ["log", "--json"]:  # which has the text for the model
        assert f"{nasty!r}" in repr(records)


@pytest.mark.usefixtures("journal")
def test_an_unwritable_target_is_reported_and_no_file_is_left(run, tmp_path):
    outcome = run("export", "--out", "gone/records.jsonl")
    assert outcome.exit_code == 2
    assert "gone/records.jsonl" in outcome.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["agenttool.db"]


async def _fill(path, numbers, cut=None):
    store = SqliteStore.open(path, steps=STEPS)
    for number in numbers:
        for fact in facts_of_call(number):
            store.log.append(fact)
            if cut is not None:  # what is written together goes together
                await store.log.settle()
        if number % 5000 == 0:
            await store.log.settle()
    await store.log.settle()
    if cut is not None:
        await store.log.delete_before(cut)
    await store.close()


def test_a_call_whose_first_facts_were_deleted_is_exported_once(run, tmp_path):
    path = tmp_path / "cut.db"
    facts = facts_of_call(2)
    asyncio.run(_fill(path, range(1, 4), cut=facts[2].at_ns))
    records = [json.loads(line) for line in run("export", "--store", path).stdout.splitlines()]
    calls = [each["invocation_id"] for each in records if each["record_type"] == "tool_invocation"]
    assert calls == [facts[0].invocation_id, facts_of_call(3)[0].invocation_id]


@pytest.mark.soak
def test_memory_does_not_grow_with_the_journal(tmp_path):
    def peak(count):
        path = tmp_path / f"{count}.db"
        asyncio.run(_fill(path, range(1, count + 1)))
        code = (
            "import resource, sys; from agenttool.cli.main import app\n"
            "app(sys.argv[1:], standalone_mode=False)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        words = [sys.executable, "-s", "-c", code, "export", "--store", str(path), "--out", str(tmp_path / "out.jsonl")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return int(done.stderr)

    small, large = peak(200), peak(8000)
    assert large < small * 1.25


@pytest.mark.usefixtures("journal")
def test_a_closed_standard_output_is_reported(tmp_path):
    words = f'"{sys.executable}" -m agenttool export >&-'
    outcome = subprocess.run(["sh", "-c", words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr == "the standard output is closed; leave it open, or name a file with --out\n"


@pytest.mark.usefixtures("journal")
def test_a_copy_holds_all_that_the_journal_holds(run, tmp_path):
    printed = json.loads(run("backup", "copy.db", "--json").stdout)
    assert printed["bytes"] == (tmp_path / "copy.db").stat().st_size
    assert run("log", "--store", "copy.db").stdout == run("log").stdout
    head = printed["head"]
    assert run("verify", "--store", "copy.db", "--head", f"{head['position']}:{head['hash']}").exit_code == 0
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


@pytest.fixture
def served_tenant(run, running, tmp_path, monkeypatch):
    """The files of a server that has served a request of the tenant acme."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    key = json.loads(run("keys", "add", "agent:ci", "--tenant", "acme", "--json").stdout)["key"]
    with running(tmp_path, ["-m", "agenttool", "serve", "--port", "0", "--json"]) as (_, line):
        asked = httpcore.request("GET", f"{line['url']}/v1/status", headers={"authorization": f"Bearer {key}"})
        assert asked.status == 200


@pytest.mark.slow
@pytest.mark.usefixtures("served_tenant")
def test_a_backup_copies_the_files_of_all_tenants_and_names_each(run, tmp_path):
    first, second = run("backup", "copy.db").stdout.splitlines()
    assert first.startswith("copied agenttool.db to copy.db: ")
    assert second.startswith("copied agenttool.acme.db of the tenant acme to copy.acme.db: ")
    assert run("verify", "--store", "copy.acme.db").exit_code == 0
    copied = json.loads(run("backup", "more.db", "--json").stdout)
    assert (copied["target"], copied["tenants"]["acme"]["target"]) == ("more.db", "more.acme.db")
    alone = run("backup", "alone.db", "--store", "agenttool.acme.db").stdout
    assert alone.startswith("copied agenttool.acme.db to alone.db: ")
    before = {each.name for each in tmp_path.iterdir()} | {"last.db", "next.acme.db"}
    (tmp_path / "last.db").touch()
    (tmp_path / "next.acme.db").touch()
    assert [run("backup", each).exit_code for each in ("last.db", "next.db", ".")] == [2, 2, 2]
    assert {each.name for each in tmp_path.iterdir()} - {"next.db-payloads"} == before


@pytest.mark.usefixtures("journal")
def test_an_existing_file_is_not_overwritten(run, tmp_path):
    (tmp_path / "copy.db").write_text("mine")
    outcome = run("backup", "copy.db")
    assert outcome.exit_code == 2
    assert "copy.db" in outcome.stderr
    assert (tmp_path / "copy.db").read_text() == "mine"


def _tear(path):
    """Overwrite the middle of the file, as a failing disk does."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)


def _change_a_row(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute("UPDATE facts SET lines = replace(lines, 'math.add', 'math.odd')").rowcount


@pytest.mark.parametrize("damage", [_tear, _change_a_row])
@pytest.mark.usefixtures("payloads")
def test_a_damaged_journal_is_not_copied(run, tmp_path, damage):
    damage(tmp_path / "agenttool.db")
    before = sorted(each.name for each in tmp_path.iterdir())
    outcome = run("backup", "copy.db")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "nothing was left there" in outcome.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == before


@pytest.mark.parametrize("target", [".", "..", "/"])
@pytest.mark.usefixtures("journal")
def test_a_folder_is_rejected_as_the_target_of_a_copy(run, target):
    done = run("backup", target)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is there already; give the copy another name" in done.stderr


@pytest.mark.usefixtures("journal")
def test_payloads_are_copied_with_the_journal(run, day, tmp_path):
    shutil.copytree(f"{day[0]}-payloads", tmp_path / "agenttool.db-payloads")
    printed = json.loads(run("backup", "copy.db", "--json").stdout)
    assert printed["payloads"] > 0
    assert "1 checked" in run("verify", "--store", "copy.db").stdout


@pytest.mark.usefixtures("journal")
def test_a_journal_whose_payloads_cannot_be_copied_is_not_copied(run, day, tmp_path):
    shutil.copytree(f"{day[0]}-payloads", tmp_path / "agenttool.db-payloads")
    (tmp_path / "copy.db-payloads").write_text("a file")
    outcome = run("backup", "copy.db")
    assert outcome.exit_code == 2
    assert "copy.db-payloads" in outcome.stderr
    assert not (tmp_path / "copy.db").exists()


@pytest.fixture
def payloads(run, day, journal, tmp_path):
    assert run("trust", "--yes").exit_code == 0
    return shutil.copytree(f"{day[0]}-payloads", tmp_path / "agenttool.db-payloads")


@pytest.mark.usefixtures("payloads")
def test_old_data_is_deleted_and_the_rest_verifies(run, journal):
    head = json.loads(run("verify", "--json").stdout)["head"]
    printed = json.loads(run("retain", "--payloads", "0", "--journal", "0", "--json").stdout)
    assert printed["payloads"] > 0
    assert printed["facts_up_to"] == head["position"]
    outcome = run("verify", "--head", f"{head['position']}:{head['hash']}")
    assert json.loads(run("verify", "--json").stdout)["anchor"]["position"] == printed["facts_up_to"]
    assert f"from {printed['facts_up_to'] + 1:,} on: retention deleted older ones" in outcome.stdout
    assert outcome.exit_code == 0, "an older head is good as long as its place is the anchor"
    assert run("show", journal["plain"]).exit_code != 0


@pytest.mark.usefixtures("payloads")
def test_a_result_whose_payload_was_deleted_is_shown_as_before(run, journal):
    before = run("show", journal["large"]).stdout
    assert run("retain", "--payloads", "0").stdout.endswith("payloads; no facts are deleted\n")
    assert run("show", journal["large"]).stdout == before
    assert "1 missing" in run("verify").stdout


@pytest.mark.usefixtures("payloads")
def test_recent_data_is_not_deleted(run):
    before = run("export").stdout
    assert json.loads(run("retain", "--payloads", "1", "--journal", "1", "--json").stdout) == {
        "payloads": 0,
        "facts_up_to": 0,
    }
    assert run("export").stdout == before


@pytest.mark.usefixtures("payloads")
def test_options_override_the_retention_of_the_settings(run, tmp_path):
    settings = tmp_path / "agenttool.toml"
    write_settings(settings, '[store]\nurl = "sqlite:agenttool.db"\npayload_days = 0\njournal_days = 400\n')
    printed = json.loads(run("retain", "--payloads", "3", "--json").stdout)
    assert printed == {"payloads": 0, "facts_up_to": 0}
    assert json.loads(run("retain", "--json").stdout)["payloads"] > 0
    settings.write_text('[store]\nurl = "sqlite:agenttool.db"\npayload_days = "many"\n')
    outcome = run("retain")
    assert outcome.exit_code == 2
    assert "agenttool.toml:3: payload_days must be a number of days" in " ".join(outcome.stderr.split())


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ([], "no retention is given"),
        (["--store", "gone.db", "--journal", "1"], "gone.db"),
        (["--journal", "-1"], "--journal"),
    ],
)
def test_retention_without_days_or_journal_is_rejected(run, words, printed):
    outcome = run("retain", *words)
    assert outcome.exit_code == 2
    assert printed in outcome.stderr


@tool(read_only=True)
async def report(number: int) -> str:
    """Write a report. Not for letters."""
    return f"{number} {random.Random(number).randbytes(2000).hex()}"


async def _report(rt, *numbers):
    surface = await rt.surface()
    for number in numbers:
        assert (await rt.call("report", {"number": number}, surface=surface)).error is None


def is_verified(run, file):
    return run("verify", "--store", file).exit_code == 0


async def test_retention_shrinks_a_file_that_other_processes_use(run, tmp_path):
    file = tmp_path / "calls.db"
    async with Runtime.open(store=f"sqlite:{file}", tools=[report]) as rt:
        await _report(rt, *range(400))
    before = file.stat().st_size
    async with (
        Runtime.open(store=f"sqlite:{file}", tools=[report]) as first,
        Runtime.open(store=f"sqlite:{file}", tools=[report]) as second,
    ):
        await _report(first, 400)
        retaining = asyncio.ensure_future(asyncio.to_thread(run, "retain", "--journal", "0", "--store", file))
        for number in range(401, 431):
            await _report(second, number)
            await asyncio.sleep(0.02)
        assert (await retaining).exit_code == 0, retaining.result().output
        async with asyncio.timeout(150):  # a reader may have delayed the last checkpoint; then a later one shrinks it
            while file.stat().st_size >= before / 2:
                await _report(second, 431)
        for rt in (first, second):
            await _report(rt, 402)
        assert await asyncio.to_thread(is_verified, run, file)


def test_the_command_upgrades_a_store_and_the_commands_that_read_ask_for_it(run, tmp_path):
    file = Path(shutil.copy(OLD, tmp_path / "calls.db"))
    refused = run("log", "--store", str(file))
    assert refused.exit_code != 0
    assert "agenttool store upgrade --store" in refused.stderr
    assert file.read_bytes() == OLD.read_bytes()
    upgraded, again = (run("store", "upgrade", "--store", str(file)).stdout for _ in range(2))
    assert f"from schema 9 to {VERSION}" in upgraded
    assert f"has schema {VERSION} already" in again
    assert len(run("log", "--store", str(file), "--json").stdout.splitlines()) == 5
    assert run("verify", "--store", str(file)).exit_code == 0
