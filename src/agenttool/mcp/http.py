"""Serve a runtime to MCP clients over streamable HTTP: one endpoint for all tools, and one for each profile."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.config.table import suggestion
from agenttool.mcp.callers import principal_in, session_owner
from agenttool.mcp.profiles import ALL_TOOLS, McpOptions, admits
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.mcp.stream_events import RETRY_MS, ResumableSessions
from agenttool.runtime import Runtime

__all__ = ["McpEndpoints", "McpOptions", "serve_http"]

MAX_BODY_BYTES = 20_000_000
"""The largest request body that is read."""


class McpEndpoints:
    """The ASGI application of `/mcp` and `/mcp/NAME`; the application around it verifies tokens."""

    def __init__(self, profiles: Mapping[str, McpOptions], apps: Mapping[str, ASGIApp]) -> None:
        """Take the options and the application of each profile."""
        self._profiles = profiles
        self._apps = apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, if its caller may use the profile."""
        name = scope.get("path_params", {}).get("profile", ALL_TOOLS)
        try:
            principal = principal_in(scope)
        except PermissionError as error:
            await PlainTextResponse(str(error), HTTPStatus.FORBIDDEN)(scope, receive, send)
            return
        subject, options = None if principal is None else principal.subject, self._profiles.get(name)
        if options is None or not admits(options, self._profiles, subject):
            usable = [each for each, other in self._profiles.items() if admits(other, self._profiles, subject)]
            await _refusal(name, usable)(scope, receive, send)
            return
        # The parser leaves blanks at the end of a value, and the SDK compares values with the body.
        headers = [(each, value.strip(b" \t")) for each, value in scope["headers"]]
        await self._apps[name]({**scope, "headers": headers, "user": session_owner(principal)}, receive, send)


def _refusal(name: str, usable: list[str]) -> PlainTextResponse:
    """Return the reply for a profile that does not exist, or that the caller may not use; it does not say which."""
    paths = {each: f"/mcp/{each}" if each else "/mcp" for each in usable}
    if not paths:
        message = "this token may use no profile; add its subject to a table [mcp.NAME]"
        return PlainTextResponse(message, HTTPStatus.FORBIDDEN)
    what = f"there is no profile {name!r} for this caller" if name else "this caller may use profiles only, not /mcp"
    return PlainTextResponse(f"{what}; {suggestion(f'/mcp/{name}', paths.values())}", HTTPStatus.NOT_FOUND)


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
            manager = ResumableSessions(server.lowlevel, max_request_body_size=MAX_BODY_BYTES, retry_interval=RETRY_MS)
            await stack.enter_async_context(manager.run())
            apps[name] = manager.handle_request
        yield McpEndpoints(profiles, apps)
