"""A service on this machine that records requests, and runtimes with its operations as tools."""

import json
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agenttool import Runtime
from agenttool.adapters.openapi.settings import read_service


class RecordedService:
    """Answers with what a test sets: `answers` maps a path to an answer, or to a list with one for each request."""

    def __init__(self):
        self.requests = []
        self.answers = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                request = {
                    "method": self.command,
                    "path": self.path,
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                    "names": self.headers.keys(),
                    "body": body,
                }
                service.requests.append(request)
                status, headers, data = service.answer(request)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "QUERY"):
            setattr(Handler, f"do_{method}", Handler.handle_any)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that closed the connection

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def answer(self, request):
        path = request["path"].partition("?")[0]
        found = self.answers.get(path, {"ok": True})
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if callable(found):
            found = found(request)
        if isinstance(found, tuple):
            status, headers, data = found
        else:
            status, headers, data = 200, {}, found
        if isinstance(data, bytes):
            return status, headers, data
        return status, {"Content-Type": "application/json", **headers}, json.dumps(data).encode()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    @property
    def last(self):
        return self.requests[-1]


@pytest.fixture
def service():
    found = RecordedService()
    yield found
    found.close()


@pytest.fixture
def open_service(service, tmp_path):
    """Open a runtime with the tools of a document, in which an approver allows everything."""

    @asynccontextmanager
    async def opened(found, *, store="memory:", credentials=None, **settings):
        place = tmp_path / "probe.json"
        if isinstance(found, dict):
            place.write_text(json.dumps(found))
        else:
            place = tmp_path / "probe.yaml"
            place.write_text(found)
        members = {"document": str(place), "server": service.url, **settings}
        source = read_service("probe", {key: value for key, value in members.items() if value is not None})
        async with Runtime.open(
            sources=[source], store=store, approve=lambda _: True, credentials=credentials or {}
        ) as rt:
            yield rt

    return opened
