"""A server with tools that ask, fail, and return much or hostile output; and browsers of its approvers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpcore
import pytest
from browser import Visitor, open_browser
from project_settings import write_settings

TOOLS = '''
from pathlib import Path

from agenttool import Media, tool


@tool(namespace="demo")
def send_invoice(customer: str, amount: float, note: str | None = None) -> str:
    """Send an invoice to a customer."""
    with Path("sent.txt").open("a") as sent:
        sent.write(f"{customer} {amount:g}\\n")
    return f"{customer} got an invoice over {amount:g}"


@tool(namespace="demo", read_only=True)
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool(namespace="demo", read_only=True)
def repeat(text: str, times: int) -> Media:
    """Return the text many times, as a file."""
    return Media((text * times).encode(), "text/html", "page.html")


@tool(namespace="demo", read_only=True)
def flaky() -> str:
    """Fail."""
    raise ConnectionError("the server hung up")
'''


ASK_RULE = '[[rules]]\nbehavior = "ask"\ntool = "demo.send_invoice"\nargument = { "/amount" = { equals = 77 } }\n'


class Gateway:
    """`agenttool serve` as a process, with the few requests that tests need."""

    def __init__(self, folder):
        """Start the server in a folder and wait until it serves."""
        (folder / "demo_tools.py").write_text(TOOLS)
        write_settings(folder / "agenttool.toml", ASK_RULE)
        words = ("serve", "--json", "--port", "0", "--store", "state.db", "--from", "demo_tools")
        program = [sys.executable, "-m", "agenttool", *words]
        self.folder = folder
        self.log = (folder / "server.log").open("w")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
        self.process = subprocess.Popen(
            program, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        line = self.process.stdout.readline()
        assert line, Path(self.log.name).read_text()
        started = json.loads(line)
        self.url, self.first_link = started["url"], started["login_url"]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def request(self, method, path, body=None, key=None):
        """Send a request; return its status and its JSON."""
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        content = None if body is None else json.dumps(body).encode()
        reply = httpcore.request(
            method, self.url + path, headers=headers, content=content, extensions={"timeout": {"read": 90}}
        )
        return reply.status, json.loads(reply.content or b"null")

    def call(self, tool, arguments, wait=0):
        """Call a tool without a key; return the state of the call."""
        status, state = self.request("POST", f"/v1/calls?wait={wait}", {"tool": tool, "arguments": arguments})
        assert status in (200, 202), state
        return state


@pytest.fixture
def gateway(tmp_path):
    started = Gateway(tmp_path)
    yield started
    started.close()


@pytest.fixture
def browser():
    with open_browser() as started:
        yield started


@pytest.fixture
def visitor(gateway, browser):
    """Return the first approver, logged in by the link that the server printed; no page may have complained."""
    found = Visitor(browser)
    found.go(gateway.first_link)
    yield found
    assert found.complaints == []
    found.context.close()


@pytest.fixture
def second_visitor(gateway, visitor, browser):
    """Return another approver, Bob, with a browser of his own and a key."""
    reply = visitor.page.request.post(
        f"{gateway.url}/v1/keys",
        data={"subject": "bob", "roles": ["approver"]},
        headers={"origin": gateway.url, "sec-fetch-site": "same-origin", "agenttool-page-key": visitor.page_key},
    )
    assert reply.status == 201, reply.text()
    found = Visitor(browser)
    page = found.go(f"{gateway.url}/approvals")
    page.get_by_label("Key", exact=True).fill(reply.json()["key"])
    page.get_by_role("button", name="Log in").click()
    page.locator(".live.on").wait_for()
    yield found
    assert found.complaints == []
    found.context.close()
