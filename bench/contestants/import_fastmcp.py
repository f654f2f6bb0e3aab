"""Make a FastMCP server of an OpenAPI document."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import json
import sys
from pathlib import Path

import httpx2
from fastmcp import FastMCP

from bench.process import print_cost


def main() -> None:
    """Import one document."""
    client = httpx2.AsyncClient(base_url="https://api.example")
    print_cost(lambda: FastMCP.from_openapi(json.loads(Path(sys.argv[1]).read_bytes()), client=client))


if __name__ == "__main__":
    main()
