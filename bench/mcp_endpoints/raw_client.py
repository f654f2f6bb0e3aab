"""An MCP client of the standard library alone, so that the time of a call is the time of its server."""

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, cast

REVISION = "2026-07-28"
OLD_REVISION = "2025-11-25"
START_S = 60.0
"""How long a server may take to start."""

ERRORS = "errors.log"
"""The file of the error output of a server in its folder."""

_PREFIX = "io.modelcontextprotocol/"
_CLIENT = {"name": "bench", "version": "1"}
_META = {
    f"{_PREFIX}protocolVersion": REVISION,
    f"{_PREFIX}clientInfo": _CLIENT,
    f"{_PREFIX}clientCapabilities": {},
}


class Channel(Protocol):
    """Sends messages to one server."""

    def send(self, message: dict[str, object]) -> dict[str, object] | None:
        """Send a message; return the response to a request, and None for a notification."""
        ...


class Pipes:
    """A channel to the standard streams of a process."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        """Take a process that was just started, and the file of its error output."""
        self._log = log
        self._input, self._output = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)

    def send(self, message: dict[str, object]) -> dict[str, object] | None:
        """Write a line, and read lines until the response."""
        self._input.write(json.dumps(message).encode() + b"\n")
        self._input.flush()
        while "id" in message:
            line = self._output.readline()
            if not line:
                raise RuntimeError(f"the server has ended: {self._log.read_text()}")
            found = json.loads(line)
            if found.get("id") == message["id"] and "method" not in found:
                return cast("dict[str, object]", found)
        return None


class Post:
    """A channel over streamable HTTP, on one connection."""

    def __init__(self, port: int, path: str = "/mcp") -> None:
        """Take the address of the server."""
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
        self._path = path
        self.session: dict[str, str] = {}

    def send(self, message: dict[str, object]) -> dict[str, object] | None:
        """Post a message, and read the response: JSON, or the last event of a stream."""
        params = cast("dict[str, object]", message.get("params", {}))
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.session}
        if "_meta" in params:
            named = {"Mcp-Name": str(params["name"])} if "name" in params else {}
            headers |= {"MCP-Protocol-Version": REVISION, "Mcp-Method": str(message["method"]), **named}
        response = self._post(json.dumps(message), headers)
        body = response.read()
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"the server answered with {response.status}: {body[:300]!r}")
        session = response.getheader("mcp-session-id")
        if session is not None:
            self.session = {"mcp-session-id": session, "MCP-Protocol-Version": OLD_REVISION}
        if "id" not in message:
            return None
        events = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
        return cast("dict[str, object]", json.loads(events[-1] if events else body))

    def _post(self, body: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        try:
            self._connection.request("POST", self._path, body, headers)
            return self._connection.getresponse()
        except (ConnectionError, http.client.RemoteDisconnected):  # the server has closed an idle connection
            self._connection.close()
            self._connection.request("POST", self._path, body, headers)
            return self._connection.getresponse()


class RawClient:
    """Sends requests in turn."""

    def __init__(self, channel: Channel, *, revision: str = REVISION) -> None:
        """Take a channel; the older revision begins with its handshake."""
        self._channel = channel
        self._number = 0
        self._meta = {"_meta": _META} if revision == REVISION else {}
        if not self._meta:
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": _CLIENT}
            self.request("initialize", params)
            channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, object]:
        """Return the result of a request.

        Raises:
            RuntimeError: it is an error.
        """
        self._number += 1
        whole = {**(params or {}), **self._meta}
        answer = self._channel.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": whole})
        result = (answer or {}).get("result")
        if not isinstance(result, dict) or cast("dict[str, object]", result).get("isError"):
            raise RuntimeError(f"{method} failed: {answer!r}")
        return cast("dict[str, object]", result)

    def tools(self) -> list[dict[str, object]]:
        """Return the tools of all pages."""
        found: list[dict[str, object]] = []
        cursor: dict[str, object] = {}
        while True:
            page = self.request("tools/list", cursor)
            found += cast("list[dict[str, object]]", page["tools"])
            if page.get("nextCursor") is None:
                return found
            cursor = {"cursor": page["nextCursor"]}


@contextmanager
def process(command: Sequence[str], source: Path, folder: Path, *, stdio: bool) -> Generator["subprocess.Popen[bytes]"]:
    """Start a server, and kill it at the end; `source` is the checkout that is measured as ours."""
    paths = (source.resolve() / "src", Path.cwd())
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    pipe = subprocess.PIPE if stdio else subprocess.DEVNULL
    with (folder / ERRORS).open("ab") as log:
        started = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=variables, cwd=folder)
        with started:
            try:
                yield started
            finally:
                started.kill()


def wait_for_port(port: int, started: "subprocess.Popen[bytes]") -> None:
    """Wait until a server listens.

    Raises:
        RuntimeError: it ended, or takes too long.
    """
    until = time.monotonic() + START_S
    while time.monotonic() < until and started.poll() is None:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.02)
    raise RuntimeError("the server does not listen")
