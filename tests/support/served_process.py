"""`agenttool serve` as a process of its own, and requests to it."""

import json
import subprocess
import sys
from contextlib import contextmanager

import httpcore


@contextmanager
def serving(folder, *words):
    """Serve a folder; give the process and its URL. The process is killed at the end."""
    program = [sys.executable, "-m", "agenttool", "serve", "--json", "--port", "0", *words]
    with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            line = child.stdout.readline()
            assert line, child.stderr.read()
            yield child, json.loads(line)["url"]
        finally:
            child.kill()


def ask(url, data=None, headers=None):
    """Send a request, a POST if there are data; give the status and the body."""
    reply = httpcore.request("GET" if data is None else "POST", url, headers=headers, content=data)
    return reply.status, reply.content
