"""FastMCP's own search over the tools of a server."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio
import sys
import time

from fastmcp.server.transforms.search.bm25 import BM25SearchTransform
from fastmcp.tools.base import Tool

from bench.rankers import Tools, serve


def rank(tools: Tools, queries: list[str]) -> list[list[int]]:
    """Call the search of its transform directly, without a server and a client."""
    return [found for found, _ in _searched(tools, queries)]


def clock(tools: Tools, queries: list[str]) -> list[float]:
    """Return the seconds of each search; the first one builds the index."""
    return [seconds for _, seconds in _searched(tools, queries)]


def _searched(tools: Tools, queries: list[str]) -> list[tuple[list[int], float]]:
    offered = [
        Tool(
            name=f"{namespace}.{name}.{place}",
            description=description,
            parameters={"type": "object", "properties": {each: {"type": "string"} for each in parameters.split()}},
        )
        for place, (namespace, name, description, parameters) in enumerate(tools)
    ]
    search = BM25SearchTransform(max_results=10)

    async def find(query: str) -> tuple[list[int], float]:
        start = time.perf_counter()
        found = await search._search(offered, query)  # noqa: SLF001 -- what its search tool calls
        return [int(tool.name.rsplit(".")[-1]) for tool in found], time.perf_counter() - start

    async def every() -> list[tuple[list[int], float]]:
        return [await find(query) for query in queries]

    return asyncio.run(every())


if __name__ == "__main__":
    serve({"FastMCP, clock": clock} if "clock" in sys.argv else {"FastMCP, BM25 search": rank})
