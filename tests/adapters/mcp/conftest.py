"""Runtimes with a small MCP server, which needs no SDK and starts at once."""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agenttool import McpServer, Runtime

FIXTURE = Path(__file__).parents[2] / "support" / "mcp_fixture_server.py"


@pytest.fixture
def server() -> Callable[..., McpServer]:
    """Return the settings of the server, with options of its program."""

    def made(*options: str, name: str = "fx", **settings: object) -> McpServer:
        program = {"command": sys.executable, "args": ("-I", "-S", str(FIXTURE), *options)}
        return McpServer(name, **{**program, **settings})

    return made


@pytest.fixture
def open_server(server: Callable[..., McpServer]) -> Callable[..., AbstractAsyncContextManager[Runtime]]:
    """Open a runtime in which an approver allows everything."""

    def opened(
        *options: str, store: str = "memory:", more: tuple[McpServer, ...] = (), **settings: object
    ) -> AbstractAsyncContextManager[Runtime]:
        return Runtime.open(sources=[server(*options, **settings), *more], store=store, approve=lambda _: True)

    return opened
