"""`agenttool log`: a line per call, selected by time, tool, status, people and text."""

import asyncio
import json
import os
import pty
import pwd
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from starting import begin

from agenttool import Runtime, sync, tool

USER = pwd.getpwuid(os.getuid()).pw_name

BOUND_S = 60


def calls(outcome):
    assert outcome.exit_code == 0, outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def found(run, *words):
    return [each["invocation_id"] for each in calls(run("log", "--json", *words))]


def test_every_call_is_one_line_with_its_end(run, journal):
    day, *lines = run("log").stdout.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d UTC", day)
    assert len(lines) == len(found(run)) == len(journal) + 1, "a nested call is a call"
    (failed,) = [line for line in lines if journal["failed"][-8:] in line]
    pattern = r"\d\d:\d\d:\d\d  \w{8}  kitchen.burn +failed +[\d.]+ (µs|ms|s) +user:ada +"
    assert re.fullmatch(pattern + "execution_failed: ValueError: the oven is on fire", failed)
    (approved,) = [line for line in lines if journal["edited"][-8:] in line]
    assert approved.endswith(f"approved by {USER} (claims to be pat)  90 to ada")


def test_a_call_as_json_has_its_people_times_and_result(run, journal):
    (edited,) = [each for each in calls(run("log", "--json")) if each["invocation_id"] == journal["edited"]]
    began, ended = (datetime.fromisoformat(edited.pop(name)) for name in ("began", "at"))
    assert (ended - began).total_seconds() == pytest.approx(edited.pop("duration_s"), abs=1e-5)
    assert edited == {
        "invocation_id": journal["edited"],
        "tool": "bank.transfer",
        "tool_id": "tool_bank.transfer",
        "status": "succeeded",
        "actor": None,
        "is_open": False,
        "approval_id": None,
        "approvals": [{"by": USER, "claim": "pat", "behavior": "allow"}],
        "canceled_by": None,
        "summary": "90 to ada",
        "error_class": None,
        "process": None,
    }


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--status", "denied"], ["denied"]),
        (["--tool", "files.*"], ["denied", "deleted"]),
        (["--tool", "files.*", "--status", "succeeded"], ["deleted"]),
        (["--by", "pat"], ["edited", "approved"]),
        (["--by", "p?t", "--containing", "bob"], ["approved"]),
        (["--by", "ada", "--status", "failed"], ["unknown", "failed"]),
        (["--by", "user:ada", "--tool", "burn"], ["failed"]),
        (["--containing", "MALLORY"], ["edited"]),
        (["--containing", "the oven is on fire"], ["failed"]),
        (["--containing", '"dish":"soup"'], ["parent"]),
        (["--limit", "1"], ["canceled"]),
        (["--status", "succeeded", "--limit", "2"], ["edited", "approved"]),
        (["--status", "running"], []),
        (["--open"], []),
    ],
)
def test_calls_are_selected_by_tool_status_people_and_text(run, journal, words, names):
    assert found(run, *words) == [journal[name] for name in names]


def test_a_masked_value_is_never_found(run, journal, pin):
    assert journal["approved"] in found(run, "--containing", "bob")
    assert found(run, "--containing", pin) == found(run, "--containing", "redacted") == []


@pytest.mark.usefixtures("journal")
def test_calls_are_selected_by_the_time_at_which_they_ended(run):
    whole = calls(run("log", "--json"))
    ids, third = [each["invocation_id"] for each in whole], whole[2]["at"]
    assert found(run, "--since", third) == ids[2:]
    assert found(run, "--until", third) == ids[:2]
    assert found(run, "--since", third, "--until", whole[4]["at"], "--containing", "a") == ids[2:4]
    assert found(run, "--since", "2h") == found(run, "--since", "1.5 d") == ids
    assert found(run, "--until", "10min") == found(run, "--since", "0s") == []
    day = datetime.fromisoformat(third).astimezone(UTC).date()
    assert found(run, "--since", day, "--until", day + timedelta(days=1)) == ids
    events = [each["event"]["time"] for each in calls(run("log", "--events", "--json"))]
    since = calls(run("log", "--events", "--json", "--since", third))
    assert [each["event"]["time"] for each in since] == [each for each in events if each >= third]


@tool(namespace="bank", approval_required=True)
async def pay(to: str) -> str:
    """Pay someone. Not for gifts."""
    return f"paid {to[::-1]}"


def test_the_newest_call_is_last_with_any_filter_and_any_limit(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def overlapping():
        """Let calls begin in one order and end in another, all within a moment."""
        async with Runtime.open(store="agenttool.db", tools=[pay, look], approve="wait") as rt:
            started = [await begin(rt, "pay", {"to": f"person {n}"}, actor_ref="user:ada") for n in range(6)]
            questions = {each.invocation_id: each for each in await rt.approvals.list()}
            for n in (4, 1, 3, 0):
                await rt.approvals.decide(questions[started[n].invocation_id], "allow", by="pat")
                await rt.calls.get(started[n].invocation_id).result()
                await rt.call("look", {"at": f"person {n}"}, actor_ref="user:ada")
            return [started[n].invocation_id for n in (4, 1, 3, 0, 2, 5)]

    order = asyncio.run(overlapping())
    whole = found(run)
    assert [each for each in whole if each in order] == order, "the open ones are last"
    filters = (
        ["--by", "user:ada"],
        ["--by", "pat"],
        ["--containing", "person"],
        ["--tool", "pay"],
        ["--status", "succeeded"],
        ["--since", "1h"],
        ["--by", "ada", "--containing", "person", "--tool", "pay", "--since", "1h"],
    )
    for words in filters:
        listed = found(run, *words)
        assert listed == [each for each in whole if each in listed], words
        assert len(listed) >= 4, words
        for limit in (1, 2, 3, len(listed)):
            assert found(run, *words, "--limit", limit) == listed[-limit:], words


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tool", "kitchen.bka"], "did you mean 'kitchen.bake'?"),
        (["--tool", "transfre"], "did you mean 'transfer'?"),
        (["--events", "--tool", "math.ad"], "did you mean 'math.add'?"),
        (["--status", "faild"], "did you mean 'failed'?"),
        (["--since", "yesterday"], "--since must be a time, got 'yesterday'; write 30min, 2h"),
        (["--after", "3"], "add --events"),
        (["--events", "--by", "pat"], "--by"),
        (["--follow", "--until", "1h"], "leave out --until"),
    ],
)
def test_a_filter_that_can_match_nothing_is_an_error_with_a_suggestion(run, words, says):
    outcome = run("log", *words)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert says in outcome.stderr


@pytest.mark.usefixtures("journal")
def test_no_match_is_an_answer(run):
    outcome = run("log", "--containing", "zebra")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "", "no call matches\n")


@tool(namespace="bank", sensitive=["pin"])
async def send(to: str, pin: str) -> str:
    """Send money. Not for gifts."""
    return f"sent to {to}"


@tool(read_only=True, open_world=False, risk="low", approval_required=False)
async def look(at: str) -> str:
    """Look at something. Not for changes."""
    await asyncio.sleep(0)
    return at


async def test_open_calls_come_last_and_a_waiting_call_hides_its_secret(run, tmp_path):
    path = tmp_path / "open.db"

    async def listed(*words):
        return await asyncio.to_thread(found, run, *words, "--store", path)

    async with Runtime.open(store=f"sqlite:{path}", tools=[send, look], approve="wait") as rt:
        surface = await rt.surface()
        waiting = asyncio.ensure_future(rt.call("send", {"to": "eve", "pin": "9876-5432"}, surface=surface))
        async with asyncio.timeout(BOUND_S):
            while not (questions := await rt.approvals.list()):  # noqa: ASYNC110 -- there is no event to wait for
                await asyncio.sleep(0.01)
        seen = [(await rt.call("look", {"at": str(each)}, surface=surface)).invocation_id for each in range(3)]
        call = questions[0].invocation_id
        assert await listed() == [*seen, call]
        assert await listed("--limit", 2) == [seen[-1], call]
        assert await listed("--open") == await listed("--status", "awaiting_approval") == [call]
        assert await listed("--open", "--containing", "eve") == [call]
        assert await listed("--containing", "9876-5432") == await listed("--open", "--tool", "look") == []
        await rt.approvals.decide(questions[0].approval_id, "deny", by="pat")
        await waiting
    assert found(run, "--by", "pat", "--store", path) == [call]


@pytest.mark.slow
def test_a_follower_prints_a_call_when_it_ends(tmp_path):
    path = tmp_path / "agenttool.db"

    async def make(at):
        async with Runtime.open(store=f"sqlite:{path}", tools=[look], approve="wait") as rt:
            return (await rt.call("look", {"at": at}, surface=await rt.surface())).invocation_id

    first = asyncio.run(make("one"))
    words = [sys.executable, "-m", "agenttool", "log", "--follow", "--json", "--store", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        stuck = threading.Timer(BOUND_S, follower.kill)
        stuck.start()
        assert json.loads(follower.stdout.readline())["invocation_id"] == first
        second = asyncio.run(make("two"))
        line = json.loads(follower.stdout.readline())
        os.kill(follower.pid, signal.SIGINT)
        rest = follower.communicate(timeout=BOUND_S)
        stuck.cancel()
    assert (line["invocation_id"], line["status"], line["summary"]) == (second, "succeeded", "two")
    assert (follower.returncode, rest) == (0, ("", ""))


def _on_terminal(path, columns):
    """Run `agenttool log` on a terminal of a width; return what it printed."""
    parent, child = pty.openpty()
    env = os.environ | {"COLUMNS": str(columns), "TERM": "xterm-256color", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "agenttool", "log", "--store", str(path)]
    with subprocess.Popen(words, stdin=child, stdout=child, stderr=child, env=env) as process:
        os.close(child)
        printed = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            if not piece:
                break
            printed += piece
        process.wait(timeout=BOUND_S)
    os.close(parent)
    return re.sub(r"\x1b\[[0-9;]*m", "", printed.decode()).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_the_newest_calls_each_on_one_line_that_fits(tmp_path, columns):
    path = tmp_path / "agenttool.db"

    async def make():
        async with Runtime.open(store=f"sqlite:{path}", tools=[look], approve="wait") as rt:
            for each in range(60):
                await rt.call("look", {"at": f"{each} " + "far away " * 40}, surface=await rt.surface())

    asyncio.run(make())
    lines = _on_terminal(path, columns)
    assert len([line for line in lines if "look" in line]) == 50
    assert max(map(len, lines)) <= columns
    assert "59 far away" in lines[-2]
    assert lines[-1] == "these are the newest 50 calls; --since, --limit and other options show more"


def test_a_narrow_terminal_shows_the_process_of_an_open_call_in_full(tmp_path):
    name = "send_" + "far_" * 10 + "away"
    path = tmp_path / "agenttool.db"

    async def leave():
        far = tool(namespace="bank", name=name)(_far)
        async with Runtime.open(store=f"sqlite:{path}", tools=[far]) as rt:
            surface = await rt.surface()
            calling = asyncio.ensure_future(rt.call(name, {"to": "eve"}, surface=surface))
            async with asyncio.timeout(BOUND_S):
                while not (questions := await rt.approvals.list()):  # noqa: ASYNC110 -- there is no event to wait for
                    await asyncio.sleep(0.01)
            lines = await asyncio.to_thread(_on_terminal, path, 80)
            await rt.approvals.decide(questions[0].approval_id, "deny")
            await calling
            return questions[0].approval_id, lines

    approval, lines = asyncio.run(leave())
    assert f"          process {os.getpid()}@{os.uname().nodename}, waits for {approval}" in lines
    assert any(re.search(r" bank\.send_far_\S*…  awaiting_approval  ", line) for line in lines)


def _far(to: str) -> str:
    """Send money far away. Not for gifts."""
    return to


@tool(namespace="depot", read_only=True)
def shelves() -> str:
    """List the shelves. Not for prices."""
    return '{\n  "left": ["soap"],\n  "right": []\n}'


def test_a_result_whose_first_line_has_no_word_is_shown_on_one_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sync.open(tools=[shelves], store="sqlite:agenttool.db") as rt:
        assert rt.call("shelves", {}).ok
    printed = run("log", "--store", "sqlite:agenttool.db")
    assert '{ "left": ["soap"], "right": [] }' in getattr(printed, "stdout", printed)
