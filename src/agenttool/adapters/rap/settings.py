"""The configuration of a RAP tool server; importing it loads no network code."""

from collections.abc import Callable, Mapping
from typing import Annotated

from agenttool.adapters.rap.credentials import Bearer, Credential, Signed, origin_of
from agenttool.adapters.source_settings import check_settings
from agenttool.config.table import Meta, Switch, TableError, Text, members_of, read_table
from agenttool.errors import ConfigError, RecordError
from agenttool.http.headers import check_headers
from agenttool.records import JsonObject, Part, ToolId

DEFAULT_MAX_SUBSCRIPTIONS = 100
"""The subscriptions that one thread may have open, unless its source sets another limit."""

_Words = Annotated[tuple[str, ...], Meta(description='a list of texts; write ["10.0.0.0/8"]')]
_Pin = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z", description="sha256: and 64 digits; write the digest")]
_Seconds = Annotated[float, Meta(gt=0, description="a number of seconds above 0; write 3600")]
_Attempts = Annotated[int, Meta(ge=1, description="a whole number of at least 1; write 5")]
_Count = Annotated[int, Meta(ge=0, description="a whole number that is not negative; write 5")]

TOOL_PREFIX = "tool_"

_CREDENTIALS: dict[str, Callable[[str], Credential]] = {"token_env": Bearer, "secret_env": Signed}
"""The settings that name an environment variable with a secret, and the credential made from it."""


class RapServer(Part, frozen=True, kw_only=True):
    """One tool server, and how far it is trusted.

    Attributes:
        name: the namespace of its tools.
        url: its base URL; the manifest is below it.
        pin: the required digest of its manifest, as `sha256:…`; None accepts any valid manifest.
        credential: what requests present to the server, such as `Bearer("…")`; never stored or logged.
        presents_to: origins besides that of `url` that may see the credential, such as `https://run.example`. Other
            origins that a manifest or a question names see nothing.
        allow: private networks, addresses and hosts that its URLs may lead to, besides public ones.
        within_s: how long a call waits for its result; None for no limit.
        attempts: how often an invocation is tried that gets no response or a server error. None sends it once,
            unless its tool may run twice or nothing was sent; then it is tried 5 times. Set more than 1 only for a
            server that remembers call ids: any other may run a call once for each attempt.
        trusts_annotations: whether its word is accepted that a tool only reads, or may be repeated.
        shares_user: whether it receives the user's id; only with the users' consent.
        takes_any_2xx: whether replies such as 202 count as an acknowledgement; the protocol says 200.
        shows_http_urls: whether a person may be sent to an authorization page without TLS, on this machine only.
        max_subscriptions: how many subscriptions one thread may have open.
        max_prompts: how many prompts one call may show; only its latest prompt is ever open.
    """

    name: Annotated[str, Meta(description="letters, digits, '_' and '-'; rename it")]
    url: Annotated[str, Meta(description='a text; write url = "https://…"')]
    pin: _Pin | None = None
    credential: Annotated[Credential, Meta(description="an object of Python; write token_env or secret_env")] | None = (
        None
    )
    presents_to: _Words = ()
    allow: _Words = ()
    within_s: _Seconds | None = None
    attempts: _Attempts | None = None
    trusts_annotations: Switch = False
    shares_user: Switch = False
    takes_any_2xx: Switch = False
    shows_http_urls: Switch = False
    max_subscriptions: _Count = DEFAULT_MAX_SUBSCRIPTIONS
    max_prompts: _Count = 50

    def __post_init__(self) -> None:
        """Reject invalid values.

        Raises:
            ConfigError: says which value is invalid.
        """
        check_settings(self.name, self)
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"the url of source {self.name!r} must begin with http:// or https://; write it in full")
        for each in (self.url, *self.presents_to):
            origin_of(each)
        try:
            check_headers(self.headers("GET", self.url))
        except RecordError as error:
            raise ConfigError(f"the credential of source {self.name!r} cannot be presented: {error}") from None

    def __repr__(self) -> str:
        return f"RapServer(name={self.name!r}, url={self.url!r})"

    @property
    def kind(self) -> str:
        """The kind of source, by which a runtime finds its factory."""
        return "rap"

    @property
    def base(self) -> str:
        """The base URL without trailing slashes, to append paths to."""
        return self.url.rstrip("/")

    def headers(self, method: str, url: str, body: bytes = b"") -> Mapping[str, str]:
        """Return the credential's headers for one request; none for an origin that may not see it."""
        if self.credential is None or not self.may_present_to(url):
            return {}
        return self.credential.headers(method, url, body)

    def may_present_to(self, url: str) -> bool:
        """Return whether the server of a URL may see the credential."""
        return origin_of(url) in map(origin_of, (self.url, *self.presents_to))


def source_name_in(tool_id: ToolId) -> str:
    """Return the name of a tool's server, which contains no dot."""
    return tool_id.removeprefix(TOOL_PREFIX).partition(".")[0]


class _RapTable(RapServer, frozen=True, kw_only=True):
    """A table of a settings file, which names the environment variable of a secret."""

    token_env: Text | None = None
    secret_env: Text | None = None


def read_source(name: str, members: JsonObject, variable: Callable[[str], str | None]) -> RapServer:
    """Return the source of a settings table; secrets come from the environment variables that it names.

    Raises:
        ConfigError: a member is unknown, missing or invalid.
    """
    try:
        table = read_table({**members, "name": name}, _RapTable, "a rap source")
    except TableError as error:
        raise ConfigError(str(error)) from error
    options = members_of(table)
    named = [(member, variable_name) for member in _CREDENTIALS if (variable_name := options.pop(member)) is not None]
    if len(named) > 1:
        raise ConfigError("token_env and secret_env exclude each other; remove one of them")
    credential = None
    for member, variable_name in named:
        secret = variable(variable_name)
        if secret is None:
            raise ConfigError(f"{member} names {variable_name!r}, which is not set; set it, or remove {member}")
        credential = _CREDENTIALS[member](secret)
    options["credential"] = credential
    return RapServer(**options)
