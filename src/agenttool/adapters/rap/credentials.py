"""Credentials that one side presents and the other verifies: bearer tokens and signatures, in both directions.

A signature covers these lines: `rap-signature-2`, the sender (`runtime` or `provider`), the origin of the receiver, the
time in seconds, a nonce, the method, the path with its query, and the SHA-256 of the body. The header carries them:

    X-RAP-Signature: v=2,from=runtime,to=https://gh.example,t=1790000000,n=32 hex digits,s=64 hex digits
"""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from agenttool.errors import ConfigError
from agenttool.records import ClosedEnum

MIN_SECRET_LENGTH = 16
"""A shorter secret can be guessed."""

SIGNATURE_HEADER = "X-RAP-Signature"
_SIGNATURE = re.compile(
    r"v=2,from=(runtime|provider),to=([!-+\--~]{1,300}),t=(\d{1,12}),"
    r"n=([0-9a-f]{32}),s=([0-9a-f]{64})"
)
"""The sender, the receiver, the time, the nonce, and the signature, which covers the others."""
_TOKEN = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRequest:
    """The request that a credential is verified on.

    Attributes:
        url: where the request arrived, as the server knows it, never as the request claims; None if it does not know.
        headers: by lower-case name.
    """

    method: str
    url: str | None
    headers: Mapping[str, str]
    body: bytes


@runtime_checkable
class Credential(Protocol):
    """A way to authenticate the sender of a request."""

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Return a stable name of the sender; None if it is unknown."""
        ...

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authenticate a request."""
        ...


class Bearer:
    """A shared token for each caller: `Bearer({"token…": "runtime-a"})`, or a token alone."""

    def __init__(self, tokens: Mapping[str, str] | str) -> None:
        """Take the tokens and their callers; `headers` presents the first one.

        Raises:
            ConfigError: there is no token, or one is too short.
        """
        named = {tokens: "caller"} if isinstance(tokens, str) else dict(tokens)
        if not named or any(len(token) < MIN_SECRET_LENGTH or not _TOKEN.fullmatch(token) for token in named):
            raise ConfigError(
                f"a bearer token must have {MIN_SECRET_LENGTH} plain characters or more; make a longer one"
            )
        self._own = next(iter(named))
        self._callers = {_digest(token): caller for token, caller in named.items()}

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Return the caller of the presented token, comparing digests in constant time."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        given, found = _digest(token.strip()), None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, given):
                found = caller
        return found

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the header that presents the first token."""
        return {"Authorization": f"Bearer {self._own}"}


class SigningSide(ClosedEnum):
    """Which side sends a signed request."""

    RUNTIME = "runtime"
    PROVIDER = "provider"


class Signed:
    """A shared secret that is never sent. Each request is signed for one receiver, for a limited time, and used once.

    One secret may serve several servers and both directions: other receivers reject what was signed for one of them.
    A server must store the nonce of each request that it admits, to reject replays.
    """

    challenge = "RAP-Signature"

    def __init__(
        self,
        secret: str,
        *,
        window_s: int = 300,
        clock: Callable[[], float] = time.time,
        sender: SigningSide = SigningSide.RUNTIME,
    ) -> None:
        """Take the secret, the tolerated difference of two clocks, and which side sends the requests.

        Raises:
            ConfigError: the secret is too short.
        """
        if len(secret) < MIN_SECRET_LENGTH:
            raise ConfigError(f"a signing secret must have {MIN_SECRET_LENGTH} characters or more; make a longer one")
        self._secret = secret
        self._window_s = window_s
        self._clock = clock
        self._sender = sender

    def for_sender(self, sender: SigningSide) -> "Signed":
        """Return the same credential for requests of the given side."""
        return Signed(self._secret, window_s=self._window_s, clock=self._clock, sender=sender)

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Return a caller if the signature is valid, addressed to this server, and recent."""
        return "signed" if self._error(request) is None else None

    def rejection_reason(self, request: CredentialRequest) -> str:
        """Return what is wrong with a signature; signed fields are named only if the signature itself is valid."""
        return self._error(request) or "this request was received before; sign each request separately"

    def nonce_of(self, request: CredentialRequest) -> tuple[str, float]:
        """Return the nonce of an admitted request, and the time at which its signature expires."""
        _, _, moment, nonce, _ = _SIGNATURE.findall(request.headers[SIGNATURE_HEADER.lower()])[0]
        return nonce, int(moment) + self._window_s

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the header that signs a request for the server of its URL."""
        fields = (self._sender.value, origin_of(url), str(int(self._clock())), secrets.token_hex(16))
        sender, to, moment, nonce = fields
        signature = self._sign(fields, method, url, body)
        return {SIGNATURE_HEADER: f"v=2,from={sender},to={to},t={moment},n={nonce},s={signature}"}

    def _error(self, request: CredentialRequest) -> str | None:
        """Return why a request is invalid, apart from replays."""
        header = request.headers.get(SIGNATURE_HEADER.lower())
        if header is None:
            return f"the request is not signed; send {SIGNATURE_HEADER}"
        given = _SIGNATURE.fullmatch(header)
        if given is None:
            return f"{SIGNATURE_HEADER} is not a signature of version 2"
        if request.url is None:
            return "this server does not know its own address; its operator must configure it"
        *fields, signature = given.groups()
        if not hmac.compare_digest(self._sign(fields, request.method, request.url, request.body), signature):
            return "the signature is wrong: the secret, method, path or body differs from what was signed"
        return self._fields_error(fields, origin_of(request.url))

    def _fields_error(self, fields: list[str], origin: str) -> str | None:
        """Return why a request with a valid signature is not for this server now."""
        sender, to, moment, _ = fields
        if sender != self._sender.value:
            return f"the request is signed by a {sender}, and this server accepts only a {self._sender.value}"
        if to != origin:
            return f"the request is signed for {to}, and this server has another address"
        if abs(self._clock() - int(moment)) > self._window_s:
            return f"the request was signed more than {self._window_s} seconds from now; synchronize the clocks"
        return None

    def _sign(self, fields: Iterable[str], method: str, url: str, body: bytes) -> str:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = ("rap-signature-2", *fields, method.upper(), target, hashlib.sha256(body).hexdigest())
        return hmac.new(self._secret.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()


def origin_of(url: str) -> str:
    """Return the canonical text of a URL's origin, such as `https://gh.example`, without a default port.

    Raises:
        ConfigError: it is not an http or https URL.
    """
    try:
        parts = urlsplit(url)
        port, default = parts.port, _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise ConfigError(
            f"an origin must be written such as 'https://host.example', got {url!r}; correct it"
        ) from None
    host = (parts.hostname or "").removesuffix(".")
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" if port in (None, 0, default) else f"{parts.scheme}://{named}:{port}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
