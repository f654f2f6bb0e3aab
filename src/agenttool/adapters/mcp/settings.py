"""The settings of one MCP server; importing them loads neither the protocol nor network code."""

from pathlib import Path
from typing import Annotated, Literal

from agenttool.adapters.source_settings import check_settings, credentials_in
from agenttool.config.table import Meta, Switch, TableError, Text, key, read_table
from agenttool.errors import ConfigError
from agenttool.records import JsonObject, Part
from agenttool.records.record import replace

MIB = 2**20
CLIENT = "client"
DEFAULT_TIMEOUT_S = 300.0
DEFAULT_START_TIMEOUT_S = 60.0
DEFAULT_MAX_MESSAGE_BYTES = 16 * MIB

_Pairs = Annotated[dict[str, str], Meta(description='a table of texts; write {NAME = "value"}')]
_Words = Annotated[tuple[str, ...], Meta(description='a list of texts; write ["-y", "server"]')]
_Roots = Annotated[
    tuple[str, ...] | Literal["client"], Meta(description='a list of folders, or "client"; write ["/srv/docs"]')
]
_Seconds = Annotated[float, Meta(gt=0, le=86_400, description="a number of seconds up to 86400; write 300")]
_Bytes = Annotated[int, Meta(ge=1024, description="a number of bytes from 1024 on; write 16777216")]


class OAuthSettings(Part, frozen=True, kw_only=True):
    """How requests to a server are authorized by OAuth.

    Attributes:
        grant: `authorization_code`: a user logs in once; `client_credentials`: the program itself is the client.
        client_id: of a client that is registered already; None registers one, or uses `client_metadata_url`.
        client_secret: of that client; a reference to a credential, `${credentials.NAME}`.
        client_metadata_url: the HTTPS URL of a client id metadata document, which is the client id where supported.
        auth_method: how the secret is sent to the token endpoint.
        scope: what is requested, if the server does not say.
        issuer: the only authorization server that client credentials are sent to.
        redirect_url: where a login returns to; it must lead to this machine.
    """

    grant: Annotated[
        Literal["authorization_code", "client_credentials"],
        Meta(description='"authorization_code" or "client_credentials"; write one of them'),
    ] = "authorization_code"
    client_id: Text | None = None
    client_secret: Text | None = None
    client_metadata_url: Text | None = None
    auth_method: Annotated[
        Literal["client_secret_basic", "client_secret_post"],
        Meta(description='"client_secret_basic" or "client_secret_post"; write one of them'),
    ] = "client_secret_basic"
    scope: Text | None = None
    issuer: Text | None = None
    redirect_url: Text | None = None


class _NamedServer(Part, frozen=True):
    name: Annotated[str, Meta(description="letters, digits, '_' and '-'; rename it")]


class McpServer(_NamedServer, frozen=True, kw_only=True):
    """One MCP server, and how far it is trusted.

    A text in `args`, `env`, `url` or `headers` may contain `${credentials.NAME}`, which stands for that credential.

    Attributes:
        name: the namespace of its tools.
        command: the program to start, which speaks MCP on its standard input and output.
        args: its arguments.
        env: additional environment variables of the program.
        pass_env: variables of this process that the program gets, besides `PATH`, `HOME` and a few others.
        cwd: the folder in which the program starts.
        url: the address of a server that runs already; instead of `command`.
        transport: `http` for streamable HTTP, `sse` for the older HTTP with server-sent events.
        headers: additional headers of each request.
        oauth: how requests are authorized by OAuth 2.1; None for not at all.
        roots: folders that are listed to the server if it asks; `client` passes the request to the client that made
            the call.
        sampling: whether a request of the server to sample a model is passed to the client that made the call.
        allow: private networks, addresses and hosts that `url` may lead to, besides public ones and this machine.
        trust: whether its word is accepted that a tool only reads, destroys nothing, or may be repeated.
        new_tools: `show` offers tools that the server adds later at once; `review` waits until they are reviewed.
        sessions: `shared` uses one connection for all callers, `actor` one for each actor.
        parallel: whether all calls of its tools may run at the same time; otherwise only those that read do.
        protocol: `auto` finds the newest revision; `legacy` starts with the handshake of revisions up to 2025-11-25.
        timeout_s: how long one call may take.
        start_timeout_s: how long the server may take to start and to list its tools.
        max_message_bytes: the longest message that is accepted from the server.
        resources: whether tools read the resources and prompts of the server, if it has some.
    """

    command: Text | None = None
    args: _Words = ()
    env: _Pairs = key(default_factory=dict)
    pass_env: _Words = ()
    cwd: Text | None = None
    url: Text | None = None
    transport: Annotated[Literal["http", "sse"], Meta(description='"http" or "sse"; write one of them')] = "http"
    headers: _Pairs = key(default_factory=dict)
    oauth: Annotated[OAuthSettings, Meta(description="a table; write oauth = {}")] | None = None
    allow: _Words = ()
    roots: _Roots = ()
    sampling: Switch = False
    trust: Switch = False
    new_tools: Annotated[Literal["show", "review"], Meta(description='"show" or "review"; write one of them')] = "show"
    sessions: Annotated[Literal["shared", "actor"], Meta(description='"shared" or "actor"; write one of them')] = (
        "shared"
    )
    parallel: Switch = False
    protocol: Annotated[Literal["auto", "legacy"], Meta(description='"auto" or "legacy"; write one of them')] = "auto"
    timeout_s: _Seconds = DEFAULT_TIMEOUT_S
    start_timeout_s: _Seconds = DEFAULT_START_TIMEOUT_S
    max_message_bytes: _Bytes = DEFAULT_MAX_MESSAGE_BYTES
    resources: Switch = True

    def __post_init__(self) -> None:
        """Convert values that a program gave as those of a table, and reject invalid ones.

        Raises:
            ConfigError: says which value is invalid.
        """
        check_settings(self.name, self)
        if (self.command is None) == (self.url is None):
            raise ConfigError(f"the mcp source {self.name!r} must have either command or url; write one of them")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"the url of source {self.name!r} must begin with http:// or https://; write it in full")
        unused = ("args", "env", "pass_env", "cwd") if self.command is None else ("headers", "allow", "oauth")
        for member in unused:
            if getattr(self, member) not in ((), {}, None):
                other = "command" if self.command is None else "url"
                raise ConfigError(f"{member} of source {self.name!r} needs {other}; remove {member}")

    @property
    def kind(self) -> str:
        """The kind of source, by which a runtime finds its factory."""
        return "mcp"

    @property
    def credentials(self) -> tuple[str, ...]:
        """The names of the credentials that its command, its URL, its environment or its headers refer to."""
        texts = (*self.args, self.url or "", *self.env.values(), *self.headers.values())
        return tuple(sorted({name for text in texts for name in credentials_in(text)}))


def read_server(name: str, members: JsonObject, folder: Path | None = None) -> McpServer:
    """Return the server of a settings table; a relative `cwd` starts at `folder`.

    Raises:
        ConfigError: a member is unknown, missing or invalid.
    """
    try:
        server = read_table({**members, "name": name}, McpServer, "an mcp source", shows_values=False)
    except TableError as error:
        raise ConfigError(str(error)) from error
    if server.cwd is None or folder is None:
        return server
    return replace(server, cwd=str(folder / server.cwd))
