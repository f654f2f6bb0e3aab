"""Who is speaking: credentials that one side presents and the other checks, the same for both directions."""

import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from agenttool.errors import ConfigError

_SHORTEST = 16
"""A secret with fewer characters can be guessed."""

_TOKEN = re.compile(r"[\x21-\x7e]+")
_SIGNATURE = re.compile(r"t=(\d{1,12}),n=([0-9a-f]{32}),v1=([0-9a-f]{64})")
SIGNATURE_HEADER = "X-RAP-Signature"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a credential is checked on. Names of headers are in lower case; the target is the path with its query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Credential(Protocol):
    """A way to say who is speaking."""

    def caller_of(self, request: Request) -> str | None:
        """Give a name for whoever speaks, always the same for the same one; none for a stranger."""
        ...

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Give what to send along to be known."""
        ...


@runtime_checkable
class TakenOnce(Protocol):
    """A credential that admits each request once; whoever keeps its words knows a replay after a restart, too."""

    def once(self, request: Request) -> tuple[str, float]:
        """Give a word that no other request has, and the moment after which the request is too old anyway."""
        ...


class Bearer:
    """A shared token for each caller: `Bearer({"token…": "runtime-a"})`, or the tokens alone."""

    def __init__(self, tokens: Mapping[str, str] | str) -> None:
        """Take the tokens and whose they are; one's own, the first, is what `headers` presents.

        Raises:
            ConfigError: there is none, or one is short enough to be guessed.
        """
        named = {tokens: "caller"} if isinstance(tokens, str) else dict(tokens)
        if not named or any(len(token) < _SHORTEST or not _TOKEN.fullmatch(token) for token in named):
            raise ConfigError(f"a bearer token must have {_SHORTEST} plain characters or more; make a longer one")
        self._own = next(iter(named))
        self._callers = {_digest(token): caller for token, caller in named.items()}

    def caller_of(self, request: Request) -> str | None:
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


class Signed:
    """A shared secret that never travels: each request is signed, holds for a while, and is taken once."""

    def __init__(self, secret: str, *, window_s: int = 300, clock: Callable[[], float] = time.time) -> None:
        """Take the secret, and how far two clocks may be apart.

        Raises:
            ConfigError: the secret is short enough to be guessed.
        """
        if len(secret) < _SHORTEST:
            raise ConfigError(f"a signing secret must have {_SHORTEST} characters or more; make a longer one")
        self._secret = secret.encode()
        self._window_s = window_s
        self._clock = clock
        self._seen: set[str] = set()
        self._ages: deque[tuple[float, str]] = deque()

    def caller_of(self, request: Request) -> str | None:
        """Tell whether the signature is right, recent, and not a replay."""
        found = _SIGNATURE.fullmatch(request.headers.get(SIGNATURE_HEADER.lower(), ""))
        if found is None:
            return None
        moment, nonce, signature = found.groups()
        now = self._clock()
        expected = self._sign(moment, nonce, request.method, request.target, request.body)
        is_right = hmac.compare_digest(expected, signature) and abs(now - int(moment)) <= self._window_s
        return "signed" if is_right and self._is_new(nonce, now) else None

    def once(self, request: Request) -> tuple[str, float]:
        """Give the nonce of a request that was admitted, and the end of its time."""
        [(moment, nonce, _)] = _SIGNATURE.findall(request.headers[SIGNATURE_HEADER.lower()])
        return nonce, int(moment) + self._window_s

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Sign a request."""
        moment, nonce = str(int(self._clock())), secrets.token_hex(16)
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return {SIGNATURE_HEADER: f"t={moment},n={nonce},v1={self._sign(moment, nonce, method, target, body)}"}

    def _sign(self, moment: str, nonce: str, method: str, target: str, body: bytes) -> str:
        head = "\n".join((moment, nonce, method.upper(), target, hashlib.sha256(body).hexdigest()))
        return hmac.new(self._secret, head.encode(), hashlib.sha256).hexdigest()

    def _is_new(self, nonce: str, now: float) -> bool:
        while self._ages and self._ages[0][0] < now - 2 * self._window_s:
            self._seen.discard(self._ages.popleft()[1])
        if nonce in self._seen:
            return False
        self._seen.add(nonce)
        self._ages.append((now, nonce))
        return True


class ShownTo:
    """A credential that is shown to some origins only: whoever names a URL must not be handed a token for it."""

    def __init__(self, credential: Credential, origins: Iterable[str]) -> None:
        """Take what to show, and the URLs of those who may see it.

        Raises:
            ConfigError: one of them is no http or https URL.
        """
        self._credential = credential
        self._origins = frozenset(origin_of(each) for each in origins)

    def caller_of(self, request: Request) -> str | None:
        """Ask the credential."""
        return self._credential.caller_of(request)

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Present it where it may be seen, and nothing elsewhere."""
        return self._credential.headers(method, url, body) if origin_of(url) in self._origins else {}


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


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
