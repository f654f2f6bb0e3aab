"""Who is speaking: credentials that one side presents and the other checks, the same for both directions."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from agenttool.errors import ConfigError

SHORTEST = 16
"""A secret with fewer characters can be guessed."""

_TOKEN = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRequest:
    """What a credential is checked on.

    Attributes:
        url: where it came to, as the one knows who was asked; never as the request itself says. None if that is not
            known either.
        headers: their names are in lower case.
    """

    method: str
    url: str | None
    headers: Mapping[str, str]
    body: bytes


class Credential(Protocol):
    """A way to say who is speaking."""

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Give a name for whoever speaks, always the same for the same one; none for a stranger."""
        ...

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Give what to send along to be known."""
        ...


@runtime_checkable
class TakenOnce(Protocol):
    """A credential that admits each request once; whoever keeps its words knows a replay after a restart, too."""

    def once(self, request: CredentialRequest) -> tuple[str, float]:
        """Give a word that no other request has, and the moment after which the request is too old anyway."""
        ...


@runtime_checkable
class SaysWhy(Protocol):
    """A credential that can tell a caller what was wrong with a request that it did not admit."""

    challenge: str
    """What is expected instead, as the name of an authentication scheme."""

    def why_not(self, request: CredentialRequest) -> str:
        """Say why a request was not admitted, in words that help nobody to make one that is."""
        ...


class Bearer:
    """A shared token for each caller: `Bearer({"token…": "runtime-a"})`, or the tokens alone."""

    def __init__(self, tokens: Mapping[str, str] | str) -> None:
        """Take the tokens and whose they are; one's own, the first, is what `headers` presents.

        Raises:
            ConfigError: there is none, or one is short enough to be guessed.
        """
        named = {tokens: "caller"} if isinstance(tokens, str) else dict(tokens)
        if not named or any(len(token) < SHORTEST or not _TOKEN.fullmatch(token) for token in named):
            raise ConfigError(f"a bearer token must have {SHORTEST} plain characters or more; make a longer one")
        self._own = next(iter(named))
        self._callers = {_digest(token): caller for token, caller in named.items()}

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Give the caller whose token was presented; digests are compared, so that time tells nothing."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        given, found = _digest(token.strip()), None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, given):
                found = caller
        return found

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Present one's own token."""
        return {"Authorization": f"Bearer {self._own}"}


class ShownTo:
    """A credential that is shown to some origins only: whoever names a URL must not be handed a token for it."""

    def __init__(self, credential: Credential, origins: Iterable[str]) -> None:
        """Take what to show, and the URLs of those who may see it.

        Raises:
            ConfigError: one of them is no http or https URL.
        """
        self.inner = credential
        self._origins = frozenset(origin_of(each) for each in origins)

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Ask the credential."""
        return self.inner.caller_of(request)

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Present it where it may be seen, and nothing elsewhere."""
        return self.inner.headers(method, url, body) if origin_of(url) in self._origins else {}


def is_taken_once(credential: Credential | None) -> bool:
    """Tell whether what a credential presents with a request is good for once, so that it must not go out twice."""
    shown = credential.inner if isinstance(credential, ShownTo) else credential
    return isinstance(shown, TakenOnce)


def origin_of(url: str) -> tuple[str, str, int]:
    """Give the part of a URL that says who is spoken to, and how: its scheme, host and port.

    Raises:
        ConfigError: it is no http or https URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ConfigError(
            f"an origin must be written such as 'https://host.example', got {url!r}; correct it"
        ) from None
    return parts.scheme, (parts.hostname or "").removesuffix("."), port


def spelled_origin(url: str) -> str:
    """Write the origin of a URL down, the same for all URLs of that origin: `https://gh.example`, with no usual port.

    Raises:
        ConfigError: it is no http or https URL.
    """
    scheme, host, port = origin_of(url)
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}" if port == _PORTS[scheme] else f"{scheme}://{named}:{port}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
