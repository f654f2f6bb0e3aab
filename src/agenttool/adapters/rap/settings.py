"""A RAP tool server as a deployment names it; nothing here touches the network, so that it costs nothing to import."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttool.adapters.rap.credentials import Credential, origin_of
from agenttool.adapters.rap.headers import check_headers
from agenttool.errors import ConfigError, RecordError

_PIN = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

MOST_SUBSCRIPTIONS = 100
"""How many subscriptions one thread may have open, unless its source says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RapSource:
    """One tool server, and how far it is trusted.

    Attributes:
        name: the namespace of its tools.
        url: its base URL; the manifest is looked for below it.
        pin: the digest that its manifest must have, as `sha256:…`; none takes any manifest that is valid.
        credential: what is shown to the server to be known, such as `Bearer("…")`; never written down anywhere.
        presents_to: origins that the credential is shown to besides the one of `url`, such as `https://run.example`;
            where else a manifest or a question of the server leads, nothing is shown.
        allow: private networks, addresses and hosts that its URLs may lead to; public ones may be contacted anyway.
        within_s: for how long an answer is waited for; none for as long as it takes.
        attempts: how often an invocation is tried that nobody answered, or that the server failed on.
        trusts_annotations: whether its word is taken for it that a tool only reads, or may be repeated.
        shares_user: whether it is told who asks; only with the users' consent.
        takes_any_2xx: whether replies such as 202 count as an acknowledgement; the protocol says 200.
        shows_http_urls: whether a person may be sent to an authorization page without TLS, on this machine only.
        max_subscriptions: how many one thread may have open.
        max_prompts: how often one call may put something to a person; only its latest prompt is ever open.
    """

    name: str
    url: str
    pin: str | None = None
    credential: Credential | None = field(default=None, repr=False)
    presents_to: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    within_s: float | None = None
    attempts: int = 5
    trusts_annotations: bool = False
    shares_user: bool = False
    takes_any_2xx: bool = False
    shows_http_urls: bool = False
    max_subscriptions: int = MOST_SUBSCRIPTIONS
    max_prompts: int = 50

    def __post_init__(self) -> None:
        """Refuse what can only be a slip.

        Raises:
            ConfigError: says which.
        """
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"a source is named with letters, digits, '_' and '-', got {self.name!r}; rename it")
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(f"the url of source {self.name!r} must begin with http:// or https://; write it in full")
        for each in (self.url, *self.presents_to):
            origin_of(each)
        if self.pin is not None and not _PIN.fullmatch(self.pin):
            raise ConfigError(f"the pin of source {self.name!r} must be sha256: and 64 digits, got {self.pin!r}")
        if self.within_s is not None and not self.within_s > 0:
            raise ConfigError(f"within_s of source {self.name!r} must be more than 0, got {self.within_s!r}; raise it")
        if self.attempts < 1:
            raise ConfigError(f"attempts of source {self.name!r} must be at least 1, got {self.attempts!r}; raise it")
        if self.max_prompts < 0:
            raise ConfigError(f"max_prompts of source {self.name!r} must not be negative, got {self.max_prompts!r}")

        try:
            check_headers(self.headers("GET", self.url))
        except RecordError as error:
            raise ConfigError(f"the credential of source {self.name!r} cannot be presented: {error}") from None

    @property
    def base(self) -> str:
        """The base URL without slashes at its end, to append paths to."""
        return self.url.rstrip("/")

    def headers(self, method: str, url: str, body: bytes = b"") -> Mapping[str, str]:
        """Give what to send along with one request; nothing to those whom the credential is not meant for."""
        if self.credential is None or not self.is_known_at(url):
            return {}
        return self.credential.headers(method, url, body)

    def is_known_at(self, url: str) -> bool:
        """Tell whether whoever is behind a URL may see the credential."""
        return origin_of(url) in map(origin_of, (self.url, *self.presents_to))
