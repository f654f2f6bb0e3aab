"""Send requests on several connections at once, and compare how long one takes."""

import json
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from bench.figure import Absent, Figure, compare_rounds, with_max_ratio
from bench.harness import Missing, Settings, interpreter
from bench.mcp_endpoints import raw_client
from bench.mcp_endpoints.raw_client import OLD_REVISION, START_S, Post, RawClient, process, wait_for_port
from bench.process import processor_time

ROUNDS, REQUESTS, CONNECTIONS = 21, 30, 16
WARM_UP = 5
_HERE = Path(__file__).resolve().parent
_ARGUMENTS = {"text": "hello"}
_ID = b"99"
"""Stands for the id of a JSON-RPC request; those of one session must differ."""


class Sender:
    """Sends the same request to one server again and again, on several connections."""

    def __init__(self, pid: int, port: int, path: str, body: object, headers: dict[str, str]) -> None:
        """Take the process and the port of a server, and the request."""
        self.pid = pid
        content = json.dumps(body).encode()
        lines = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json", **headers}
        lines["Content-Length"] = str(len(content))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._head, self._body = f"POST {path} HTTP/1.1\r\n{head}\r\n".encode(), content
        self._port = port

    def time(self, requests: int) -> float:
        """Return the seconds for one request; servers close idle connections, so new ones are opened before."""
        with ExitStack() as stack:
            address = "127.0.0.1", self._port
            sockets = [
                stack.enter_context(socket.create_connection(address, timeout=START_S)) for _ in range(CONNECTIONS)
            ]
            sent = [self._head + self._body.replace(_ID, b"%d" % (10 + each)) for each in range(CONNECTIONS)]
            start = time.perf_counter()
            for _ in range(requests):
                for each, request in zip(sockets, sent, strict=True):
                    each.sendall(request)
                for each in sockets:
                    _read(each)
            return (time.perf_counter() - start) / (requests * CONNECTIONS)


def _read(connection: socket.socket) -> None:
    """Read one response.

    Raises:
        RuntimeError: the request failed, or the call did.
    """
    found = connection.recv(65536)
    head, _, body = found.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(each[15:]) for each in lines if each.startswith(b"content-length:")), None)
    while len(body) < length if length is not None else not body.endswith(b"0\r\n\r\n"):
        more = connection.recv(65536)
        if not more:
            break
        body += more
    if not lines[0].startswith(b"http/1.1 200") or b"hello" not in body:
        raise RuntimeError(f"the request failed: {head!r} {body[:300]!r}")


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time all servers in one run, in alternating order."""
    rounds, requests = (5, 10) if settings.quick else (ROUNDS, REQUESTS)
    with ExitStack() as stack:
        servers = {kind: _open(kind, settings, stack) for kind in ("echo", "memory", "sqlite")}
        reason = ""
        try:
            servers["fastmcp"] = _open_fastmcp(settings, stack)
        except Missing as error:
            reason = str(error)
        for each in servers.values():
            each.time(WARM_UP)
        times: dict[str, list[float]] = {kind: [] for kind in servers}
        processor: dict[str, list[float]] = {kind: [] for kind in servers}
        for number in range(rounds):
            for kind in reversed(servers) if number % 2 else servers:
                before = processor_time(servers[kind].pid)
                times[kind].append(servers[kind].time(requests))
                spent = processor_time(servers[kind].pid) - before
                processor[kind].append(spent / (requests * CONNECTIONS))
    return [figure for store in ("memory", "sqlite") for figure in _figures(store, times, processor, reason)]


def _figures(
    store: str, times: dict[str, list[float]], processor: dict[str, list[float]], reason: str
) -> Sequence[Figure | Absent]:
    name, bare = f"POST /v1/calls with a key, {store} store", "bare echo of the same server"
    echo = with_max_ratio(compare_rounds(name, times[store], times["echo"], peer_name=bare, unit="µs"), at_most=2)
    # On a machine that is busy with other work, only this one is steady.
    used = compare_rounds(f"{name}, processor time", processor[store], processor["echo"], peer_name=bare, unit="µs")
    if "fastmcp" not in times:
        return echo, used, Absent(name=name, peer_name="fastmcp", reason=reason)
    fastmcp = compare_rounds(name, times[store], times["fastmcp"], peer_name="fastmcp, tools/call", unit="µs")
    return echo, used, with_max_ratio(fastmcp, at_most=1 / 6)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that was started: its process, its port, the key of a caller, and keys that read events."""

    pid: int
    port: int
    key: str
    readers: Sequence[str]


def open_server(kind: str, settings: Settings, stack: ExitStack, *words: str) -> Server:
    """Start a server with further words of its command, and end it with the stack.

    Raises:
        RuntimeError: it ended at once.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-http-")))
    command = [sys.executable, str(_HERE / "served.py"), kind, *words]
    started = stack.enter_context(process(command, settings.source, folder, stdio=True))
    line = cast("IO[bytes]", started.stdout).readline()
    if not line:
        raise RuntimeError((folder / raw_client.ERRORS).read_text())
    return Server(pid=started.pid, **json.loads(line))


def _open(kind: str, settings: Settings, stack: ExitStack) -> Sender:
    server = open_server(kind, settings, stack)
    body = {"tool": "bench.echo", "arguments": _ARGUMENTS}
    return Sender(server.pid, server.port, "/v1/calls", body, {"Authorization": f"Bearer {server.key}"})


def _open_fastmcp(settings: Settings, stack: ExitStack) -> Sender:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-http-")))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(interpreter("fastmcp_client").absolute()), str(_HERE / "fastmcp_echo.py"), str(port)]
    started = stack.enter_context(process(command, settings.source, folder, stdio=False))
    wait_for_port(port, started)
    post = Post(port)
    RawClient(post, revision=OLD_REVISION)  # the handshake
    body = {
        "jsonrpc": "2.0",
        "id": int(_ID),
        "method": "tools/call",
        "params": {"name": "echo", "arguments": _ARGUMENTS},
    }
    headers = {"Accept": "application/json, text/event-stream", **post.session}
    return Sender(started.pid, port, "/mcp", body, headers)
