"""MCP in both directions: calls through our server and our gateway, and many servers behind one."""

from bench.figure import Absent, Figure
from bench.harness import Settings
from bench.mcp_endpoints import calls, fleet, gateway


def measure(settings: Settings) -> list[Figure | Absent]:
    """Measure single calls, and the start of many servers."""
    return [*calls.measure(settings), *gateway.measure(settings), *fleet.measure(settings)]
