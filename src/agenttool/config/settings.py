"""The records of a settings file."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from agenttool.config.table import Meta, Switch, Text, Texts, suggestion
from agenttool.errors import ConfigError
from agenttool.records import JsonObject, Part, RuleSource

LAST_PORT = 65_535

_Limit = Annotated[Annotated[int, Meta(ge=0)] | bool, Meta(description="a whole number or false; false means no limit")]
_Names = Annotated[list[str], Meta(description='a list of names; write ["NAME"]')]
_Days = Annotated[float, Meta(ge=0, le=1e6, description="a number of days from 0 on; write 30, or leave it out")]
_Folders = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Meta(description="a folder or a list of folders; write it in quotes"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The keys of one table of settings, and where it is written; tables on different lines can be equal."""

    members: JsonObject
    source: RuleSource
    file: str | None = None
    line: int | None = field(default=None, compare=False)

    @property
    def place(self) -> str:
        """The file and line for messages."""
        where = self.file or str(self.source)
        return where if self.line is None else f"{where}:{self.line}"


class PermissionsTable(Part, frozen=True, kw_only=True):
    """The table `[permissions]`: how much runs without an approval.

    Attributes:
        mode: the permission mode: `default`, `accept_edits` or `read_only`. The strictest of all files applies.
        interactive: whether an approver can be asked. Default: true if there is one, or the store is durable. One
            file that says false is enough.
        workspace: the folders that rules about paths refer to, relative to this file. Default: the working directory.
            The project can only narrow the workspace of the user.
        rules: `starter` adds the rules for shell commands that come with the package.
    """

    mode: Text | None = None
    interactive: Switch | None = None
    workspace: _Folders = ()
    rules: Annotated[Literal["starter"], Meta(description='a set of rules; write "starter"')] | None = None


class SearchTable(Part, frozen=True, kw_only=True):
    """The table `[search]`: the model for search by meaning.

    Attributes:
        model: the folder of a sentence-embedding model, relative to this file; `none` searches by words only.
    """

    model: Annotated[str, Meta(min_length=1, description='a folder or "none"; write model = "FOLDER"')]


class StoreTable(Part, frozen=True, kw_only=True):
    """The table `[store]`: where the journal and the payloads are stored.

    Attributes:
        url: the file of the journal, relative to this file, as `sqlite:FILE`; or `memory:`.
        payloads: a folder or the URL of an object store for large results. Default: a folder beside the journal.
        payload_days: `agenttool retain` deletes payloads older than this. Default: none is deleted.
        journal_days: `agenttool retain` deletes facts older than this. Default: none is deleted.
    """

    url: Annotated[str, Meta(min_length=1, description='a text; write url = "sqlite:agenttool.db"')]
    payloads: Text | None = None
    payload_days: _Days | None = None
    journal_days: _Days | None = None


class StoreSetting(StoreTable, frozen=True, kw_only=True):
    """A `[store]` table with its place; relative paths begin in `folder`."""

    folder: Path
    place: str


class SurfaceSetting(Part, frozen=True, kw_only=True):
    """The table `[surface]`: limits and capabilities of surfaces; a limit of `false` means no limit.

    Attributes:
        max_tools: how many tools a surface shows before the others are deferred. Default: 100.
        max_tokens: how large their schemas may be together. Default: 20,000.
        hide_denied: whether tools that rules deny for all arguments are hidden. Default: false.
        credentials: the names of credentials that other code provides.
        gates: the open feature gates.
        skills: the active skills. Default: not known, so that no tool is excluded for this reason.
        peers: the reachable peer agents. Default: not known.
        has_browser: whether a browser session exists. Default: not known.
        allows_shell: whether commands and code may run. Default: not known.
    """

    max_tools: _Limit | None = None
    max_tokens: _Limit | None = None
    hide_denied: Switch | None = None
    credentials: _Names | None = None
    gates: _Names | None = None
    skills: _Names | None = None
    peers: _Names | None = None
    has_browser: Switch | None = None
    allows_shell: Switch | None = None

    def __post_init__(self) -> None:
        """Reject a limit of `true`.

        Raises:
            ValueError: there is one.
        """
        for name, limit in (("max_tools", self.max_tools), ("max_tokens", self.max_tokens)):
            if limit is True:
                raise ValueError(f"invalid field `{name}`")


class KeyringEntry(Part, frozen=True, kw_only=True):
    """A password in the keyring of the user."""

    service: str
    username: str


class CredentialSource(Part, frozen=True, kw_only=True):
    """Where one secret is read from: one of `CREDENTIAL_SOURCES`; `pass_env` belongs to `command`."""

    env: Text | None = None
    file: Text | None = None
    keyring: (
        Annotated[KeyringEntry, Meta(description='a table; write keyring = {service = "github", username = "ada"}')]
        | None
    ) = None
    command: (
        Annotated[
            tuple[Annotated[str, Meta(min_length=1)], ...],
            Meta(min_length=1, description='a list of texts, without a shell; write ["gh", "auth", "token"]'),
        ]
        | None
    ) = None
    pass_env: Annotated[tuple[str, ...], Meta(description='a list of variables; write ["NAME"]')] = ()


CREDENTIAL_SOURCES = ("env", "file", "keyring", "command")
"""The keys of which a `CredentialSource` has one."""


class CredentialTable(CredentialSource, frozen=True, kw_only=True):
    """A table `[credentials.NAME]`: one source (`env`, `file`, `keyring` or `command`), or one for each actor.

    Attributes:
        env: the environment variable with the secret.
        file: the file with the secret, relative to this file.
        keyring: the service and the username of a password in the keyring of the user.
        command: the command that prints the secret; no shell reads it.
        pass_env: the environment variables that the command gets.
        actors: a source for each actor, instead of one for all.
        ttl_s: how many seconds a fetched value is used.
        timeout_s: how many seconds a fetch may take.
    """

    actors: (
        Annotated[dict[str, JsonObject], Meta(description='a table of actors; write "user:ada" = {env = "ADA_TOKEN"}')]
        | None
    ) = None
    ttl_s: Annotated[float, Meta(ge=0, le=1e6, description="a number of seconds from 0 on; write 300")] = 300.0
    timeout_s: Annotated[float, Meta(gt=0, le=600, description="a number of seconds up to 600; write 10")] = 10.0


MODES = ("accept_edits", "default", "read_only")
"""The permission modes, the strictest last."""

_ALL = ("", "0.0.0.0", "::")  # noqa: S104 -- nothing is bound here


_LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
_Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class JwtTable(Part, frozen=True, kw_only=True):
    """The table `[server.jwt]`: whose JSON Web Tokens are accepted as credentials. Needs `agenttool[jwt]`.

    Attributes:
        issuer: the issuer, exactly as in the claim `iss`.
        audience: the audiences, of which the claim `aud` must have one.
        jwks_url: the URL of the issuer's public keys, with https; http only for this machine.
        public_key_file: a PEM file with the one public key, in place of `jwks_url`.
        algorithms: the signature algorithms that are accepted, all with public keys.
        subject_claim: the claim with the subject.
        roles_claim: the claim with the roles, a list or words in one text. `a.b` is the member `b` of the claim `a`.
            Unknown roles are ignored. A token without a known role is a caller.
        tenant_claim: the claim with the tenant, which each token must then have. Default: the default tenant.
        leeway_s: how much the clocks of the issuer and the server may differ.
    """

    issuer: Text
    audience: Texts
    jwks_url: Text | None = None
    public_key_file: Text | None = None
    algorithms: Annotated[
        tuple[_Algorithm, ...],
        Meta(min_length=1, description='a list of algorithms with public keys; write ["RS256"]'),
    ] = ("RS256", "ES256")
    subject_claim: Text = "sub"
    roles_claim: Text = "roles"
    tenant_claim: Text | None = None
    leeway_s: Annotated[float, Meta(ge=0, le=300, description="a number of seconds up to 300; write 30")] = 30.0

    def __post_init__(self) -> None:
        """Check what depends on several keys.

        Raises:
            ValueError: there is not one place of keys, or its URL is not safe.
        """
        if (self.jwks_url is None) == (self.public_key_file is None):
            raise ValueError("[server.jwt] needs jwks_url or public_key_file; write one of them")
        if self.jwks_url is not None:
            parts = urlsplit(self.jwks_url)
            is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK_HOSTS
            if not parts.hostname or not (parts.scheme == "https" or is_local):
                raise ValueError(f"jwks_url must use https, got {self.jwks_url!r}; http is for this machine only")


class ServerSetting(Part, frozen=True, kw_only=True):
    """The table `[server]`: the listening address of the server, and its public URL.

    Attributes:
        host: the address to listen on.
        port: the port to listen on; 0 is any free port.
        url: the URL at which other machines reach the server. Default: host and port.
        token_env: the variable with the token that all endpoints but callbacks and health require; None requires none.
        requires_key: whether programs on this machine need a key, too. Default: they may make calls without one.
        approves_own_calls: whether callers may answer for their own calls, over MCP without a key, too. Default: false.
        max_requests_per_s: how many requests one identity may send. Default: no limit.
        max_connections: how many connections are open at once. Beyond that, idle ones are closed. Requests that wait
            and event streams need one each.
        origins: the origins of web pages that may send requests, each with scheme, host and port.
        jwt: the table `[server.jwt]`. Default: no JSON Web Token is accepted.
    """

    host: Annotated[str, Meta(description="a text; write it in quotes")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=LAST_PORT, description=f"from 0 to {LAST_PORT}; 0 is any free port")] = 8642
    url: Text | None = None
    token_env: Text | None = None
    requires_key: Switch = False
    approves_own_calls: Switch = False
    max_requests_per_s: (
        Annotated[float, Meta(gt=0, le=1e6, description="a number of requests above 0; write 100")] | None
    ) = None
    max_connections: Annotated[
        int, Meta(ge=10, le=1_000_000, description="a number of connections from 10 on; write 6000")
    ] = 6000
    origins: tuple[Text, ...] = ()
    jwt: Annotated[JsonObject, Meta(description="a table; write [server.jwt]")] | None = None

    @property
    def reached(self) -> str | None:
        """The public URL, if the settings determine it: not with port 0 or a wildcard address."""
        if self.url is not None or self.port == 0 or self.host in _ALL:
            return self.url
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


_Patterns = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...], Meta(description="a text or a list of texts; write each in quotes")
]


class McpProfileTable(Part, frozen=True, kw_only=True):
    """A table `[mcp.NAME]`: tools that MCP clients get at `/mcp/NAME`, or from `agenttool mcp --profile NAME`.

    Attributes:
        sources: the sources whose tools it has.
        tools: patterns of further tools, such as `files.read_*`. Default: all tools, if `sources` is not given either.
        without: patterns of tools that it does not have.
        title: the title that clients show.
        instructions: what a model reads about these tools, in place of the usual text.
        subjects: the subjects of tokens that may use it, with wildcards. Default: every caller. A subject that some
            profile lists may use only the profiles that list it, and not `/mcp`.
    """

    sources: _Patterns = ()
    tools: _Patterns = ()
    without: _Patterns = ()
    title: Text | None = None
    instructions: Text | None = None
    subjects: _Patterns = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The contents of a settings file.

    Attributes:
        sources: the `[sources.NAME]` tables by name.
        credentials: the `[credentials.NAME]` tables by name.
        mcp: the `[mcp.NAME]` tables by name.
        roles: the actors of each role; `*` in an actor matches any characters.
        teams: the actors of each team.
        user: the settings of the user's file alone, if this is the sum of several layers.
        named_file: the file of these settings, if a user or program named it; none for the layers.
        is_layered: whether these are the settings of the layers, whichever of their files exist.
    """

    rules: tuple[Setting, ...] = ()
    hooks: tuple[Setting, ...] = ()
    mode: str | None = None
    mode_place: str = ""
    interactive: bool | None = None
    workspace: tuple[str, ...] = ()
    store: StoreSetting | None = None
    surface: SurfaceSetting | None = None
    search_model: str | Path | None = None
    sources: dict[str, Setting] = field(default_factory=dict[str, Setting])
    credentials: dict[str, Setting] = field(default_factory=dict[str, Setting])
    server: ServerSetting | None = None
    mcp: dict[str, Setting] = field(default_factory=dict[str, Setting])
    roles: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    teams: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    user: "Config | None" = None
    named_file: Path | None = field(default=None, compare=False)
    is_layered: bool = field(default=False, compare=False)

    def check_profile(self, name: str) -> None:
        """Check that there is a table `[mcp.NAME]`.

        Raises:
            ConfigError: there is none.
        """
        if name not in self.mcp:
            advice = suggestion(name, self.mcp) if self.mcp else f"add a table [mcp.{name}] to the settings"
            raise ConfigError(f"no profile is named {name!r}; {advice}")
