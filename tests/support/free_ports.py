"""Ports for servers that tests start later."""

import random
import socket
from contextlib import suppress


def find_free_port() -> int:
    """Return a free port outside the range from which the system assigns ports to connections of other tests."""
    for port in random.sample(range(10_000, 30_000), 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")
