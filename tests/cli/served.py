"""A provider and served runtimes as processes, for tests that stop one of them while things wait."""

import json
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpcore
from project_settings import auditor_key, write_settings
from waiting import wait_until

from agenttool import Runtime

BOUND_S = 60

PROVIDER = '''
import asyncio
from pathlib import Path
from agenttool.rap import RapCall, Event, OAuthClient, Provider

meter = OAuthClient(
    name="meter", authorize_url="https://meter.example/grant", token_url="https://meter.example/token", client_id="gh"
)
provider = Provider("greenhouse", allow=["127.0.0.1"], clients=[meter])

async def written(name):
    while not Path(name).exists():
        await asyncio.sleep(0.02)
    return Path(name).read_text()

@provider.tool
async def water(bed: int, call: RapCall) -> str:
    """Water one bed, after asking."""
    picked = await call.choose(f"Water bed {bed}?", ["water it", "leave it dry"])
    with Path("ran.txt").open("a") as ran:
        ran.write(f"water {bed}\\n")
    return f"bed {bed}: {picked}"

@provider.tool
async def grow(call: RapCall) -> str:
    """Grow until it is ripe."""
    with Path("ran.txt").open("a") as ran:
        ran.write("grow\\n")
    await call.view("growth", {"leaves": 2})
    try:
        return await written("ripe.txt")
    except asyncio.CancelledError:
        Path("withered.txt").touch()
        raise

@provider.tool(requires_auth="meter")
async def read_meter(call: RapCall) -> str:
    """Read the meter."""
    return str(await call.authorize())

@provider.subscription
async def watch(call: RapCall):
    """Watch a bed."""
    yield "watching"
    if not call.bookmark:
        yield Event(value=await written("dry.txt"), bookmark="told")
    await asyncio.Event().wait()
'''

SETTINGS = """
[store]
url = "sqlite:calls.db"

[sources.greenhouse]
kind = "rap"
url = "http://127.0.0.1:{provider}"
allow = ["127.0.0.1"]
shares_user = true

[server]
port = {port}
url = "http://127.0.0.1:{port}"

[[rules]]
name = "garden"
behavior = "allow"
tool = "greenhouse.*"
"""

IMPATIENT = """
import sys
from agenttool.adapters.rap import listener
from agenttool.cli import http_server, main
listener.BODY_TIMEOUT_S = listener.HEAD_TIMEOUT_S = listener.REQUEST_TIMEOUT_S = 3600.0
http_server.GRACE_S = float(sys.argv.pop(1))
main.main()
"""
"""The command, but for how long it waits for the rest of a request: always, and so long once it is to stop."""


@contextmanager
def running(folder, program):
    """Run a program that says in a line of JSON when it is there."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *program], cwd=folder, **pipes) as child:
        try:
            line = child.stdout.readline()
            assert line, child.stderr.read()
            yield child, json.loads(line)
        finally:
            child.kill()


class Garden:
    """A folder with settings, a provider that runs, and a port on which a runtime may be served."""

    def __init__(self, folder, port, provider):
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self._key = None
        write_settings(folder / "agenttool.toml", SETTINGS.format(port=port, provider=provider))

    @contextmanager
    def served(self, *, grace_s=None):
        """Serve the runtime, by the command itself or by one that waits so long when it is to stop."""
        program = ["-m", "agenttool"] if grace_s is None else ["-c", IMPATIENT, str(grace_s)]
        with running(self.folder, [*program, "serve", "--json"]) as (child, printed):
            assert printed["callback_url"] == self.url
            yield child

    def caller(self):
        """Open a runtime on the same store, as a program does that makes calls and leaves them to the served one."""
        return Runtime.open(config=self.folder / "agenttool.toml")

    def write(self, name, text):
        """Write a file that its reader finds whole or not at all."""
        (self.folder / f"{name}.new").write_text(text)
        (self.folder / f"{name}.new").rename(self.folder / name)

    def run(self, *words):
        """Run a command in the folder."""
        program = [sys.executable, "-m", "agenttool", *words]
        return subprocess.run(
            program,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def page(self):
        """Ask what waits."""
        if self._key is None:
            self._key = auditor_key(self.folder)
        reply = httpcore.request("GET", self.url + "/v1/status", headers=self._key)
        assert reply.status == 200
        return json.loads(reply.content)

    def page_when(self, is_so):
        """Ask what waits until something is so."""
        return wait_until(self.page, is_so)

    def stop(self, child, by):
        """Ask it to stop, and give how it ended and what it said of it."""
        child.send_signal(by)
        return self.end_of(child)

    def end_of(self, child):
        """Give how it ended and what it said of it."""
        _, printed = child.communicate(timeout=BOUND_S)
        return child.returncode, printed

    def wait_until_it_lets_nobody_in(self):
        """Wait until new connections are refused."""
        wait_until(lambda: not is_taken(int(self.url.rpartition(":")[2])))

    def has(self, **counts):
        """Ask what waits until there are so many of each."""
        return self.page_when(lambda page: all(len(page[name]) == count for name, count in counts.items()))


@contextmanager
def garden(folder, port):
    """Run a provider; a runtime may be served on the port."""
    (folder / "greenhouse.py").write_text(PROVIDER)
    with running(folder, ["-m", "agenttool", "rap", "serve", "greenhouse:provider", "--port", "0", "--json"]) as (
        _,
        printed,
    ):
        yield Garden(folder, port, printed["port"])


def is_taken(port):
    """Return whether a server listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=BOUND_S).close()
    except ConnectionRefusedError:
        return False
    return True
