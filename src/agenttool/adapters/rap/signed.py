"""Requests that are signed by a shared secret: each for one server, from one side, for a while, and once.

What is signed, line by line: `rap-signature-2`, who speaks (`runtime` or `provider`), the origin that is spoken to, the
moment in seconds, a nonce, the method, the path with its query, and the SHA-256 of the body. The header says so, too:

    X-RAP-Signature: v=2,from=runtime,to=https://gh.example,t=1790000000,n=32 hex digits,s=64 hex digits
"""

import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from agenttool.adapters.rap.credentials import SHORTEST, CredentialRequest, spelled_origin
from agenttool.errors import ConfigError
from agenttool.records import ClosedEnum

SIGNATURE_HEADER = "X-RAP-Signature"
_SIGNATURE = re.compile(
    r"v=2,from=(runtime|provider),to=([!-+\--~]{1,300}),t=(\d{1,12}),n=([0-9a-f]{32}),s=([0-9a-f]{64})"
)
_OLD = re.compile(r"t=\d+,n=[0-9a-f]+,v1=.*", re.DOTALL)


class Speaker(ClosedEnum):
    """Which side makes a request."""

    RUNTIME = "runtime"
    PROVIDER = "provider"


class _Told(NamedTuple):
    """What a signature says of itself; whether that is so, its last part proves."""

    speaker: str
    to: str
    moment: str
    nonce: str


class Signed:
    """A shared secret that never travels: a request is signed for the server it goes to, and is taken there once.

    One secret may serve several servers, and both directions: what was signed for one of them is refused by the others.
    """

    challenge = "RAP-Signature"

    def __init__(
        self,
        secret: str,
        *,
        window_s: int = 300,
        clock: Callable[[], float] = time.time,
        speaker: Speaker = Speaker.RUNTIME,
    ) -> None:
        """Take the secret, how far two clocks may be apart, and which side makes the requests that are signed with it.

        Raises:
            ConfigError: the secret is short enough to be guessed.
        """
        if len(secret) < SHORTEST:
            raise ConfigError(f"a signing secret must have {SHORTEST} characters or more; make a longer one")
        self._secret = secret
        self._window_s = window_s
        self._clock = clock
        self._speaker = speaker
        self._seen: set[str] = set()
        self._ages: deque[tuple[float, str]] = deque()

    def by(self, speaker: Speaker) -> "Signed":
        """Give the same for requests that the other side makes."""
        return Signed(self._secret, window_s=self._window_s, clock=self._clock, speaker=speaker)

    def caller_of(self, request: CredentialRequest) -> str | None:
        """Tell whether the signature is right, meant for this server, recent, and not a replay."""
        if self._flaw(request) is not None:
            return None
        return "signed" if self._is_new(_read(request)[0].nonce, self._clock()) else None

    def why_not(self, request: CredentialRequest) -> str:
        """Say what is wrong with a signature; what was signed is told to those only who know the secret."""
        return self._flaw(request) or "this request was taken before; sign each one anew"

    def once(self, request: CredentialRequest) -> tuple[str, float]:
        """Give the nonce of a request that was admitted, and the end of its time."""
        told, _ = _read(request)
        return told.nonce, int(told.moment) + self._window_s

    def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Sign a request for the server that its URL leads to."""
        told = _Told(self._speaker.value, spelled_origin(url), str(int(self._clock())), secrets.token_hex(16))
        speaker, to, moment, nonce = told
        signature = self._sign(told, method, url, body)
        return {SIGNATURE_HEADER: f"v=2,from={speaker},to={to},t={moment},n={nonce},s={signature}"}

    def _flaw(self, request: CredentialRequest) -> str | None:
        """Say why a request is not to be admitted, as far as that can be said without what was admitted before."""
        unlike = _unlike(request.headers.get(SIGNATURE_HEADER.lower()))
        if unlike is not None:
            return unlike
        if request.url is None:
            return "this server does not know its own address; its operator has to tell it"
        told, signature = _read(request)
        if not hmac.compare_digest(self._sign(told, request.method, request.url, request.body), signature):
            return "the signature is wrong: another secret, method, path or body than the one that was signed"
        return self._misdirected(told, request.url)

    def _misdirected(self, told: _Told, url: str) -> str | None:
        """Say why a request that was truly signed is not meant for us now."""
        if told.speaker != self._speaker.value:
            return f"the request is signed as one of a {told.speaker}, and only a {self._speaker.value} asks here"
        if told.to != spelled_origin(url):
            return f"the request is signed for {told.to}, and this server goes by another address"
        if abs(self._clock() - int(told.moment)) > self._window_s:
            return f"the request was signed more than {self._window_s} seconds from now; set the clocks right"
        return None

    def _sign(self, told: _Told, method: str, url: str, body: bytes) -> str:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = ("rap-signature-2", *told, method.upper(), target, hashlib.sha256(body).hexdigest())
        return hmac.new(self._secret.encode(), "\n".join(lines).encode(), hashlib.sha256).hexdigest()

    def _is_new(self, nonce: str, now: float) -> bool:
        while self._ages and self._ages[0][0] < now - 2 * self._window_s:
            self._seen.discard(self._ages.popleft()[1])
        if nonce in self._seen:
            return False
        self._seen.add(nonce)
        self._ages.append((now, nonce))
        return True


def _unlike(header: str | None) -> str | None:
    """Say in what way a header has not the form of a signature."""
    if header is None:
        return f"the request is not signed; send {SIGNATURE_HEADER}"
    if _OLD.fullmatch(header):
        return "signatures of version 1 say neither by whom nor for whom, and are taken no more; sign by version 2"
    return None if _SIGNATURE.fullmatch(header) else f"{SIGNATURE_HEADER} is not a signature of version 2"


def _read(request: CredentialRequest) -> tuple[_Told, str]:
    """Take a signature apart that has the right form."""
    [(speaker, to, moment, nonce, signature)] = _SIGNATURE.findall(request.headers[SIGNATURE_HEADER.lower()])
    return _Told(speaker, to, moment, nonce), signature
