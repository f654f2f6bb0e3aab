"""The configuration of a RAP tool server; importing it loads no network code."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agenttool.adapters.rap.credentials import Bearer, Credential, Signed, check_headers, origin_of
from agenttool.adapters.source_settings import check_name
from agenttool.errors import ConfigError, RecordError
from agenttool.records import JsonObject

_PIN = re.compile(r"sha256:[0-9a-f]{64}")

DEFAULT_MAX_SUBSCRIPTIONS = 100
"""The subscriptions that one thread may have open, unless its source sets another limit."""

_MEMBER_TYPES: dict[str, tuple[type, ...]] = {
    "url": (str,),
    "pin": (str,),
    "token_env": (str,),
    "secret_env": (str,),
    "allow": (list,),
    "presents_to": (list,),
    "within_s": (int, float),
    "attempts": (int,),
    "trusts_annotations": (bool,),
    "shares_user": (bool,),
    "takes_any_2xx": (bool,),
    "shows_http_urls": (bool,),
    "max_subscriptions": (int,),
    "max_prompts": (int,),
}

_CREDENTIALS: dict[str, Callable[[str], Credential]] = {"token_env": Bearer, "secret_env": Signed}
"""The settings that name an environment variable with a secret, and the credential made from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RapServer:
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

    name: str
    url: str
    pin: str | None = None
    credential: Credential | None = field(default=None, repr=False)
    presents_to: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    within_s: float | None = None
    attempts: int | None = None
    trusts_annotations: bool = False
    shares_user: bool = False
    takes_any_2xx: bool = False
    shows_http_urls: bool = False
    max_subscriptions: int = DEFAULT_MAX_SUBSCRIPTIONS
    max_prompts: int = 50

    def __post_init__(self) -> None:
        """Reject invalid values.

        Raises:
            ConfigError: says which value is invalid.
        """
        check_name(self.name)
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"the url of source {self.name!r} must begin with http:// or https://; write it in full")
        for each in (self.url, *self.presents_to):
            origin_of(each)
        if self.pin is not None and not _PIN.fullmatch(self.pin):
            raise ConfigError(f"the pin of source {self.name!r} must be sha256: and 64 digits, got {self.pin!r}")
        if self.within_s is not None and not self.within_s > 0:
            raise ConfigError(f"within_s of source {self.name!r} must be more than 0, got {self.within_s!r}; raise it")
        if self.attempts is not None and self.attempts < 1:
            raise ConfigError(f"attempts of source {self.name!r} must be at least 1, got {self.attempts!r}; raise it")
        if self.max_prompts < 0:
            raise ConfigError(f"max_prompts of source {self.name!r} must not be negative, got {self.max_prompts!r}")

        try:
            check_headers(self.headers("GET", self.url))
        except RecordError as error:
            raise ConfigError(f"the credential of source {self.name!r} cannot be presented: {error}") from None

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


def read_source(name: str, members: JsonObject, variable: Callable[[str], str | None]) -> RapServer:
    """Return the source of a settings table; secrets come from the environment variables that it names.

    Raises:
        ConfigError: a member is unknown, or has the wrong type or value.
    """
    for member, value in members.items():
        if member not in _MEMBER_TYPES:
            raise ConfigError(f"a rap source has no {member!r}; use one of {', '.join(_MEMBER_TYPES)}")
        if type(value) not in _MEMBER_TYPES[member]:
            kind = _MEMBER_TYPES[member][0].__name__
            raise ConfigError(f"{member} must be of the type {kind}, got {value!r}; correct it")
    if "url" not in members:
        raise ConfigError('a rap source needs a url; write url = "https://…"')
    given = {key: tuple(map(str, value)) if isinstance(value, list) else value for key, value in members.items()}
    for each in _CREDENTIALS:
        given.pop(each, None)
    return RapServer(name=name, credential=_credential(members, variable), **given)  # pyright: ignore[reportArgumentType] -- each type was checked above


def _credential(members: JsonObject, variable: Callable[[str], str | None]) -> Credential | None:
    named = [(member, str(members[member])) for member in _CREDENTIALS if member in members]
    if len(named) > 1:
        raise ConfigError("token_env and secret_env exclude each other; remove one of them")
    for member, name in named:
        secret = variable(name)
        if secret is None:
            raise ConfigError(f"{member} names {name!r}, which is not set; set it, or remove {member}")
        return _CREDENTIALS[member](secret)
    return None
