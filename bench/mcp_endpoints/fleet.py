"""Many servers behind one endpoint: our gateway beside FastMCP's proxy, from the start of the process on."""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, cast

from bench.figure import Absent, Figure, compare
from bench.harness import Missing, Settings, interpreter
from bench.mcp_endpoints.raw_client import ERRORS, Pipes, RawClient, process
from bench.process import memory

SERVERS, TOOLS = 40, 50
_HERE = Path(__file__).resolve().parent
_CHARS_PER_TOKEN = 4
_READY_S = 120.0


class Start(NamedTuple):
    """What was measured: seconds, the memory of the gateway's process in bytes, and the tokens of its list."""

    first_list: float
    all_called: float
    resident: int
    tokens: float


def measure(settings: Settings) -> list[Figure | Absent]:
    """Start both once; the second start of ours knows the tools of all servers already."""
    title = f"{SERVERS} MCP servers, {SERVERS * TOOLS:,} tools"
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as name:
        folder = Path(name)
        first, second = _start(_ours(folder), folder, settings), _start(_ours(folder), folder, settings)
        try:
            peer = _start(_fastmcp(folder), folder, settings)
        except Missing as error:
            return [Absent(name=title, peer_name="fastmcp, proxy", reason=str(error))]
    rows = (
        ("first list", first.first_list, peer.first_list, "s"),
        ("first list, second start", second.first_list, peer.first_list, "s"),
        ("a call of each server", first.all_called, peer.all_called, "s"),
        ("memory of the gateway", first.resident, peer.resident, "MB"),
        ("list that a model reads", first.tokens, peer.tokens, "tokens"),
    )
    return [
        compare(f"{title}: {what}", (ours, its), peer_name="fastmcp, proxy", unit=unit)
        for what, ours, its, unit in rows
    ]


def _programs() -> dict[str, list[str]]:
    command = [sys.executable, "-I", "-S", str(_HERE / "fleet_server.py")]
    return {f"s{number}": [*command, str(number), str(TOOLS)] for number in range(SERVERS)}


def _ours(folder: Path) -> list[str]:
    tables = [
        f"[sources.{name}]\nkind = 'mcp'\ncommand = {words[0]!r}\nargs = {words[1:]!r}\n"
        for name, words in _programs().items()
    ]
    rule = '[[rules]]\nbehavior = "allow"\ntool = "*"\n'
    (folder / "agenttool.toml").write_text("\n".join(['[store]\nurl = "sqlite:calls.db"\n', *tables, rule]))
    return [sys.executable, "-m", "agenttool", "mcp", "--settings", "agenttool.toml"]


def _fastmcp(folder: Path) -> list[str]:
    servers = {name: {"command": words[0], "args": words[1:]} for name, words in _programs().items()}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    program = [str(interpreter("fastmcp_client").absolute()), str(_HERE / "fastmcp_server.py")]
    return [*program, "0", str(folder / "servers.json")]


def _start(command: list[str], folder: Path, settings: Settings) -> Start:
    began = time.perf_counter()
    with process(command, settings.source, folder, stdio=True) as started:
        client = RawClient(Pipes(started, folder / ERRORS))
        tools = client.tools()
        listed = time.perf_counter()
        names = {str(each["name"]) for each in tools}
        for number in range(SERVERS):
            _call(client, names, f"s{number}_tool_{TOOLS - 1}", f"s{number}")
        called = time.perf_counter()
        shown = len(json.dumps([{key: each[key] for key in ("name", "description", "inputSchema")} for each in tools]))
        return Start(listed - began, called - began, memory(pid=started.pid), shown / _CHARS_PER_TOKEN)


def _call(client: RawClient, names: set[str], tool: str, server: str) -> None:
    """Call a tool of one server, under the name that the list or a search has for it; wait while it is not ready."""
    until = time.monotonic() + _READY_S
    while True:
        try:
            if "tool_call" in names:
                result = client.request(
                    "tools/call",
                    {"name": "tool_call", "arguments": {"name": f"{server}.{tool}", "arguments": {"text": "x"}}},
                )
            else:
                name = next(each for each in names if each.endswith(tool))
                result = client.request("tools/call", {"name": name, "arguments": {"text": "x"}})
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
            continue
        content = cast("list[dict[str, object]]", result["content"])
        if tool not in str(content[0]["text"]):
            raise RuntimeError(f"the call of {tool!r} returned {result!r}")
        return
