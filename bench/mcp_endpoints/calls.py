"""One call of our MCP server, beside other servers, over both transports."""

import json
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.contestants.shapes import ARGUMENTS, contains_sum
from bench.figure import Absent, Figure, compare_rounds, with_max_ratio
from bench.harness import Missing, Settings, interpreter
from bench.mcp_endpoints.raw_client import (
    ERRORS,
    OLD_REVISION,
    REVISION,
    Pipes,
    Post,
    RawClient,
    process,
    wait_for_port,
)

ROUNDS, CALLS = 31, 40
WARM_UP = 200

_HERE = Path(__file__).resolve().parent
_AGENTTOOL = (sys.executable, "-m", "agenttool")
_STORES = {"memory": "memory:", "sqlite": "sqlite:calls.db"}
_ALLOW = '[[rules]]\nbehavior = "allow"\ntool = "up.*"\n'


class Contender(NamedTuple):
    """One server, as a client reaches it.

    Attributes:
        kind: `sdk`, `fastmcp`, or the store of ours; with `via` it is a gateway to the server of the SDK.
    """

    transport: str
    kind: str
    via: bool = False
    revision: str = REVISION


class Row(NamedTuple):
    """Our time beside a peer's."""

    name: str
    ours: Contender
    peer: Contender
    peer_name: str
    at_most: float | None = None


_SDK, _FASTMCP = "mcp, low-level server", "fastmcp"


def _rows() -> list[Row]:
    rows: list[Row] = []
    for transport in ("stdio", "http"):
        for store in _STORES:
            ours, name = Contender(transport, store), f"MCP call over {transport}, {store} store"
            rows.append(Row(name, ours, Contender(transport, "sdk"), _SDK, 1.3))
            rows.append(Row(name, ours, Contender(transport, "fastmcp"), _FASTMCP))
        ours, name = Contender(transport, "memory", revision=OLD_REVISION), f"MCP call over {transport}, older revision"
        rows.append(Row(name, ours, Contender(transport, "sdk", revision=OLD_REVISION), _SDK, 1.3))
    return rows


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time all servers in one run, in alternating order."""
    rows = _rows()
    contenders = dict.fromkeys(each for row in rows for each in (row.ours, row.peer))
    rounds, calls = (7, 20) if settings.quick else (ROUNDS, CALLS)
    with ExitStack() as stack:
        clients: dict[Contender, RawClient] = {}
        missing: dict[Contender, str] = {}
        for each in contenders:
            try:
                clients[each] = _open(each, settings, stack)
            except Missing as error:
                missing[each] = str(error)
        for client in clients.values():
            _time(client, WARM_UP)
        times: dict[Contender, list[float]] = {each: [] for each in clients}
        for number in range(rounds):
            for each in reversed(clients) if number % 2 else clients:
                times[each].append(_time(clients[each], calls))
    return [_figure(row, times, missing) for row in rows]


def _figure(row: Row, times: Mapping[Contender, list[float]], missing: Mapping[Contender, str]) -> Figure | Absent:
    for each in (row.ours, row.peer):
        if each in missing:
            return Absent(name=row.name, peer_name=row.peer_name, reason=missing[each])
    figure = compare_rounds(row.name, times[row.ours], times[row.peer], peer_name=row.peer_name, unit="µs")
    return figure if row.at_most is None else with_max_ratio(figure, at_most=row.at_most)


def _time(client: RawClient, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        client.request("tools/call", {"name": "add", "arguments": ARGUMENTS})
    return (time.perf_counter() - start) / calls


def _open(contender: Contender, settings: Settings, stack: ExitStack) -> RawClient:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-mcp-")))
    is_stdio = contender.transport == "stdio"
    port = 0 if is_stdio else _free_port()
    command = command_of(contender, folder, port)
    started = stack.enter_context(process(command, settings.source, folder, stdio=is_stdio))
    if not is_stdio:
        wait_for_port(port, started)
    client = RawClient(Pipes(started, folder / ERRORS) if is_stdio else Post(port), revision=contender.revision)
    names = [each["name"] for each in client.tools()]
    if not contains_sum(client.request("tools/call", {"name": "add", "arguments": ARGUMENTS})):
        raise RuntimeError(f"{contender} has no usable tool 'add', but {names}")
    return client


def command_of(contender: Contender, folder: Path, port: int) -> list[str]:
    """Return the command of a server, or of a gateway to the server of the SDK; without a port it uses stdio."""
    upstream = [str(interpreter("mcp_session").absolute()), str(_HERE / "sdk_server.py")]
    if contender.kind == "sdk":
        return [*upstream, *([str(port)] if port else [])]
    if contender.kind == "fastmcp":
        fastmcp = [str(interpreter("fastmcp_client").absolute()), str(_HERE / "fastmcp_server.py"), str(port)]
        if not contender.via:
            return fastmcp
        servers = folder / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"up": {"command": upstream[0], "args": upstream[1:]}}}))
        return [*fastmcp, str(servers)]
    table = f'[store]\nurl = "{_STORES[contender.kind]}"\n'
    if contender.via:
        table += f"[sources.up]\nkind = 'mcp'\ncommand = {upstream[0]!r}\nargs = {upstream[1:]!r}\n{_ALLOW}"
    (folder / "agenttool.toml").write_text(table)
    own = [] if contender.via else ["--from", "bench.mcp_endpoints.tools"]
    verb = ["serve", "--port", str(port)] if port else ["mcp"]
    return [*_AGENTTOOL, *verb, "--settings", "agenttool.toml", *own]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
