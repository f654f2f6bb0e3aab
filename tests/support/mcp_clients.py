"""Clients of the MCP SDK that are connected to a runtime in this process, on both revisions."""

from contextlib import asynccontextmanager

import mcp_types as types
from mcp import Client

from agenttool import Runtime
from agenttool.mcp.profiles import McpOptions
from agenttool.mcp.server import RuntimeMcpServer

NEW, OLD = "2026-07-28", "legacy"


class Person:
    """The person at a client: answers forms in a fixed way, and remembers what was asked."""

    def __init__(self, action="accept", **content):
        self.action, self.content, self.asked = action, content, []

    async def __call__(self, context, params):
        self.asked.append(params.message)
        return types.ElicitResult(action=self.action, content=self.content or None)


@asynccontextmanager
async def connected(runtime, mode=NEW, person=None, extensions=None, callbacks=None, **options):
    """Yield a client; without a `person`, it cannot be asked."""
    async with (
        RuntimeMcpServer.open(runtime, McpOptions(**options)) as server,
        Client(
            server.lowlevel, mode=mode, elicitation_callback=person, extensions=extensions, **(callbacks or {})
        ) as client,
    ):
        yield client


@asynccontextmanager
async def served(tools, mode=NEW, person=None, store=None, **options):
    async with (
        Runtime.open(tools=tools, approve="wait", store=store) as runtime,
        connected(runtime, mode, person, **options) as client,
    ):
        yield runtime, client


def text_of(result):
    return "\n".join(each.text for each in result.content if each.type == "text")
