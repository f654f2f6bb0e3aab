"""`agenttool serve` with waiting calls, a choice, an authorization, a subscription and a view."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from project_settings import write_settings
from starting import begin

from agenttool.adapters.rap.wire import ViewUpdate, write

pytestmark = pytest.mark.slow

BOUND_S = 60
KEPT = ("waiting", "prompts", "subscriptions", "views")
EVERYWHERE = "0.0.0.0"  # noqa: S104 -- what these tests are about
IN_ORDER = (0, "")
"""The status of a program that was stopped, and all that it had to say about that."""


async def start_all(garden):
    """Make a call of each sort and leave them; give their ids, and where callbacks of the first go."""
    async with garden.caller() as rt:
        surface = await rt.surface()
        calls = [
            (await begin(rt, name, arguments, surface=surface, actor_ref="user:ada")).invocation_id
            for name, arguments in (("grow", {}), ("water", {"bed": 3}), ("read_meter", {}), ("watch", {}))
        ]
        [thread] = {each.thread.thread_id for each in await rt.deferred.list()}
        return calls, rt.sources.get("rap").callbacks.urls.url(calls[0], thread), thread


async def came_of(garden, calls):
    """Give what came of calls that end, and the events that came meanwhile, once there is one."""
    async with asyncio.timeout(BOUND_S), garden.caller() as rt:
        results = [await rt.calls.get(call).result() for call in calls]
        async for _ in rt.sources.get("rap").subscriptions.follow():
            break
        events = await rt.sources.get("rap").subscriptions.events()
        return [each.content[0].text for each in results], [each.text for each in events]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_waiting_calls_continue_in_the_next_process_and_run_once(garden, by):
    with garden.served() as child:
        calls, _, _ = asyncio.run(start_all(garden))
        before = garden.has(waiting=3, prompts=2, subscriptions=1, views=1)
        assert {each["invocation_id"] for each in before["waiting"]} == set(calls[:3])
        assert {each["kind"] for each in before["prompts"]} == {"choice", "authorization"}
        assert before["subscriptions"][0]["tool_call_id"] == calls[3]
        assert garden.stop(child, by) == IN_ORDER
    garden.write("dry.txt", "bed 3 is dry")  # no process takes its event now
    with garden.served() as child:
        again = garden.page()
        assert {part: again[part] for part in KEPT} == {part: before[part] for part in KEPT}
        [choice] = [each["prompt_id"] for each in before["prompts"] if each["kind"] == "choice"]
        answered = garden.run("approvals", "answer", choice, "1")
        assert answered.returncode == 0, answered.stderr
        garden.write("ripe.txt", "ripe")
        texts, events = asyncio.run(came_of(garden, calls[:2]))
        left = garden.has(waiting=1, prompts=1, subscriptions=1, views=1)
        assert garden.stop(child, by) == IN_ORDER
    assert (texts, events) == (["ripe", "bed 3: water it"], ["bed 3 is dry"])
    assert left["waiting"][0]["invocation_id"] == calls[2]
    assert sorted((garden.folder / "ran.txt").read_text().splitlines()) == ["grow", "water 3"]
    assert garden.run("verify").returncode == 0


@contextmanager
def half_sent(callback_url, thread):
    """Post the first half of a callback; yield the connection and the rest of the body."""
    body = write(ViewUpdate(group_id=thread, view_type="harvest", content={"tomatoes": 4}))
    parts = urlsplit(callback_url)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=BOUND_S) as sender:
        sender.sendall(head.encode() + body[:10])
        yield sender, body[10:]


def test_a_received_callback_is_stored_while_new_connections_are_refused(garden):
    with garden.served(grace_s=3600) as child:
        _, url, thread = asyncio.run(start_all(garden))
        garden.has(waiting=3, views=1)
        with half_sent(url, thread) as (sender, rest):
            garden.has(waiting=3)  # a whole request later, the half of one has come in
            child.send_signal(signal.SIGTERM)
            garden.wait_until_it_lets_nobody_in()
            assert child.poll() is None
            sender.sendall(rest)
            assert sender.recv(1000).startswith(b"HTTP/1.1 200")
        assert garden.end_of(child) == IN_ORDER
    with garden.served():
        assert {each["view_type"] for each in garden.page()["views"]} == {"growth", "harvest"}


def test_an_incomplete_callback_delays_a_stop_only_up_to_the_grace_period(garden):
    with garden.served(grace_s=0.5) as child:
        _, url, thread = asyncio.run(start_all(garden))
        with half_sent(url, thread) as (sender, _):
            garden.has(waiting=3, views=1)
            assert garden.stop(child, signal.SIGTERM) == IN_ORDER
            assert sender.recv(1000) == b""


def test_a_second_signal_stops_without_waiting_and_with_status_0(garden):
    with garden.served(grace_s=3600) as child:
        _, url, thread = asyncio.run(start_all(garden))
        with half_sent(url, thread):
            garden.has(waiting=3, views=1)
            child.send_signal(signal.SIGTERM)
            garden.wait_until_it_lets_nobody_in()
            assert child.poll() is None
            assert garden.stop(child, signal.SIGTERM) == IN_ORDER


def test_an_unusable_store_is_reported_without_a_traceback(garden):
    (garden.folder / "calls.db").write_text("this is no database, and was none before; not even nearly")
    done = garden.run("serve", "--json")
    assert done.returncode == 2
    assert "calls.db" in json.loads(done.stdout)["error"]["message"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message", "reached"),
    [
        (["--host", EVERYWHERE], ["other machines reach this port", "set --url"], "http://127.0.0.1:"),
        (["--host", EVERYWHERE, "--url", "https://a.example/x/"], ["allow only your proxy"], "https://a.example/x"),
        (["--url", "http://localhost:1/x"], ["this serves http://127.0.0.1:", "the same port"], "http://localhost:1/x"),
        (["--url", "https://localhost:1"], [], "https://localhost:1"),
        (["--host", "::1"], [], "http://[::1]:"),
        ([], [], "http://127.0.0.1:"),
    ],
)
def test_a_public_address_or_a_different_callback_port_prints_a_warning(serving, words, message, reached):
    """Every word of the warning counts, and there is none where nothing is wrong."""
    with serving("serve", "--port", "0", *words) as (child, line):
        assert line["callback_url"].startswith(reached)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=BOUND_S)
    assert all(each in said for each in message) if message else said == ""


@pytest.mark.parametrize(
    "url",
    [
        "agents.example",
        "ftp://agents.example",
        "https://",
        "https://a.example/?x=1",
        "http://[",
        "http://a.example:99999",
    ],
)
def test_an_unusable_url_is_rejected(run, url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("serve", "--port", "0", "--url", url)
    assert done.exit_code == 2
    assert "https://agents.example" in done.output


def test_an_unknown_host_is_reported(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("serve", "--host", "no.such.host.invalid")
    assert done.exit_code == 2
    assert "cannot listen on no.such.host.invalid:8642" in done.output


def test_allowing_a_remote_call_prints_the_command_that_shows_its_result(garden):
    settings = garden.folder / "agenttool.toml"
    write_settings(settings, settings.read_text().partition("[[rules]]")[0])
    assert garden.run("call", "water", "bed=3").returncode == 3
    question = json.loads(garden.run("approvals", "--json").stdout)
    seen = ("--shown", question["shown_digest"])
    allowed = garden.run("approvals", "answer", question["approval_id"], "allow", *seen)
    assert allowed.returncode == 0
    assert f"agenttool show {question['invocation_id']}" in allowed.stderr
    assert "agenttool serve" in allowed.stderr
    assert "MODULE" not in allowed.stderr
    with garden.served():
        garden.has(waiting=1, prompts=1)


def test_a_caller_sees_a_prompt_that_another_process_received(garden):
    with garden.served():
        words = [sys.executable, "-m", "agenttool", "call", "water", "bed=3"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(words, cwd=garden.folder, **pipes) as caller:
            [prompt] = garden.has(prompts=1)["prompts"]
            hint = f"to answer: agenttool approvals answer {prompt['prompt_id']} 1"
            received = next(line for line in caller.stderr if "to answer" in line)
            assert received.strip() == hint
            assert garden.run(*hint.split()[3:]).returncode == 0
            message, more = caller.communicate(timeout=BOUND_S)
    assert "bed 3: water it" in message + more


def on_port(garden, port, *words):
    """Run the command on the same store, at another port."""
    return garden.run("serve", "--port", str(port), *words)


@pytest.mark.parametrize("words", [[], ["--url", "http://127.0.0.1:1/elsewhere"]])
def test_a_second_process_with_another_callback_address_is_rejected(garden, words):
    """Else a call that the first one sent, and the second sends again after a crash, would be another call."""
    with garden.served() as child:
        settings = garden.folder / "agenttool.toml"
        other = garden.folder / "other.toml"
        other.write_text(settings.read_text().replace(f'url = "{garden.url}"', ""))
        refused = on_port(garden, 0, "--settings", "other.toml", *words)
        assert refused.returncode == 2
        message = " ".join(refused.stderr.split())
        assert f"receives callbacks at {garden.url}/rap/callbacks" in message
        assert "give both the same --url or [server] url, or stop the other" in message
        assert "Traceback" not in message
        assert garden.page()["faults"] == []
        assert garden.stop(child, signal.SIGTERM) == IN_ORDER


def test_callers_use_the_callback_address_of_the_serving_process(garden):
    """Whatever their settings say: what they send is answered, and sent again word for word."""
    settings = garden.folder / "agenttool.toml"
    with garden.served() as child:
        garden.has(waiting=0)  # it needs a key, which no command adds while the settings are not trusted
        settings.write_text(settings.read_text().replace(garden.url.rpartition(":")[2], "1"))
        calls, callback_url, _ = asyncio.run(start_all(garden))
        assert callback_url.startswith(f"{garden.url}/rap/callbacks/")
        garden.write("ripe.txt", "ripe")
        garden.has(waiting=2)
        assert garden.stop(child, signal.SIGTERM)[0] == 0  # it may report the changed file
    assert len(calls) == 4


def test_a_changed_callback_address_prints_a_warning_while_calls_wait(garden, serving):
    with garden.served() as child:
        asyncio.run(start_all(garden))
        garden.has(waiting=3)
        assert garden.stop(child, signal.SIGTERM) == IN_ORDER
    moved = ("serve", "--port", "0", "--url", "http://127.0.0.1:1")
    with serving(*moved) as (child, _):
        _, message = garden.stop(child, signal.SIGTERM)
    assert f"the callback address {garden.url}, and their results go there" in " ".join(message.split())


def test_a_log_shows_no_login_link_and_keys_link_uses_the_port_that_is_served(tmp_path, free_port):
    port = free_port()
    (tmp_path / "clocktools.py").write_text(
        "from agenttool import tool\n\n@tool(namespace='clock')\ndef now() -> str:\n    'Work.'\n"
    )
    store = ("--store", "calls.db")
    program = [sys.executable, "-m", "agenttool"]
    served = [*program, "serve", "--port", str(port), "--from", "clocktools", *store]
    with subprocess.Popen(served, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        try:
            shown = ""
            while "status: curl" not in shown:
                line = child.stderr.readline()
                assert line, shown
                shown += line
            link = subprocess.run(
                [*program, "keys", "link", *store], cwd=tmp_path, capture_output=True, text=True, check=True
            )
        finally:
            child.kill()
    assert ("keys link` prints a link" in shown, "#login=" in shown) == (True, False)
    assert f"http://127.0.0.1:{port}/" in link.stdout + link.stderr
