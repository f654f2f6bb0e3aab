"""Serve a runtime to MCP clients over streamable HTTP: one endpoint for all tools, and one for each profile."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.mcp.server import McpOptions, RuntimeMcpServer
from agenttool.runtime import Runtime

MAX_BODY_BYTES = 20_000_000
"""The largest request body that is read."""


class McpEndpoints:
    """The ASGI application of `/mcp` and `/mcp/NAME`; the application around it authenticates requests."""

    def __init__(self, profiles: Mapping[str, ASGIApp]) -> None:
        """Take the applications of the profiles; the empty name has all tools."""
        self._profiles = profiles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        name = scope.get("path_params", {}).get("profile", "")
        app = self._profiles.get(name) or PlainTextResponse("no such profile", status_code=404)
        # The parser leaves blanks at the end of a value, and the SDK compares values with the body.
        headers = [(each, value.strip(b" \t")) for each, value in scope["headers"]]
        await app({**scope, "headers": headers}, receive, send)


@asynccontextmanager
async def serve_http(runtime: Runtime, profiles: Mapping[str, McpOptions]) -> AsyncGenerator[McpEndpoints]:
    """Yield the application of a runtime that the caller has entered; leaving it ends all sessions.

    Raises:
        StoreError: the store cannot be used.
    """
    async with AsyncExitStack() as stack:
        apps: dict[str, ASGIApp] = {}
        for name, options in profiles.items():
            server = await stack.enter_async_context(RuntimeMcpServer.open(runtime, options))
            manager = StreamableHTTPSessionManager(server.lowlevel, max_request_body_size=MAX_BODY_BYTES)
            await stack.enter_async_context(manager.run())
            apps[name] = manager.handle_request
        yield McpEndpoints(apps)
