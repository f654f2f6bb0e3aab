"""Our provider as a process, under the runtime written in Node."""

import itertools
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

BOUND_S = 60
HERE = Path(__file__).parent


@pytest.fixture
def our_provider(launch, tmp_path):
    """Start the greenhouse written with `agenttool.rap`; each has a store of its own unless one is named."""
    numbers = itertools.count()

    def start(port=0, **environment):
        store = environment.setdefault("STORE", tmp_path / f"greenhouse{next(numbers)}.db")
        options = ["--json", "--port", port, "--store", store]
        serve = [sys.executable, "-m", "agenttool", "rap", "serve", "greenhouse:provider"]
        return launch(*serve, *options, cwd=HERE, **environment)

    return start


@pytest.fixture
def served(our_provider, node_runtime):
    """Our greenhouse and the Node runtime, whose session `s` has loaded its tools."""

    def start(*runtime_options, **environment):
        provider, runtime = our_provider(**environment), node_runtime(*runtime_options)
        runtime.do("discover", session="s", servers=[{"url": provider.url, "bearer": environment.get("BEARER")}])
        assert runtime.wait_for(event="tools", session="s")["names"]
        return provider, runtime

    return start


@pytest.fixture
def login():
    """An authorization server: trades any code for a token, and nothing for an empty one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Login) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join(BOUND_S)


class Login(BaseHTTPRequestHandler):
    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        granted = form["grant_type"] == ["authorization_code"] and {"code", "code_verifier"} <= form.keys()
        self.send_response(200 if granted else 400)
        self.end_headers()
        self.wfile.write(json.dumps({"access_token": "token-of-the-gardener"} if granted else {}).encode())

    def log_message(self, *_):
        """Say nothing."""
