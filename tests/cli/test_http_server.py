"""A server stops in bounded time, even if a function cannot be stopped, and refuses hostile requests."""

import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import httpcore
import pytest
from waiting import wait_until

pytestmark = pytest.mark.slow

BOUND_S = 90
STUBBORN = '''
import asyncio, time
from pathlib import Path
from agenttool.rap import Provider

provider = Provider("bells", allow=["127.0.0.1"])

@provider.tool
async def hold() -> str:
    """Hold on, whatever anybody says."""
    Path("held.txt").touch()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue

@provider.tool
async def block() -> str:
    """Do what only ends by itself, and let nobody else have the loop meanwhile."""
    Path("held.txt").touch()
    time.sleep(3600)

@provider.tool
async def ring() -> str:
    """Ring."""
    Path("rung.txt").touch()
    return "rung"
'''
SOONER = """
import sys
from agenttool.cli import http_server, main
from agenttool.rap import background
http_server.STOP_TIMEOUT_S, background.STOP_TIMEOUT_S = 2.0, 0.5
main.main()
"""
"""The command, but it has less patience."""


@contextmanager
def inbox(port):
    """Take messages in at a port; gives where they are put."""
    taken = queue.Queue()

    class Take(BaseHTTPRequestHandler):
        def do_POST(self):
            taken.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Take)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()


def invoke(port, operation, callbacks):
    call = {"operation": operation, "arguments": {}, "id": operation, "group_id": "thread-1"}
    body = json.dumps({**call, "callback_url": f"http://127.0.0.1:{callbacks}/in"}).encode()
    assert httpcore.request("POST", f"http://127.0.0.1:{port}/invoke", content=body).status == 200


def test_a_function_that_blocks_the_event_loop_delays_a_stop_only_up_to_the_timeout(running, tmp_path, free_port):
    (tmp_path / "bells.py").write_text(STUBBORN)
    words = ["rap", "serve", "bells:provider", "--port", "0", "--json"]
    with running(tmp_path, ["-c", SOONER, *words]) as (child, printed):
        invoke(printed["port"], "block", 9)
        wait_until((tmp_path / "held.txt").exists)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=BOUND_S)
    assert child.returncode == 1
    assert "exited 2 s after the stop signal" in said


def test_a_function_that_ignores_cancellation_delays_a_stop_only_up_to_the_timeout(running, tmp_path, free_port):
    """One signal is enough, nothing that was accepted is lost, and the status says that it was not in order."""
    (tmp_path / "bells.py").write_text(STUBBORN)
    callbacks = free_port()
    words = ["rap", "serve", "bells:provider", "--port", "0", "--json"]
    with running(tmp_path, ["-c", SOONER, *words]) as (child, printed):
        invoke(printed["port"], "hold", callbacks)
        invoke(printed["port"], "ring", callbacks)
        wait_until((tmp_path / "held.txt").exists)
        wait_until((tmp_path / "rung.txt").exists)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=BOUND_S)
    assert child.returncode == 1
    assert "1 canceled functions are still running" in said
    assert "exited 2 s after the stop signal" in said
    assert "continue at the next start" in said
    (tmp_path / "bells.py").write_text(STUBBORN.replace("while True", "while False"))
    with inbox(callbacks) as taken, running(tmp_path, ["-m", "agenttool", *words]) as (child, _):
        texts = {each["id"]: each["text"] for each in (taken.get(timeout=BOUND_S), taken.get(timeout=BOUND_S))}
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=BOUND_S)
    assert child.returncode == 0
    assert texts["ring"] == "rung"
    assert "may or may not have done its work" in texts["hold"]


BRIEF = '''
import time
from pathlib import Path
from agenttool import tool

@tool(namespace="shop", read_only=True)
def count() -> str:
    """Count until it is time to go."""
    Path("counting.txt").touch()
    while not Path("go.txt").exists():
        time.sleep(0.01)
    return "counted"
'''


def test_a_call_that_runs_when_the_server_stops_is_answered_with_its_result(running, tmp_path):
    (tmp_path / "brief.py").write_text(BRIEF)
    words = ["-m", "agenttool", "serve", "--json", "--port", "0", "--store", "calls.db", "--from", "brief"]
    with running(tmp_path, words) as (child, line), ThreadPoolExecutor() as pool:
        body = json.dumps({"tool": "shop.count", "arguments": {}}).encode()
        headers = {"content-type": "application/json"}
        answer = pool.submit(httpcore.request, "POST", f"{line['url']}/v1/calls", headers=headers, content=body)
        wait_until((tmp_path / "counting.txt").exists)
        child.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(line["url"]))
        (tmp_path / "go.txt").touch()
        reply = answer.result(timeout=BOUND_S)
        child.communicate(timeout=BOUND_S)
    assert (reply.status, json.loads(reply.content)["status"]) == (200, "succeeded")
    assert child.returncode == 0


def is_refused(url):
    """Return whether a server that stops accepts no connection any more."""
    try:
        return httpcore.request("GET", f"{url}/healthz").status != 200
    except (httpcore.ConnectError, httpcore.ReadError, httpcore.RemoteProtocolError):
        return True


WITH_PATIENCE = """
import sys
from agenttool.adapters.rap import listener
from agenttool.cli import main
listener.HEAD_TIMEOUT_S = float(sys.argv.pop(1))
listener.REQUEST_TIMEOUT_S = 2 * listener.HEAD_TIMEOUT_S
main.main()
"""
"""The command, but with another patience for the head of a request."""

POST = b"POST /v1/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
MAX_CONNECTIONS = 20
ROOM_KB = 100_000


@pytest.fixture
def gateway(request, running, tmp_path):
    """`agenttool serve` with few connections: its process, and what connects to it. The parameter is its patience."""
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f'[store]\nurl = "sqlite:calls.db"\n[server]\nurl = "http://127.0.0.1"\nmax_connections = {MAX_CONNECTIONS}\n'
    )
    program = [
        "-c",
        WITH_PATIENCE,
        getattr(request, "param", "0.5"),
        "serve",
        "--json",
        "--port",
        "0",
        "--settings",
        str(settings),
    ]
    with running(tmp_path, program) as (child, printed):
        port = int(printed["url"].rpartition(":")[2])
        yield child, lambda: socket.create_connection(("127.0.0.1", port), timeout=BOUND_S)


def ending(connection, *pieces):
    """Send pieces until the server closes the connection; return what it answered."""
    with connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            answer = b""
            while data := connection.recv(65_536):
                answer += data
        except ConnectionError:
            return b""
        return answer


def is_served(connect):
    return ending(connect(), b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").startswith(
        b"HTTP/1.1 200"
    )


def memory_kb(child):
    """The most memory that a process has used."""
    with open(f"/proc/{child.pid}/status", encoding="ascii") as status:  # noqa: PTH123 -- not a file of its own
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


UNFINISHED = {
    "nothing": b"",
    "a head": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: ",
    "a body": POST + b"Content-Length: 100\r\n\r\n{",
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
}


@pytest.mark.parametrize("begun", UNFINISHED.values(), ids=UNFINISHED)
def test_requests_that_never_end_are_closed_while_others_are_served(gateway, begun):
    _, connect = gateway
    slow = [connect() for _ in range(MAX_CONNECTIONS - 2)]
    for each in slow:
        each.sendall(begun)
    assert is_served(connect)
    answers = [ending(each) for each in slow]
    assert all(not each or each.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) for each in answers)
    assert is_served(connect)


@pytest.mark.parametrize("gateway", ["3600"], indirect=True)
def test_beyond_the_limit_idle_connections_make_room(gateway):
    _, connect = gateway
    silent = [connect() for _ in range(3 * MAX_CONNECTIONS)]
    assert is_served(connect)
    for each in silent[: 2 * MAX_CONNECTIONS]:
        assert ending(each) == b""
    for each in silent[2 * MAX_CONNECTIONS :]:
        each.close()


def test_heads_and_bodies_of_any_size_are_refused_in_bounded_memory(gateway):
    child, connect = gateway
    assert is_served(connect)
    before, block = memory_kb(child), b"x" * 1_000_000
    chunk = b"%x\r\n%s\r\n" % (len(block), block)
    heads = [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: ", *([block] * 200)),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", *([b"A: b\r\n" * 100_000] * 50)),
        (b"GET /", *([block] * 200)),
    ]
    bodies = [
        (POST + b"Content-Length: 200000000\r\n\r\n", *([block] * 200)),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", *([chunk] * 200)),
    ]
    for pieces in (*heads, *bodies):
        answer = ending(connect(), *pieces)
        assert not answer or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413", b"HTTP/1.1 431"))
    assert is_served(connect)
    assert memory_kb(child) - before < ROOM_KB


GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
HEADS = {
    "one header": lambda size: GET + b"A: " + b"x" * size + b"\r\n\r\n",
    "many headers": lambda size: GET + b"A: b\r\n" * (size // 6) + b"\r\n",
    "a query": lambda size: GET.replace(b" HTTP", b"?" + b"x" * size + b" HTTP") + b"\r\n",
}


@pytest.mark.parametrize("gateway", ["3600"], indirect=True)
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_complete_head_beyond_32_kilobytes_is_refused(gateway, head):
    _, connect = gateway
    refused = [ending(connect(), head(size)).startswith(b"HTTP/1.1 431") for size in (30_000, 34_000, 100_000)]
    assert refused == [False, True, True]


@pytest.mark.parametrize("gateway", ["3600"], indirect=True)
@pytest.mark.parametrize("more", [b"", b"Expect: 100-continue\r\n"], ids=["plain", "expecting"])
def test_an_announced_body_that_is_too_long_is_refused_before_it_is_sent(gateway, more):
    _, connect = gateway
    with connect() as connection:
        connection.sendall(POST + more + b"Content-Length: 1000001\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("gateway", ["3600"], indirect=True)
def test_a_connection_serves_the_next_request_after_a_body_that_is_too_long(gateway):
    _, connect = gateway
    body = b"x" * 12_000_000
    with connect() as connection, connection.makefile("rb") as replies:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert replies.readline().startswith(b"HTTP/1.1 413")
        lengths = [
            int(line.split()[1]) for line in iter(replies.readline, b"\r\n") if line.startswith(b"content-length")
        ]
        replies.read(*lengths)
        connection.sendall(GET + b"\r\n")
        assert replies.readline().startswith(b"HTTP/1.1 200")


HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
AMBIGUOUS = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "coded twice": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a coding with a tab": b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "two hosts": b"Host: elsewhere.example\r\nContent-Length: 2\r\n\r\n{}",
    "a space before the colon": b"Content-Length : 2\r\n\r\n{}",
}


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_requests_that_proxies_may_read_differently_are_refused_and_hide_no_other(gateway, rest):
    _, connect = gateway
    answer = ending(connect(), POST + rest + HIDDEN)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_connections_fit_into_the_open_files_that_are_allowed():
    script = """
import resource
from agenttool.cli.http_server import fit_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 400))
print(fit_open_files(100), resource.getrlimit(resource.RLIMIT_NOFILE)[0], fit_open_files(6000))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=BOUND_S)
    assert done.stdout.split() == ["100", "356", "144"]
    assert "max_connections" in done.stderr


ENDLESS = """
import sys
from agenttool.cli import main
from agenttool.server import read_pool
read_pool.WORK_S, read_pool.PAUSE_S = 0.0, 1.0
main.main()
"""
"""The command, but a read of a hundred calls takes minutes."""

HOLDING = '''
import asyncio
from agenttool import tool

@tool(namespace="shop", read_only=True, open_world=False)
async def hold() -> str:
    """Hold something for ever."""
    await asyncio.Event().wait()

@tool(namespace="shop", read_only=True, open_world=False)
async def count() -> int:
    """Count."""
    return 1
'''

OPENING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "client", "version": "1"},
}


@contextmanager
def requested(url, method, path, body=None, **headers):
    """Send a request, and leave its response open; gives the socket."""
    parts = urlsplit(url)
    content = b"" if body is None else json.dumps(body).encode()
    given = {"host": parts.netloc, "content-type": "application/json", "content-length": str(len(content)), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
    with socket.create_connection((parts.hostname, parts.port), timeout=BOUND_S) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode() + content)
        yield client


def read_until(client, text):
    """Return what comes until a text has come."""
    found = b""
    while text not in found:
        piece = client.recv(65536)
        assert piece, found
        found += piece
    return found


def test_a_stop_with_open_streams_polls_and_long_reads_ends_with_status_0(running, tmp_path):
    (tmp_path / "shop.py").write_text(HOLDING)
    words = ["serve", "--json", "--port", "0", "--store", "calls.db", "--from", "shop"]
    with running(tmp_path, ["-c", ENDLESS, *words]) as (child, line), ExitStack() as stack:
        url = line["url"]
        calls = [{"tool": "shop.count", "arguments": {}} for _ in range(100)]
        made = httpcore.request(
            "POST",
            f"{url}/v1/batches",
            headers={"content-type": "application/json"},
            content=json.dumps({"calls": calls}).encode(),
        )
        assert made.status == 200, made.content
        accept = "application/json, text/event-stream"
        streams = []
        for _ in range(3):
            streams.append(stack.enter_context(requested(url, "GET", "/v1/events")))
            read_until(streams[-1], b"event: ready")
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING}
            with requested(url, "POST", "/mcp", message, accept=accept) as opened:
                head = read_until(opened, b"serverInfo").partition(b"\r\n\r\n")[0].decode().lower()
            session = next(each for each in head.split("\r\n") if each.startswith("mcp-session-id")).split(": ")[1]
            stream = stack.enter_context(requested(url, "GET", "/mcp", accept=accept, mcp_session_id=session))
            read_until(stream, b"200 OK")
            stack.enter_context(requested(url, "POST", "/v1/calls?wait=60", {"tool": "shop.hold", "arguments": {}}))
        read_until(streams[0], b"tool.invocation.started")  # the later calls wait for their turn
        reads = [stack.enter_context(requested(url, "GET", "/v1/calls?containing=count")) for _ in range(3)]
        child.send_signal(signal.SIGTERM)
        refused = read_until(reads[0], b"stopping")
        _, said = child.communicate(timeout=BOUND_S)
    assert (child.returncode, said) == (0, "")
    assert refused.startswith(b"HTTP/1.1 503")
