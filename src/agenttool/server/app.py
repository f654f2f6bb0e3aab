"""Build the ASGI application of a server from an open runtime and its settings."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool import __version__
from agenttool.adapters.rap.callback_urls import PATH
from agenttool.console.pages import is_console_path
from agenttool.errors import ConfigError
from agenttool.http.request_guard import RequestGuard
from agenttool.runtime import Runtime
from agenttool.server.access_messages import ServerInfo
from agenttool.server.authentication import Authenticator
from agenttool.server.gateway import Gateway
from agenttool.server.grants import AccessGrants
from agenttool.server.openapi import document_of
from agenttool.server.state import ServerOptions, ServerState, SettingsState
from agenttool.server.table import ROUTES
from agenttool.server.tenants import Tenant, Tenants

_ORIGIN = re.compile(
    r"(?:http://(?!.*:80$)|https://(?!.*:443$))(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?", re.ASCII
)
_ALLOWED_HEADERS = (
    "authorization",
    "content-type",
    "idempotency-key",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
)


def check_origin(text: str) -> str:
    """Check that browsers send an origin in this form, and return it.

    Raises:
        ConfigError: no browser sends it, so no request would match.
    """
    if not _ORIGIN.fullmatch(text):
        example = "'http://localhost:3000', in lower case and without a default port or a path"
        raise ConfigError(f"an origin in [server] must be like {example}, got {text!r}; correct it")
    return text


class ServerApp:
    """The application of a server: a gateway behind the guard against requests of other sites.

    Attributes:
        gateway: serves the requests that the guard accepts.
        grants: the keys, sessions and login links.
    """

    def __init__(self, gateway: Gateway, grants: AccessGrants, options: ServerOptions) -> None:
        """Guard a gateway."""
        self.gateway = gateway
        self.grants = grants
        app: ASGIApp = gateway
        if options.origins:
            app = CORSMiddleware(
                gateway,
                allow_origins=tuple(options.origins),
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=_ALLOWED_HEADERS,
                expose_headers=("mcp-session-id", "www-authenticate"),
            )
        self._guarded = RequestGuard(
            app, origins=options.origins, url=options.url, sealed=f"{PATH}/", is_page=is_console_path
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._guarded(scope, receive, send)

    def drain(self) -> None:
        """Refuse new requests, and end those that wait."""
        self.gateway.state.drain()


@asynccontextmanager
async def serve_runtime(
    runtime: Runtime,
    options: ServerOptions | None = None,
    *,
    file: Path | None = None,
    mcp: ASGIApp | None = None,
    open_tenant: Callable[[str], AbstractAsyncContextManager[Tenant]] | None = None,
    settings: SettingsState | None = None,
) -> AsyncGenerator[ServerApp]:
    """Yield the application of a runtime that the caller has opened and will close.

    Args:
        runtime: the runtime of the default tenant.
        options: the settings of the server.
        file: the file of the runtime's store; None in memory.
        mcp: the application of `/mcp`.
        open_tenant: opens another tenant; None if there is only the default one.
        settings: whether the settings files are in force; the caller updates it.

    Raises:
        ConfigError: the runtime has no store for keys.
    """
    options = options or ServerOptions()
    documents = runtime.inspection.documents
    if documents is None:
        raise ConfigError("a server needs a runtime with a store for documents; open it with Runtime.open")
    grants = AccessGrants(documents, time.time)
    authenticator = Authenticator(grants, options)
    info = ServerInfo.of(
        options,
        version=__version__,
        is_durable=runtime.inspection.is_durable,
        mcp_url=None if mcp is None else f"{options.url}/mcp",
    )
    default = Tenant(runtime, file=file, mcp=mcp)
    async with Tenants.open(default, open_tenant or _no_tenants, documents) as tenants, asyncio.TaskGroup() as group:
        state = ServerState(tenants, authenticator, options, info, document_of(ROUTES), settings)
        watch = group.create_task(state.end_revoked_waits())
        try:
            yield ServerApp(Gateway(state, ROUTES), grants, options)
        finally:
            watch.cancel()
            state.reads.close()


@asynccontextmanager
async def _no_tenants(name: str) -> AsyncGenerator[Tenant]:
    raise ConfigError(f"this server has no tenant {name!r}; it has only the default one")
    yield  # pyright: ignore[reportUnreachable] -- makes it a generator
