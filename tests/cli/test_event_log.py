"""`agenttool log`: open calls, sizes, and with `--events` a line per event, from any position."""

import asyncio
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from call_facts import facts_of_call
from project_settings import write_settings

from agenttool import Runtime, tool
from agenttool.cli import event_log
from agenttool.journal.steps import STEPS
from agenttool.stores.fact_codec import decode_fact
from agenttool.stores.sqlite import fact_rows
from agenttool.stores.sqlite.reader import SqliteReader
from agenttool.stores.sqlite.store import SqliteStore

BOUND_S = 60


def events(outcome):
    assert outcome.exit_code == 0
    return [json.loads(line) for line in outcome.stdout.splitlines()]


@pytest.mark.usefixtures("journal")
def test_every_event_is_one_line_in_order_of_position(run):
    lines = run("log", "--events").stdout.splitlines()
    days = [line for line in lines if re.fullmatch(r"\d{4}-\d\d-\d\d UTC", line)]
    assert lines[0] == days[0]
    positions = [int(line.split()[0]) for line in lines if line not in days]
    assert positions == sorted(positions)
    assert len(positions) == len(events(run("log", "--events", "--json")))


@pytest.mark.usefixtures("journal")
def test_after_a_position_all_later_events_are_printed(run):
    whole = events(run("log", "--events", "--json"))
    for place, message in enumerate(whole):
        rest = events(run("log", "--events", "--json", "--after", message["position"]))
        assert rest[-len(whole[place + 1 :]) :] == whole[place + 1 :] or place == len(whole) - 1
        assert len(rest) <= len(whole)


@pytest.mark.usefixtures("journal")
def test_a_limit_of_one_pages_through_the_whole_log(run):
    after, seen = 0, []
    for _ in range(200):
        step = events(run("log", "--events", "--json", "--after", after, "--limit", 1))
        if not step:
            break
        seen += step
        after = step[-1]["position"]
    assert seen == events(run("log", "--events", "--json"))


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_a_limit_alone_gives_the_newest(run, limit):
    assert (
        events(run("log", "--events", "--json", "--limit", limit)) == events(run("log", "--events", "--json"))[-limit:]
    )


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("pattern", ["kitchen.*", "kitchen.bake", "bake", "tool_kitchen.bake"])
def test_a_tool_is_named_in_any_of_the_ways_it_goes_by(run, pattern):
    found = {each["event"]["tool_id"] for each in events(run("log", "--events", "--json", "--tool", pattern))}
    assert "tool_kitchen.bake" in found
    assert all(tool.startswith("tool_kitchen.") for tool in found)


def test_calls_can_be_picked_by_status_and_by_id(run, journal):
    failed = events(run("log", "--events", "--json", "--status", "denied"))
    assert [each["event"]["invocation_id"] for each in failed] == [journal["denied"]]
    one = events(run("log", "--events", "--json", "--call", journal["hooked"][-8:], "--limit", 500))
    assert {each["event"]["invocation_id"] for each in one} == {journal["hooked"]}
    assert one[-1]["event"]["data"]["status"] == "succeeded"


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--status", "sleepy"], "sleepy"),
        (["--events", "--call", "zz"], "zz"),
        (["--events", "--call", "inv_"], "several"),
    ],
)
def test_an_option_that_matches_nothing_is_rejected(run, words, message):
    outcome = run("log", *words)
    assert outcome.exit_code == 2
    assert message in outcome.stderr


@pytest.mark.parametrize("command", [["show"], ["log"], ["export"], ["verify"], ["backup", "copy.db"]])
def test_a_missing_journal_is_named_and_not_created(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    outcome = run(*command)
    assert outcome.exit_code == 2
    assert "agenttool.db" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_settings_in_the_working_directory_name_the_file(run, journal, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "agenttool.db").rename(tmp_path / "kept" / "calls.db")
    write_settings(tmp_path / "agenttool.toml", '[store]\nurl = "sqlite:kept/calls.db"\n')
    assert journal["canceled"] in run("show").stdout
    write_settings(tmp_path / "agenttool.toml", '[store]\nurl = "memory:"\n')
    assert run("show").exit_code == 2


async def _write(path, *numbers):
    store = SqliteStore.open(path, steps=STEPS)
    for number in numbers:
        for fact in facts_of_call(number):
            store.log.append(fact)
    await store.close()


@contextmanager
def _following(path, *words):
    program = [
        sys.executable,
        "-m",
        "agenttool",
        "log",
        "--events",
        "--follow",
        "--json",
        *words,
        "--store",
        f"sqlite:{path}",
    ]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        stuck = threading.Timer(BOUND_S, follower.kill)  # a test that waits for a line gets the end of the stream
        stuck.start()
        try:
            yield follower
        finally:
            stuck.cancel()
            follower.kill()


def _positions(follower, count):
    return [json.loads(follower.stdout.readline())["position"] for _ in range(count)]


@pytest.mark.slow
def test_a_follower_prints_events_of_another_process_and_ends_at_ctrl_c(tmp_path):
    path = tmp_path / "agenttool.db"
    asyncio.run(_write(path, 1))
    with _following(path, "--after", "4") as follower:
        seen = _positions(follower, 3)
        asyncio.run(_write(path, 2))
        seen += _positions(follower, 11)
        os.kill(follower.pid, signal.SIGINT)
        rest = follower.communicate(timeout=BOUND_S)
    assert (follower.returncode, rest) == (0, ("", ""))
    assert seen == [4, 4, 5, 5, 5, 6, 6, 7, 7, 8, 9, 9, 9, 10]


def _copied_over(copy, path):
    shutil.copyfile(copy, path)


def _moved_over(copy, path):
    shutil.copyfile(copy, f"{path}.new")
    Path(f"{path}.new").replace(path)


@pytest.mark.parametrize("restore", [_copied_over, _moved_over])
def test_a_follower_detects_a_replaced_journal_and_continues(run, tmp_path, monkeypatch, restore):
    path, copy = tmp_path / "agenttool.db", tmp_path / "copy.db"
    asyncio.run(_write(path, 1))
    shutil.copyfile(path, copy)
    asyncio.run(_write(path, 2, 3))

    def replace_then_interrupt():
        restore(copy, path)
        asyncio.run(_write(path, 4))
        yield
        raise KeyboardInterrupt

    # Between two reads, because SQLite does not support the replacement of a file that is open.
    pauses = replace_then_interrupt()
    monkeypatch.setattr(event_log, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: next(pauses)))
    done = run("log", "--events", "--follow", "--json", "--after", 14, "--store", f"sqlite:{path}")
    positions = [each["position"] for each in events(done)]
    assert (positions[:3], len(positions), positions[-1]) == ([14, 14, 15], 14, 10)
    assert "the journal was replaced: it is not the one that was read up to 15; continuing after 5," in done.stderr
    with SqliteReader.open(path, steps=STEPS) as reader:
        assert list(reader.verify()) == []


@pytest.mark.parametrize("more", [(), ("--limit", "2"), ("--after", "3")])
def test_the_log_of_one_call_reads_no_other(run, journal, monkeypatch, more):
    whole = [json.loads(line) for line in run("log", "--events", "--json", *more).stdout.splitlines()]
    for name in ("read", "read_back"):
        monkeypatch.delattr(SqliteReader, name)
    message = [
        json.loads(line)
        for line in run("log", "--events", "--call", journal["hooked"], "--json", *more).stdout.splitlines()
    ]
    ours = [each for each in whole if each["event"].get("invocation_id") == journal["hooked"]]
    assert message
    assert {each["event"]["invocation_id"] for each in message} == {journal["hooked"]}
    assert message == ours or more == ("--limit", "2")


@pytest.mark.parametrize(
    ("words", "is_wanted"),
    [
        (("--status", "failed"), lambda event: event["data"].get("status") == "failed"),
        (("--status", "planned"), lambda event: event["data"].get("status") == "planned"),
        (("--tool", "bank.*"), lambda event: event.get("tool_id") == "tool_bank.transfer"),
        (("--tool", "?ake"), lambda event: event.get("tool_id") == "tool_kitchen.bake"),
        (("--tool", "delete", "--status", "denied"), lambda event: event["data"].get("status") == "denied"),
        (("--sizes",), None),
    ],
)
@pytest.mark.usefixtures("journal")
def test_a_filter_decodes_only_the_facts_that_it_prints(run, monkeypatch, words, is_wanted):
    whole = [json.loads(line) for line in run("log", "--events", "--json").stdout.splitlines()]
    decoded = []
    monkeypatch.setattr(fact_rows, "decode_fact", lambda *given: decoded.append(1) or decode_fact(*given))
    mode = () if is_wanted is None else ("--events",)
    printed = run("log", *mode, "--json", *words).stdout.splitlines()
    if is_wanted is None:
        assert (bool(printed), decoded) == (True, [])
        return
    wanted = [each for each in whole if is_wanted(each["event"])]
    assert wanted
    assert [json.loads(line) for line in printed] == wanted
    assert len(decoded) <= len(wanted), "a fact has at least one event"
    newest = run("log", "--events", "--json", *words, "--limit", "2").stdout.splitlines()
    assert [json.loads(line) for line in newest] == wanted[-2:]


@tool(namespace="bank")
async def send(amount: int) -> int:
    """Send money. Not for gifts."""
    return amount


async def test_open_calls_are_listed_with_the_processes_that_own_them(run, tmp_path):
    path = tmp_path / "open.db"
    mine = f"{os.getpid()}@{os.uname().nodename}"

    async def listed():
        return events(await asyncio.to_thread(run, "log", "--open", "--json", "--store", path))

    async with Runtime.open(store=f"sqlite:{path}", tools=[send], approve="wait") as rt:
        surface = await rt.surface()
        calling = [asyncio.ensure_future(rt.call("send", {"amount": each}, surface=surface)) for each in (1, 2)]
        async with asyncio.timeout(BOUND_S):
            while len(questions := await rt.approvals.list()) < 2:  # noqa: ASYNC110 -- there is no event to wait for
                await asyncio.sleep(0.01)
        found = await listed()
        assert [each["invocation_id"] for each in found] == sorted(each.invocation_id for each in questions)
        assert {each["approval_id"] for each in found} == {each.approval_id for each in questions}
        assert {(each["tool"], each["status"], each["process"]) for each in found} == {
            ("bank.send", "awaiting_approval", mine)
        }
        shown = (await asyncio.to_thread(run, "log", "--open", "--store", path)).stdout
        assert shown.count(mine) == shown.count("bank.send") == 2
        for question in questions:
            await rt.approvals.decide(question.approval_id, "deny")
        await asyncio.gather(*calling)
        assert await listed() == []
    assert run("log", "--open", "--store", path).stderr == "no call is open\n"
    assert run("log", "--open", "--events", "--store", path).exit_code == 2


@pytest.mark.usefixtures("journal")
def test_sizes_are_printed_tool_by_tool(run, tmp_path):
    message = [json.loads(line) for line in run("log", "--sizes", "--json").stdout.splitlines()]
    verified = json.loads(run("verify", "--json").stdout.splitlines()[-1])
    assert sum(each["facts"] for each in message) == verified["facts"]
    assert sum(each["calls"] for each in message) == verified["calls"]
    assert [each["bytes"] for each in message] == sorted((each["bytes"] for each in message), reverse=True)
    with closing(sqlite3.connect(tmp_path / "agenttool.db")) as file:
        (held,) = file.execute("SELECT sum(length(lines) + 1) FROM facts").fetchone()
    assert sum(each["bytes"] for each in message) == held
    largest = max(message, key=lambda each: each["largest_bytes"])
    assert largest["about"].split(".")[-1] in run("show", largest["largest"]).stdout
    *_, total = run("log", "--sizes").stdout.splitlines()
    assert total.split() == [f"{held:,}", f"{verified['calls']:,}", f"{verified['facts']:,}", "total"]
    assert run("log", "--sizes", "--after", verified["facts"], "--json").stdout == ""
    assert run("log", "--sizes", "--follow").exit_code == 2
