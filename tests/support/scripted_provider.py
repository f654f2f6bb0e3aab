"""A provider on this machine that sends scripted replies, complete or as streams, and records the requests."""

import json
import threading
from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Scripted(ThreadingHTTPServer):
    """Answers each request with the next of its replies: an object, the list of a stream's events, or with a status."""

    def __init__(self, replies):
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies, self.requests = deque(replies), []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


def event_text(event):
    """Write an event as the APIs send it: those of Anthropic and of Responses have a name."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return (
        f"{name}data: {json.dumps(event)}\r\n\r\n" if "candidates" in event else f"{name}data: {json.dumps(event)}\n\n"
    )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(asked)
        reply = self.server.replies.popleft()
        status, reply = reply if isinstance(reply, tuple) else (200, reply)
        is_stream = isinstance(reply, list)
        body = "".join(map(event_text, reply)).encode() if is_stream else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@contextmanager
def serve(replies):
    """Start a provider with its script: `with serve(replies) as server`."""
    server = Scripted(replies)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
