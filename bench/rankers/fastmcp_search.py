"""FastMCP's own search over the tools of a server."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import asyncio

from fastmcp.server.transforms.search.bm25 import BM25SearchTransform
from fastmcp.tools.base import Tool

from bench.rankers.served import Tools, serve


def rank(tools: Tools, queries: list[str]) -> list[list[int]]:
    """Ask the search of its transform directly, without server and client between."""
    offered = [
        Tool(
            name=f"{namespace}.{name}.{place}",
            description=description,
            parameters={"type": "object", "properties": {each: {"type": "string"} for each in parameters.split()}},
        )
        for place, (namespace, name, description, parameters) in enumerate(tools)
    ]
    search = BM25SearchTransform(max_results=10)

    async def found(query: str) -> list[int]:
        tools = await search._search(offered, query)  # noqa: SLF001 -- what its search tool calls
        return [int(tool.name.rsplit(".")[-1]) for tool in tools]

    async def every() -> list[list[int]]:
        return [await found(query) for query in queries]

    return asyncio.run(every())


if __name__ == "__main__":
    serve({"FastMCP, BM25 search": rank})
