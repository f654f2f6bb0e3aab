"""`agenttool serve`: one port for the HTTP API, the console, MCP clients and callbacks."""

import asyncio
import logging
import socket
import sys
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from agenttool.adapters.python.source import Tool
from agenttool.adapters.rap.callback_urls import PATH
from agenttool.adapters.rap.credentials import Bearer
from agenttool.adapters.rap.source import RapClient
from agenttool.cli.format import print_json
from agenttool.cli.http_server import Application, bind, is_public, local_url, parse_base_url, run_server
from agenttool.cli.keys import login_link
from agenttool.cli.options import (
    STORE_FILE,
    StoreOptions,
    StoreToolOptions,
    check_found_store,
    flag,
    option,
    read_variable,
)
from agenttool.cli.output import hint, is_json, warn
from agenttool.cli.settings_watch import SettingsWatch
from agenttool.config import Config, JwtTable, ServerSetting, load_config
from agenttool.config.program import program_name
from agenttool.config.table import read_table
from agenttool.errors import ConfigError, StoreError
from agenttool.ports.identity import DEFAULT_TENANT
from agenttool.runtime import Runtime
from agenttool.server.app import ServerApp, check_origin, serve_runtime
from agenttool.server.demo_catalog import DEMO_RULES, demo_tools, make_calls
from agenttool.server.lazy_app import lazy_app
from agenttool.server.protected_resource import AuthorizationServer
from agenttool.server.state import ServerOptions
from agenttool.server.tenants import Tenant, Tenants, tenant_store

DEMO_FOLDER = "agenttool-demo"
"""The folder of the demo's files, beside the store."""


def serve(
    *,
    options: StoreToolOptions,
    host: str | None = option("--host", "Address to listen on; default: 127.0.0.1"),
    port: int | None = option("--port", "Port to listen on; 0 for any free port", low=0, high=65535),
    url: str | None = option("--url", "URL at which tool servers reach this server"),
    demo: bool | None = option("--demo/--no-demo", "Offer demo tools; default: only without settings and tools"),
    opens: bool = flag("--open", "Open the console in a browser"),
) -> None:
    """Serve the HTTP API, MCP and the console on one port.

    Changed rules and sources apply within a second, or at once after SIGHUP; calls
    continue meanwhile. If the changed settings are invalid, the previous ones stay
    in force. Other settings, such as the port or the store, need a restart.

    SIGTERM or Ctrl-C stops it. It answers the requests that it has received, and
    cancels running calls. Calls that wait for an approval, a result, their turn or
    another call continue in the next process with the same store and address, also
    if this process is killed. The exit code is 0, 1 if something could not be stopped
    within 25 seconds, or 2 if it cannot serve.
    """
    watch = SettingsWatch(options.config)
    loaded = load_config(options.config)
    server = loaded.server or ServerSetting()
    tools = options.load_tools()
    # Calls may wait for days, so they are stored in a file even if none is named.
    is_store_given, options = options.store is not None, options.for_use()
    public_url = parse_base_url(url or server.url)
    with bind(host or server.host, server.port if port is None else port) as listening:
        address = local_url(listening)
        callback_url = public_url or address
        _warn_about_address(listening, public_url, address)
        is_unconfigured = not tools and not is_store_given and loaded == Config()
        is_demo = demo is not False and not is_public(listening) and (demo or is_unconfigured)
        if demo and not is_demo:
            raise ConfigError("the demo is served on this machine only; leave --host out, or use 127.0.0.1")
        if is_demo:
            logging.getLogger("agenttool.calls").setLevel(logging.ERROR)  # one of its tools fails on purpose
            tools += demo_tools((options.file or Path(STORE_FILE)).with_name(DEMO_FOLDER))
        opener = RuntimeOpener(
            loaded=loaded,
            watch=watch,
            options=options,
            file=options.file,
            answer_command=f"{program_name()} approvals{options.for_any_folder.arguments}",
            finds_store=not is_store_given and loaded.store is None,
            tools=tools,
            server=replace(server_options(server, callback_url), is_demo=is_demo),
        )

        def announce() -> None:
            _announce(address, opener)
            if opens:
                webbrowser.open(opener.login_url)

        run_server(listening, opener.open(), announce, server.max_connections)


def server_options(server: ServerSetting, url: str) -> ServerOptions:
    """Return the options of a server from its settings.

    Raises:
        ConfigError: a setting is invalid, or the extra for JWTs is missing.
    """
    token_env, verify_jwt, login = server.token_env, None, None
    if server.jwt is not None:
        from agenttool.server.jwt_verifier import JwtVerifier  # noqa: PLC0415 -- an extra

        jwt = read_table(server.jwt, JwtTable, "[server.jwt]")
        verify_jwt, login = JwtVerifier(jwt), AuthorizationServer.of(jwt)
    return ServerOptions(
        url=url,
        token=None if token_env is None else Bearer(read_variable("token_env of [server]", token_env)),
        verify_jwt=verify_jwt,
        login=login,
        requires_key=server.requires_key,
        approves_own_calls=server.approves_own_calls,
        origins=[check_origin(each) for each in server.origins],
        max_requests_per_s=server.max_requests_per_s,
    )


@dataclass(slots=True, kw_only=True)
class RuntimeOpener:
    """Opens the runtimes of a server: that of the default tenant at once, others when a request or a call needs them.

    Attributes:
        watch: applies changed settings.
        file: the file of the default tenant's store; None in memory.
        answer_command: the command that answers approvals; it is made once, because the settings files may change.
        finds_store: whether neither options nor settings name the store, so the stores of tenants need trust.
    """

    loaded: Config
    watch: SettingsWatch
    options: StoreOptions
    file: Path | None
    answer_command: str
    finds_store: bool
    tools: list[Tool]
    server: ServerOptions
    login_url: str = ""
    """The login link, once the server is open."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[ServerApp]:
        """Yield the application of the server."""
        async with self._runtime(DEFAULT_TENANT) as (rt, mcp):
            await _warn_about_moved_callbacks(rt)
            async with (
                serve_runtime(
                    rt, self.server, file=self.file, mcp=mcp, open_tenant=self._tenant, settings=self.watch.state
                ) as app,
                asyncio.TaskGroup() as group,
            ):
                await app.grants.store_url(self.server.url)
                self.login_url = await login_link(app.grants, self.server.url)
                tasks = [group.create_task(self.watch.run(partial(self._apply, app.gateway.tenants)))]
                if self.server.is_demo:
                    tasks.append(group.create_task(make_calls(rt)))
                yield app
                for each in tasks:
                    each.cancel()

    async def _apply(self, tenants: Tenants, config: Config) -> tuple[str, ...]:
        """Apply other settings to all open tenants; return what needs a restart.

        Raises:
            ConfigError: the settings are invalid; the default tenant has the settings before then.
            StoreError: a store cannot be written.
        """
        needs_restart = await tenants.default.runtime.reload(config)
        self.loaded = config
        for each in tenants.opened()[1:]:
            await each.runtime.reload(config)
        return needs_restart

    def _file(self, tenant: str) -> Path | None:
        return None if self.file is None else tenant_store(self.file, tenant)

    @asynccontextmanager
    async def _runtime(self, tenant: str) -> AsyncGenerator[tuple[Runtime, Application | None]]:
        file, is_default, loaded = self._file(tenant), tenant == DEFAULT_TENANT, self.loaded
        if self.finds_store and file is not None and not is_default:
            _check_store(file)
        place = self.options.store if is_default else "memory:" if file is None else f"sqlite:{file}"
        async with (
            Runtime.open(
                config=loaded,
                store=place,
                tools=self.tools,
                rules=DEMO_RULES if self.server.is_demo else (),
                approve="wait",
                tenant=tenant,
                callback_url=self.server.url if is_default else f"{self.server.url}/t/{tenant}",
            ) as rt,
            _mcp_app(rt, loaded, self.answer_command, self.server.url) as mcp,
        ):
            if self.loaded is not loaded:  # they changed while this tenant was opened
                await rt.reload(self.loaded)
            yield rt, mcp

    @asynccontextmanager
    async def _tenant(self, name: str) -> AsyncGenerator[Tenant]:
        async with self._runtime(name) as (rt, mcp), Tenant(rt, file=self._file(name), mcp=mcp).running() as tenant:
            yield tenant


def _check_store(file: Path) -> None:
    """Check a store that was found by its name; the reason of a failure is logged and not sent to clients.

    Raises:
        StoreError: this user did not create it, and does not trust it.
    """
    try:
        check_found_store(file)
    except ConfigError as error:
        logging.getLogger("agenttool.server").warning("%s", error)
        raise StoreError("the store of this tenant is not trusted; the log of the server says what to do") from error


@asynccontextmanager
async def _mcp_app(
    runtime: Runtime, config: Config, answer_command: str, url: str
) -> AsyncGenerator[Application | None]:
    """Yield the application of `/mcp`; None if the extra is not installed.

    Raises:
        ConfigError: a profile of the settings is invalid.
    """
    if find_spec("mcp") is None:
        yield None
        return
    from agenttool.mcp.profiles import (  # noqa: PLC0415 -- an extra
        McpOptions,
        approvals_url,
        check_profiles,
        read_profiles,
    )

    base = McpOptions(
        answer_command=answer_command,
        approvals_url=approvals_url(url),
        approves_own_calls=config.server is not None and config.server.approves_own_calls,
    )
    profiles = read_profiles(config, base)
    await check_profiles(runtime, config)

    @asynccontextmanager
    async def endpoints() -> AsyncGenerator[Application]:
        await asyncio.to_thread(import_module, "agenttool.mcp.http")
        from agenttool.mcp.http import serve_http  # noqa: PLC0415 -- an extra that is slow to import

        async with serve_http(runtime, profiles) as app:
            yield app

    async with lazy_app(endpoints) as app:
        yield app


async def _warn_about_moved_callbacks(runtime: Runtime) -> None:
    """Warn if calls wait for results that go to an earlier callback address."""
    rap = runtime.sources.find(RapClient)
    if rap is None or rap.moved_from is None:
        return
    if await runtime.deferred.list(limit=1) or await rap.subscriptions.of(limit=1):
        warn(
            f"waiting calls were sent with the callback address {rap.moved_from}, and their results go there: route"
            " that address here until they have arrived, or serve there again"
        )


def _warn_about_address(listening: socket.socket, public_url: str | None, address: str) -> None:
    """Warn if other machines reach this port, or if tools on this machine call another one."""
    host, port = listening.getsockname()[:2]
    if is_public(listening):
        is_proxied = public_url is not None and public_url.startswith("https://")
        message = (
            "other machines reach this port, without TLS: it accepts callbacks, each by the sealed URL of its call,"
            " and reports whether it is healthy; "
            + ("allow only your proxy" if is_proxied else "put a proxy with TLS before it, and allow only that proxy")
        )
        if ip_address(host).is_unspecified and public_url is None:
            message += f". Tools call back at {address}, which works on this machine only: set --url"
        warn(message)
    parts = urlsplit(public_url or "")
    is_local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if is_local and (parts.port or 80) != port:
        warn(
            f"tools on this machine call back at {public_url}, and this serves {address}: use the same port for both,"
            " unless a proxy there forwards requests"
        )


def _announce(address: str, opener: RuntimeOpener) -> None:
    callback_url, login_url = opener.server.url, opener.login_url
    if is_json():
        print_json({"url": address, "callback_url": callback_url, "login_url": login_url})
        return
    lines = [f"serving at {address}; tools call back at {callback_url}{PATH}"]
    if sys.stderr.isatty():
        lines.append(f"console, opens once, within 15 minutes: {login_url}")
    else:  # other people may read a log, and the link grants every role
        lines.append(f"`{program_name()} keys link` prints a link that opens the console once")
    if opener.server.is_demo:
        call = '{"tool": "files.read_file", "arguments": {"name": "welcome.txt"}}'
        lines += [
            "a demo catalog is served, because there are no settings; three commands to try:",
            f"  curl {address}/v1/calls -H 'Content-Type: application/json' -d '{call}'",
            f"  {program_name()} approvals",
            f"  {program_name()} export-config claude-code --url {address}/mcp",
        ]
    hint("\n".join(lines), None)
    hint(f"status: curl {address}/v1/status   stop: Ctrl-C; waiting calls are left to the next process")
