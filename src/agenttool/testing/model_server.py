"""A model's provider on this machine: it sends scripted replies, complete or as streams, and records the requests."""

import json
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from agenttool.records import JsonObject

Scripted = JsonObject | list[JsonObject] | tuple[int, JsonObject]
"""A reply, the events of a stream, or an HTTP status with a body; `reply` and `stream` build the first two."""


class ModelServer(ThreadingHTTPServer):
    """Sends the next scripted reply to each request, whatever its path.

    Attributes:
        requests: the bodies of the requests so far.
    """

    def __init__(self, replies: Iterable[Scripted]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = deque(replies)
        self.requests: list[JsonObject] = []

    @property
    def url(self) -> str:
        """The base URL for the client of any SDK."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serve_model(replies: Iterable[Scripted]) -> Generator[ModelServer]:
    """Serve a script while a `with` block runs; pass the server's `url` to an SDK as the `base_url`."""
    server = ModelServer(replies)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Record the request and send the next reply."""
        server = cast("ModelServer", self.server)
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(request)
        reply = server.replies.popleft() if server.replies else None
        count = len(server.requests)
        wants_stream = request.get("stream") is True or "streamGenerateContent" in self.path
        if reply is None:
            reply = _fault(f"the script has no reply to request {count}; add one to serve_model([...])")
        elif wants_stream and isinstance(reply, dict):
            reply = _fault(f"request {count} is for a stream, but its reply in the script is complete; use stream(...)")
        elif not wants_stream and isinstance(reply, list):
            reply = _fault(f"request {count} is for a complete reply, but the script has a stream; use reply(...)")
        status, body = reply if isinstance(reply, tuple) else (200, reply)
        is_stream = isinstance(body, list)
        content = ("".join(map(_event_text, body)) if is_stream else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name in the base class
        """Print nothing."""


def _fault(message: str) -> tuple[int, JsonObject]:
    """Return a reply that an SDK raises as an error of the request and does not retry."""
    return 400, {"error": {"message": message}}


def _event_text(event: JsonObject) -> str:
    """Write an event as the APIs send it: those of Anthropic and of Responses have a name."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    end = "\r\n\r\n" if "candidates" in event else "\n\n"
    return f"{name}data: {json.dumps(event)}{end}"
