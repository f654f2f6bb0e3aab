"""Changed settings files apply to a running server, and wrong ones do not."""

import json
import signal
import subprocess
import sys

import httpcore
import pytest
from project_settings import auditor_key, write_settings
from waiting import wait_until

pytestmark = pytest.mark.slow

BOUND_S = 60

TOOLS = '''
import asyncio
from pathlib import Path
from agenttool import tool

@tool(namespace="{name}", read_only=True, open_world=False, concurrency_safe=True)
def echo(text: str) -> str:
    """Return a text."""
    return "{name}: " + text

@tool(namespace="{name}", read_only=True, open_world=False, concurrency_safe=True)
async def slow() -> str:
    """Wait for a file."""
    Path("started.txt").touch()
    while not Path("ready.txt").exists():
        await asyncio.sleep(0.02)
    return "{name} ended"
'''

FIRST = """
[store]
url = "sqlite:calls.db"

[sources.one]
kind = "python"
module = "one_tools"
"""

DENY = """
[[rules]]
name = "no_echo"
behavior = "deny"
tool = "one.echo"
because = "not today"
"""

SECOND_SOURCE = """
[sources.two]
kind = "python"
module = "two_tools"
"""


class Server:
    def __init__(self, folder, child, url):
        self.folder, self.child, self.url = folder, child, url
        self.auditor = auditor_key(folder)["authorization"].removeprefix("Bearer ")

    def send(self, method, path, body=None, key=None):
        headers = {"content-type": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})
        content = None if body is None else json.dumps(body).encode()
        reply = httpcore.request(method, self.url + path, headers=headers, content=content)
        assert reply.status < 300, reply.content
        return json.loads(reply.content)

    def start(self, tool, **arguments):
        """Start a call that takes long; give its id."""
        return self.send("POST", "/v1/calls?wait=0.1", {"tool": tool, "arguments": arguments})["invocation_id"]

    def end_of(self, invocation_id):
        return text_of(self.send("GET", f"/v1/calls/{invocation_id}?wait=30"))

    def call(self, tool, key=None, **arguments):
        return text_of(self.send("POST", "/v1/calls", {"tool": tool, "arguments": arguments}, key))

    def status(self):
        return self.send("GET", "/v1/status", key=self.auditor)

    def sources(self):
        return {each["name"] for each in self.status()["sources"]}

    def settings(self, text):
        write_settings(self.folder / "agenttool.toml", text)


def text_of(reply):
    """Give the text of a result, or the class of its error."""
    result = reply["result"]
    return result["error"]["error_class"] if result.get("error") else result["content"][0]["text"]


@pytest.fixture
def server(tmp_path, serving):
    for name in ("one", "two"):
        (tmp_path / f"{name}_tools.py").write_text(TOOLS.format(name=name))
    write_settings(tmp_path / "agenttool.toml", FIRST)
    with serving("serve", "--port", "0") as (child, printed):
        yield Server(tmp_path, child, printed["url"])


def test_a_rule_that_is_added_denies_the_next_call_and_a_running_call_ends(server):
    assert server.call("one.echo", text="a") == "one: a"
    started = server.start("one.slow")
    wait_until((server.folder / "started.txt").exists)
    server.settings(FIRST + DENY + '[[rules]]\nbehavior = "deny"\ntool = "one.slow"\n')
    wait_until(lambda: server.call("one.echo", text="b"), lambda text: text == "permission_denied")
    (server.folder / "ready.txt").touch()
    assert server.end_of(started) == "one ended"


def test_a_source_that_is_added_is_offered_and_one_that_is_removed_is_not_while_its_call_ends(server):
    server.settings(FIRST + SECOND_SOURCE)
    wait_until(server.sources, lambda names: names == {"one", "two"})
    assert server.call("two.echo", text="a") == "two: a"
    started = server.start("two.slow")
    wait_until((server.folder / "started.txt").exists)
    server.settings(FIRST)
    wait_until(server.sources, lambda names: names == {"one"})
    assert server.call("two.echo", text="b") == "blocked_tool"
    (server.folder / "ready.txt").touch()
    assert server.end_of(started) == "two ended"
    server.settings(FIRST + SECOND_SOURCE)
    wait_until(server.sources, lambda names: names == {"one", "two"})
    assert server.call("two.echo", text="c") == "two: c"


WRONG = (
    ("[[rules]]\nbehavior = ", "agenttool.toml"),
    (FIRST + SECOND_SOURCE + '[[rules]]\nbehavior = "deny"\ntool = "one.ecko"\n', "one.ecko"),
    (FIRST + '[sources.three]\nkind = "python"\nmodule = "no_such_module"\n', "no_such_module"),
)


def test_wrong_settings_leave_those_before_in_force_and_the_status_and_the_log_say_why(server):
    server.settings(FIRST + DENY)
    wait_until(lambda: server.call("one.echo", text="a"), lambda text: text == "permission_denied")
    for wrong, reason in WRONG:
        server.settings(wrong)
        wait_until(server.status, lambda page, reason=reason: reason in (page["settings_fault"] or ""))
        assert server.call("one.echo", text="b") == "permission_denied"
        assert server.sources() == {"one"}
        assert server.call("two.echo", text="b") in ("unknown_tool", "blocked_tool")
    server.settings(FIRST)
    wait_until(server.status, lambda page: page["settings_fault"] is None)
    assert server.call("one.echo", text="c") == "one: c"
    server.child.send_signal(signal.SIGTERM)
    log = server.child.communicate(timeout=BOUND_S)[1]
    assert all(reason in log for _, reason in WRONG)


def test_a_changed_file_applies_once_the_user_trusts_it_and_names_what_needs_a_restart(server):
    changed = FIRST + SECOND_SOURCE + "[server]\nport = 9\n"
    (server.folder / "agenttool.toml").write_text(changed)
    server.child.send_signal(signal.SIGHUP)
    fault = wait_until(server.status, lambda page: page["settings_fault"])["settings_fault"]
    assert "changed since you trusted it" in fault
    assert server.sources() == {"one"}
    server.settings(changed)
    wait_until(server.sources, lambda names: names == {"one", "two"})
    page = wait_until(server.status, lambda page: page["settings_fault"] is None)
    assert page["settings_need_restart"] == ["server"]


def test_settings_apply_to_tenants_that_are_open_and_to_those_that_open_later(server):
    red, blue = (add_key(server.folder, tenant) for tenant in ("red", "blue"))
    assert server.call("one.echo", red, text="a") == "one: a"
    server.settings(FIRST + DENY)
    wait_until(lambda: server.call("one.echo", red, text="b"), lambda text: text == "permission_denied")
    server.settings("broken =")
    wait_until(server.status, lambda page: page["settings_fault"])
    assert server.call("one.echo", blue, text="c") == "permission_denied"
    server.settings(FIRST + DENY + 'tenant = "red"\n')
    wait_until(lambda: server.call("one.echo", blue, text="d"), lambda text: text == "one: d")
    assert server.call("one.echo", red, text="d") == "permission_denied"
    assert server.call("one.echo", text="d") == "one: d"
    server.settings(FIRST + DENY + 'tenant = "Red tenant"\n')
    wait_until(server.status, lambda page: "a tenant: lower-case" in (page["settings_fault"] or ""))


def add_key(folder, tenant):
    words = ["keys", "add", f"agent:{tenant}", "--role", "caller", "--tenant", tenant, "--json"]
    program = [sys.executable, "-m", "agenttool", *words]
    return json.loads(subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True).stdout)["key"]
