"""A server stops in bounded time, even if a function cannot be stopped."""

import json
import queue
import signal
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


def test_a_function_that_blocks_the_event_loop_delays_a_stop_only_up_to_the_timeout(running, tmp_path):
    (tmp_path / "bells.py").write_text(STUBBORN)
    words = ["rap", "serve", "bells:provider", "--port", "0", "--json"]
    with running(tmp_path, ["-c", SOONER, *words]) as (child, told):
        invoke(told["port"], "block", 9)
        wait_until((tmp_path / "held.txt").exists)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=BOUND_S)
    assert child.returncode == 1
    assert "exited 2 s after the stop signal" in said


def test_a_function_that_ignores_cancellation_delays_a_stop_only_up_to_the_timeout(running, tmp_path):
    """One signal is enough, nothing that was accepted is lost, and the status says that it was not in order."""
    (tmp_path / "bells.py").write_text(STUBBORN)
    with socket.create_server(("127.0.0.1", 0)) as free:
        callbacks = free.getsockname()[1]
    words = ["rap", "serve", "bells:provider", "--port", "0", "--json"]
    with running(tmp_path, ["-c", SOONER, *words]) as (child, told):
        invoke(told["port"], "hold", callbacks)
        invoke(told["port"], "ring", callbacks)
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
