"""One call of a server through our gateway, beside a direct call and FastMCP's proxy, with the client of the SDK."""

import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.contestants.shapes import ARGUMENTS
from bench.figure import Absent, Figure, compare_rounds, with_max_ratio
from bench.harness import Missing, Settings
from bench.mcp_endpoints.calls import CALLS, ROUNDS, WARM_UP, Contender, command_of

_NAME = "MCP call through the gateway"
_DIRECT, _OURS, _PROXY = (
    Contender("stdio", "sdk"),
    Contender("stdio", "memory", via=True),
    Contender("stdio", "fastmcp", via=True),
)


def measure(settings: Settings) -> list[Figure | Absent]:
    """Time all three in one run. What the gateway adds must be less than the direct call: twice its time."""
    try:
        times = asyncio.run(_measure(settings))
    except Missing as error:
        return [Absent(name=_NAME, peer_name="", reason=str(error))]
    direct = compare_rounds(_NAME, times[_OURS], times[_DIRECT], peer_name="mcp, called directly", unit="µs")
    proxy = compare_rounds(_NAME, times[_OURS], times[_PROXY], peer_name="fastmcp, proxy", unit="µs")
    return [with_max_ratio(direct, at_most=2), proxy]


async def _measure(settings: Settings) -> dict[Contender, list[float]]:
    rounds, calls = (7, 20) if settings.quick else (ROUNDS, CALLS)
    times: dict[Contender, list[float]] = {_DIRECT: [], _OURS: [], _PROXY: []}
    async with AsyncExitStack() as stack:
        clients: dict[Contender, Client] = {}
        for each in times:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-mcp-")))
            program, *words = command_of(each, folder, 0)
            paths = os.pathsep.join((str(settings.source.resolve() / "src"), str(Path.cwd())))
            variables = {**os.environ, "PYTHONPATH": paths}
            parameters = StdioServerParameters(command=program, args=words, cwd=folder, env=variables)
            log = stack.enter_context((folder / "errors.log").open("w"))
            clients[each] = await stack.enter_async_context(Client(stdio_client(parameters, log)))
            await _time(clients[each], WARM_UP)
        for number in range(rounds):
            for each in reversed(clients) if number % 2 else clients:
                times[each].append(await _time(clients[each], calls))
    return times


async def _time(client: Client, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        result = await client.call_tool("add", ARGUMENTS)
        if result.is_error:
            raise RuntimeError(f"the call failed: {result!r}")
    return (time.perf_counter() - start) / calls
