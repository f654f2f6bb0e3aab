"""Clients of the MCP SDK that are connected to a runtime in this process, on both revisions."""

import asyncio
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


class OpenResult(types.Result, extra="allow"):
    """A result of an extension, which the SDK has no class for."""


class Silent:
    """A person who is shown a form and never answers."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def __call__(self, context, params):
        self.asked.set()
        await asyncio.Event().wait()


class Running:
    """A call that reports progress until it is canceled."""

    def __init__(self, client, name):
        self.runs = asyncio.Event()
        self.task = asyncio.create_task(client.call_tool(name, {"steps": 10**6}, progress_callback=self.note))

    async def note(self, progress, total, message):
        self.runs.set()


async def end(*tasks):
    """Cancel tasks, and wait for their ends."""
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)


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
