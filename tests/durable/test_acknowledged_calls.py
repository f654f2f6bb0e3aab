"""A call that was answered with 202 survives its server: `agenttool serve` as a process, killed or stopped."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpcore
import pytest
from project_settings import write_settings
from served_process import ask, serving

from agenttool import sync

SHOP = '''
import asyncio, os
from pathlib import Path
from agenttool import Context, tool

def write(context, number):
    with open("ledger", "a") as file:
        file.write(f"{context.invocation_id} {number}\\n")
        file.flush()
        os.fsync(file.fileno())
    return f"wrote {number}"

@tool(namespace="shop")
async def pay(number: int, context: Context) -> str:
    """Pay."""
    return write(context, number)

@tool(namespace="shop")
async def send(number: int, context: Context) -> str:
    """Send, once it is approved."""
    return write(context, number)

@tool(namespace="shop")
async def hold(number: int, context: Context) -> str:
    """Write, and wait for a file."""
    write(context, number)
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "went"

@tool(namespace="shop")
async def nap(number: int, context: Context) -> str:
    """Write between two short waits."""
    await asyncio.sleep(0.01)
    write(context, number)
    await asyncio.sleep(0.01)
    return "slept"

@tool(namespace="shop", read_only=True)
async def look(number: int) -> str:
    """Wait for a file, and read nothing."""
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return f"saw {number}"
'''
RULES = "".join(f'[[rules]]\nbehavior = "allow"\ntool = "shop.{name}"\n\n' for name in ("pay", "hold", "nap"))
JSON = {"content-type": "application/json"}


class Shop:
    """A folder with tools, which one server after another serves."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "calls.db"
        (folder / "shop.py").write_text(SHOP)
        write_settings(folder / "agenttool.toml", RULES)

    def serve(self):
        return serving(self.folder, "--from", "shop", "--store", "calls.db")

    def owners(self):
        """The processes that have a lease."""
        with closing(sqlite3.connect(self.file)) as file:
            return [owner for (owner,) in file.execute("SELECT owner FROM processes")]

    def expire_lease(self, *owners):
        """Let another server recover the calls of killed ones at once."""
        with closing(sqlite3.connect(self.file)) as file, file:
            file.executemany("DELETE FROM processes WHERE owner = ?", [(each,) for each in owners or self.owners()])

    def queued(self, url):
        """The calls that wait for their turn."""
        return json.loads(ask(f"{url}/v1/calls?status=queued")[1])["items"]

    def allow(self):
        """Approve all calls that wait."""
        with sync.open(store=f"sqlite:{self.folder / 'calls.db'}") as rt:
            for each in rt.approvals.list():
                rt.approvals.decide(each.approval_id, "allow", by="eve")

    @property
    def written(self):
        """How often each call has written."""
        ledger = self.folder / "ledger"
        return Counter(line.split()[0] for line in ledger.read_text().splitlines()) if ledger.exists() else Counter()


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def call(name, number, *depends_on):
    known = {"tool": f"shop.{name}", "arguments": {"number": number}}
    return {**known, "depends_on": depends_on} if depends_on else known


HELD_AND_QUEUED = (call("hold", 1), call("pay", 2))


def post_batch(url, *calls, wait=0):
    status, body = ask(f"{url}/v1/batches?wait={wait}", json.dumps({"calls": calls}).encode(), JSON)
    return status, json.loads(body).get("items", [])


def post_call(url, body, wait=0, key=None):
    headers = JSON if key is None else {**JSON, "idempotency-key": key}
    status, reply = ask(f"{url}/v1/calls?wait={wait}", json.dumps(body).encode(), headers)
    return status, json.loads(reply)


def get(url, item, wait=0):
    status, body = ask(f"{url}/v1/calls/{item['invocation_id']}?wait={wait}")
    assert status == 200, body
    return json.loads(body)


def cancel(url, item):
    return ask(f"{url}/v1/calls/{item['invocation_id']}/cancel", b"{}", JSON)[0]


def end_of(found):
    return found["status"], ((found["result"] or {}).get("error") or {}).get("error_code")


def ends(url, *items):
    return [end_of(get(url, each, 30)) for each in items]


def until(is_done):
    for _ in range(6000):
        if is_done():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


def kill(shop, child):
    child.kill()
    child.wait()
    shop.expire_lease()


def stop(_, child):
    os.kill(child.pid, signal.SIGTERM)
    assert child.wait(timeout=60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("end", [kill, stop])
def test_a_planned_call_runs_once_in_the_next_server_when_its_dependency_has_ended(shop, end):
    with shop.serve() as (child, url):
        status, items = post_batch(url, call("send", 1), call("pay", 2, 0), call("pay", 3, 1))
        assert (status, [each["status"] for each in items]) == (202, ["awaiting_approval", "planned", "planned"])
        end(shop, child)
    with shop.serve() as (_, url):
        assert [get(url, each)["status"] for each in items] == ["awaiting_approval", "planned", "planned"]
        shop.allow()
        assert ends(url, *items) == [("succeeded", None)] * 3
    assert shop.written == {each["invocation_id"]: 1 for each in items}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "first"), [(kill, ("failed", "unknown_after_crash")), (stop, ("canceled", "runtime_shutdown"))]
)
def test_a_call_that_waits_for_its_turn_runs_once_and_one_without_its_dependency_is_canceled(shop, end, first):
    with shop.serve() as (child, url):
        status, items = post_batch(url, call("hold", 1), call("pay", 2, 0), call("pay", 3))
        assert (status, [each["status"] for each in items]) == (202, ["running", "planned", "queued"])
        status, single = post_call(url, call("pay", 4))
        assert (status, single["status"]) == (202, "queued")
        end(shop, child)
    with shop.serve() as (_, url):
        without = ("canceled", "sibling_canceled")
        assert ends(url, *items, single) == [first, without, ("succeeded", None), ("succeeded", None)]
    assert shop.written == {each["invocation_id"]: 1 for each in (items[0], items[2], single)}


def run(shop, *words):
    return subprocess.run(
        [sys.executable, "-m", "agenttool", *words], cwd=shop.folder, capture_output=True, check=False
    )


@pytest.mark.slow
def test_the_decisions_of_a_call_that_two_servers_resume_have_ids_of_their_own(shop):
    with shop.serve() as (child, url):
        _, items = post_batch(url, call("hold", 1), call("hold", 2), call("hold", 3))
        until(lambda: len(shop.written) == 1)
        kill(shop, child)
    with shop.serve() as (child, url):
        until(lambda: len(shop.written) == 2 and get(url, items[2])["status"] == "queued")
        until(lambda: len(get(url, items[2])["invocation"]["permission_decision_refs"]) == 2)
        kill(shop, child)
    (shop.folder / "go").touch()
    with shop.serve() as (_, url):
        unknown = ("failed", "unknown_after_crash")
        assert ends(url, *items) == [unknown, unknown, ("succeeded", None)]
    exported = run(shop, "export", "--store", "calls.db").stdout
    (shop.folder / "export.jsonl").write_bytes(exported)
    validated = run(shop, "validate", "export.jsonl")
    assert (validated.returncode, validated.stderr) == (0, b""), validated.stdout


@pytest.mark.slow
@pytest.mark.parametrize("end", [kill, stop])
def test_the_key_of_a_call_that_did_not_start_before_its_server_ended_runs_the_call(shop, end):
    with ThreadPoolExecutor() as threads, shop.serve() as (child, url):
        held = post_call(url, call("hold", 1))[1]
        lost = threads.submit(post_call, url, call("pay", 2), 30, "k2")  # no response before the end
        until(lambda: len(json.loads(ask(f"{url}/v1/calls?open=true")[1])["items"]) == 2)
        end(shop, child)
        lost.exception()
    with shop.serve() as (_, url):
        status, again = post_call(url, call("pay", 2), 30, "k2")
        assert (status, end_of(again)) == (200, ("succeeded", None))
        assert post_call(url, call("pay", 2), 30, "k2")[1]["invocation_id"] == again["invocation_id"]
    assert shop.written == {held["invocation_id"]: 1, again["invocation_id"]: 1}


@pytest.mark.slow
def test_a_dependency_that_only_reads_runs_again_and_the_call_that_depends_on_it_runs_once(shop):
    with shop.serve() as (child, url):
        status, items = post_batch(url, call("look", 1), call("pay", 2, 0))
        assert (status, [each["status"] for each in items]) == (202, ["running", "planned"])
        kill(shop, child)
    (shop.folder / "go").touch()
    with shop.serve() as (_, url):
        assert ends(url, *items) == [("succeeded", None)] * 2
    assert shop.written == {items[1]["invocation_id"]: 1}


@pytest.mark.slow
def test_a_call_that_is_canceled_before_its_killed_server_is_taken_for_dead_does_not_run(shop):
    with shop.serve() as (child, url):
        _, items = post_batch(url, call("send", 1), call("pay", 2, 0), call("pay", 3, 0))
        _, held = post_call(url, call("hold", 4))
        _, queued = post_call(url, call("pay", 5))
        canceled = [items[0], items[1], queued]
        assert [each["status"] for each in canceled] == ["awaiting_approval", "planned", "queued"]
        killed = shop.owners()
        with shop.serve() as (_, other):
            child.kill()
            child.wait()
            assert [cancel(other, each) for each in canceled] == [202] * 3
            shop.expire_lease(*killed)
            assert ends(other, *canceled) == [("canceled", "canceled")] * 3
            assert ends(other, items[2]) == [("canceled", "sibling_canceled")]
    assert shop.written == {held["invocation_id"]: 1}


@pytest.mark.slow
@pytest.mark.parametrize("end", [kill, stop])
def test_calls_of_a_tenant_continue_in_the_next_server_without_a_request_of_the_tenant(shop, end):
    add = ["keys", "add", "agent:t", "--tenant", "acme", "--role", "caller", "--store", "calls.db", "--json"]
    program = [sys.executable, "-m", "agenttool", *add]
    added = subprocess.run(program, cwd=shop.folder, capture_output=True, text=True, check=True).stdout
    headers = {**JSON, "authorization": f"Bearer {json.loads(added)['key']}"}
    shop.file = shop.folder / "calls.acme.db"
    with shop.serve() as (child, url):
        sent = [ask(f"{url}/v1/calls?wait=0", json.dumps(each).encode(), headers) for each in HELD_AND_QUEUED]
        held, queued = (json.loads(body)["invocation_id"] for _, body in sent)
        until(lambda: shop.written)
        end(shop, child)
        shutil.copy(shop.file, shop.folder / "calls.copy.db")  # its calls must not run a second time
    with shop.serve():
        until(lambda: queued in shop.written)
    assert shop.written == {held: 1, queued: 1}


@pytest.mark.slow
def test_a_planned_call_that_is_canceled_ends_at_once_before_and_after_a_restart(shop):
    with shop.serve() as (child, url):
        _, items = post_batch(url, call("send", 1), call("pay", 2, 0), call("pay", 3, 0))
        assert cancel(url, items[1]) == 202
        assert ends(url, items[1]) == [("canceled", "canceled")]
        assert [get(url, each)["status"] for each in items] == ["awaiting_approval", "canceled", "planned"]
        kill(shop, child)
    with shop.serve() as (_, url):
        assert cancel(url, items[2]) == 202
        assert ends(url, items[2]) == [("canceled", "canceled")]
        assert get(url, items[0])["status"] == "awaiting_approval"
    assert not shop.written


@pytest.mark.slow
def test_a_call_says_which_tool_it_waits_for_if_the_next_server_does_not_have_it(shop):
    with shop.serve() as (child, url):
        _, (_, planned) = post_batch(url, call("send", 1), call("pay", 2, 0))
        stop(shop, child)
    write_settings(shop.folder / "agenttool.toml", "")
    (shop.folder / "shop.py").write_text(SHOP.replace("async def pay", "async def settle"))
    with shop.serve() as (_, url):
        notice = get(url, planned)["notice"]
        assert notice.startswith("it waits for its tool 'shop.pay', which this server does not have")
        program = [sys.executable, "-m", "agenttool", "show", planned["invocation_id"][-12:], "--url", url]
        shown = subprocess.run(program, cwd=shop.folder, capture_output=True, text=True, check=True).stdout
        assert notice in shown


@pytest.mark.slow
def test_a_call_that_waits_for_its_turn_runs_in_the_next_server_before_its_request_was_answered(shop):
    with ThreadPoolExecutor() as posting, shop.serve() as (child, url):
        post_call(url, call("hold", 1))
        waiting = posting.submit(post_call, url, call("pay", 2), 30)
        until(lambda: len(shop.queued(url)) == 1)
        (queued,) = shop.queued(url)
        kill(shop, child)
        with pytest.raises((httpcore.NetworkError, httpcore.ProtocolError)):
            waiting.result()
    with shop.serve() as (_, url):
        assert ends(url, queued) == [("succeeded", None)]
    assert shop.written[queued["invocation_id"]] == 1


@pytest.mark.slow
def test_a_server_that_lost_its_lease_says_that_the_call_may_run(shop):
    with shop.serve() as (_, url):
        post_call(url, call("pay", 1))

        def lose_lease(make):
            for _ in range(100):
                shop.expire_lease()
                status, reply = make()
                if status == 503:
                    return reply["detail"]
            raise AssertionError("the server renewed its lease each time")

        assert "it may be recorded and run: send it again with the same" in lose_lease(
            lambda: post_call(url, call("pay", 2))
        )
        body = json.dumps({"calls": [call("pay", 3), call("nap", 4)]}).encode()

        def batch():
            status, reply = ask(f"{url}/v1/batches?wait=0", body, JSON)
            return status, json.loads(reply)

        assert "it may be recorded and run" in lose_lease(batch)


def post_until_stopped(url, seed, acknowledged):
    """Post calls and batches until the server is gone, also those that it refuses; note each that it acknowledged."""
    chance = random.Random(seed)
    try:
        for number in range(1000):
            if chance.random() < 0.5:
                made = call(chance.choice(["pay", "nap", "look", "send"]), number)
                status, item = post_call(url, made, key=chance.choice([f"{seed}-{number}", None]))
                acknowledged += [item] if status in (200, 202) else []
            else:
                first = call(chance.choice(["send", "nap", "look"]), number)
                rest = call("pay", number, 0), call("nap", number), call("pay", number, 1)
                acknowledged += post_batch(url, first, *rest)[1]
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
        pass


def end_with_approval(shop, url, item):
    """Wait for the end of a call; approve what waits, also calls that are asked about only after a restart."""
    for _ in range(100):
        found = get(url, item, 1)
        if not found["is_open"]:
            return found
        shop.allow()
    raise AssertionError(found)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.soak)])
def test_each_call_that_was_acknowledged_before_an_end_is_known_and_ends_and_none_writes_twice(shop, rounds):
    acknowledged, chance = [], random.Random(rounds)
    (shop.folder / "go").touch()
    for number in range(rounds):
        with shop.serve() as (child, url), ThreadPoolExecutor() as posting:
            wanted = len(acknowledged) + chance.randrange(10, 60)
            for seed in range(4):
                posting.submit(post_until_stopped, url, 100 * number + seed, acknowledged)
            until(lambda least=wanted: len(acknowledged) >= least)
            (stop if number % 4 == 3 else kill)(shop, child)
    with shop.serve() as (_, url):
        for each in acknowledged:
            get(url, each)
        found = {each["invocation_id"]: end_with_approval(shop, url, each) for each in acknowledged}
    program = [sys.executable, "-m", "agenttool", "verify", "--store", "calls.db"]
    assert subprocess.run(program, cwd=shop.folder, capture_output=True, check=False).returncode == 0
    counts = Counter(end_of(each) for each in found.values())
    print(len(found), counts)
    assert counts["canceled", "process_died"] <= rounds // 4  # a call that was just being judged is not continued
    failed = {"unknown_after_crash", "sibling_canceled", "runtime_shutdown", "process_died"}
    assert {status for status, code in counts if code not in failed} == {"succeeded"}
    assert not [(each, count) for each, count in shop.written.items() if count > 1]
    succeeded = {each for each, end in found.items() if end["status"] == "succeeded" and end["tool"] != "shop.look"}
    assert succeeded <= shop.written.keys()
