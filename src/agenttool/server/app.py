"""Build the ASGI application of a server from an open runtime and its settings."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool import __version__
from agenttool.adapters.rap.callback_urls import PATH
from agenttool.adapters.rap.request_guard import RequestGuard
from agenttool.console.pages import is_console_path
from agenttool.errors import ConfigError
from agenttool.runtime import Runtime
from agenttool.server.access_messages import ServerInfo
from agenttool.server.authentication import Authenticator
from agenttool.server.gateway import Gateway
from agenttool.server.grants import AccessGrants
from agenttool.server.openapi import document_of
from agenttool.server.state import ServerOptions, ServerState, SettingsState
from agenttool.server.table import ROUTES
from agenttool.server.tenants import Tenant, Tenants

_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_origin(text: str) -> str:
    """Check that browsers send an origin in this form, and return it.

    Raises:
        ConfigError: no browser sends it, so no request would match.
    """
    try:
        parts = urlsplit(text)
        port = None if parts.port == _DEFAULT_PORTS.get(parts.scheme) else parts.port
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    except ValueError:
        host = port = parts = None
    origin = None if parts is None or not host else f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")
    if parts is None or parts.scheme not in _DEFAULT_PORTS or origin != text:
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
        self._guarded = RequestGuard(
            gateway, origins=options.origins, url=options.url, sealed=f"{PATH}/", is_page=is_console_path
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
    documents = runtime.documents
    if documents is None:
        raise ConfigError("a server needs a runtime with a store for documents; open it with Runtime.open")
    grants = AccessGrants(documents, time.time)
    authenticator = Authenticator(
        grants,
        token=options.token,
        verify_jwt=options.verify_jwt,
        requires_key=options.requires_key,
        is_secure=options.url.startswith("https://"),
    )
    info = ServerInfo(
        version=__version__,
        is_demo=options.is_demo,
        is_durable=runtime.is_durable,
        approves_own_calls=options.approves_own_calls,
        url=options.url,
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


@asynccontextmanager
async def _no_tenants(name: str) -> AsyncGenerator[Tenant]:
    raise ConfigError(f"this server has no tenant {name!r}; it has only the default one")
    yield  # pyright: ignore[reportUnreachable] -- makes it a generator
