"""Round trips through the runtime beside those between bare handlers: two processes on either side, by turns."""

import tempfile
from contextlib import ExitStack
from typing import cast

from bench.figure import Figure, paired
from bench.rap.program import Program, program
from bench.settings import Settings

TRIPS = 64 * 8
ROUNDS = 21
WARM_UP = 64 * 20
"""Enough for every caller's connections to be made, and for the interpreter to have specialised its code."""

_OURS = {"memory": "round trip through a RAP server", "file": "round trip through a RAP server, kept on disk"}
_PEER = "bare"


def measure(settings: Settings) -> list[Figure]:
    """Let all of them make a few trips by turns, round after round; the server that answers is the same for all."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(program("served", "answering", folder))
        url = f"http://127.0.0.1:{server.ready}"
        callers = {kind: stack.enter_context(program("callers", kind, url, folder)) for kind in (*_OURS, _PEER)}
        for caller in callers.values():
            _trips(caller, WARM_UP)
        times: dict[str, list[float]] = {kind: [] for kind in callers}
        for number in range(7 if settings.quick else ROUNDS):
            for kind in callers if number % 2 else reversed(callers):
                times[kind].append(_trips(callers[kind], TRIPS))
    return [
        paired(name, times[kind], times[_PEER], peer_name="bare starlette handlers", unit="µs")
        for kind, name in _OURS.items()
    ]


def _trips(caller: Program, count: int) -> float:
    return cast("float", caller.tell(count))
