"""Callback URLs: how they are made and verified, and which address the processes of one store share.

A call that is sent again after a crash must be byte-identical, and its callback URL is part of it: a server treats
another URL as another call. So all processes of a store use one callback address, which the store records. Two
addresses could make a server run one call twice.
"""

import hmac
import secrets
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from starlette.responses import JSONResponse

from agenttool.errors import ConfigError
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.ports.stores import DocumentStore
from agenttool.records import InvocationId

_UNIQUE, _SEAL, _MARK = 32, 32, 16

DAY_NS = 24 * 3600 * 10**9
LIFETIME_NS = 30 * DAY_NS
"""How long a callback URL is valid; a subscription that lasts longer must be opened again."""

PATH = "/rap/callbacks"
_SECRET_KIND = "rap.secret"  # noqa: S105 -- the kind of a document
_ADDRESS_KIND, _ADDRESS_KEY = "rap_address", "served"

STARTUP_TIMEOUT_S = 10.0
"""How long to wait for another process, which accepts connections before it answers them."""


@dataclass(frozen=True, slots=True)
class CallbackUrls:
    """Makes and verifies the tokens of callback URLs.

    A token contains the unique part of the call's id, a seal made with a secret of the store, and a mark of the call's
    thread. The id contains its creation time, so a call has the same URL whenever it is sent.
    """

    base: str
    secret: bytes
    lifetime_ns: int = LIFETIME_NS

    def url(self, invocation_id: InvocationId, thread_id: str) -> str:
        """Return the URL for the callbacks of one call."""
        unique = invocation_id.partition("_")[2]
        return f"{self.base.rstrip('/')}/{unique}{self._seal('call', unique)}{self._mark(unique, thread_id)}"

    def verify(self, token: str) -> InvocationId | None:
        """Return the call of a token; None if it is forged. The seal is verified before anything else is read."""
        unique, seal = token[:_UNIQUE], token[_UNIQUE : _UNIQUE + _SEAL]
        has_form = len(token) == _UNIQUE + _SEAL + _MARK and token.isascii()
        is_valid = has_form and hmac.compare_digest(seal, self._seal("call", unique))
        return InvocationId("inv_" + unique) if is_valid else None

    def expires_at_ns(self, invocation_id: InvocationId) -> int:
        """Return when the URL of a call expires; an id begins with its creation time in milliseconds."""
        return int(invocation_id.partition("_")[2][:12], 16) * 1_000_000 + self.lifetime_ns

    def belongs_to_thread(self, token: str, thread_id: str) -> bool:
        """Return whether a verified token is for a call of this thread."""
        return hmac.compare_digest(token[_UNIQUE + _SEAL :], self._mark(token[:_UNIQUE], thread_id))

    def proof(self, challenge: str) -> str:
        """Return the response to a challenge; only a process of the same store can make it, for this base only."""
        return self._seal("place", self.base, challenge)

    def _seal(self, purpose: str, *values: str) -> str:
        message = "\0".join((purpose, *values)).encode(errors="surrogatepass")
        return hmac.digest(self.secret, message, "sha256").hex()[:_SEAL]

    def _mark(self, unique: str, thread_id: str) -> str:
        return self._seal("thread", unique, thread_id)[:_MARK]


async def load_secret(documents: DocumentStore, fresh: bytes) -> bytes:
    """Return the secret of a store; the first process that needs one stores `fresh`."""
    await documents.swap(_SECRET_KIND, "callbacks", before=None, after=fresh)
    return await documents.get(_SECRET_KIND, "callbacks") or fresh


async def claim_address(documents: DocumentStore, own: CallbackUrls) -> str | None:
    """Record where callbacks of a store arrive; return the previous address if it was another.

    Raises:
        ConfigError: another process of the store is running and uses another address.
    """
    while True:
        stored = await documents.get(_ADDRESS_KIND, _ADDRESS_KEY)
        before = None if stored is None else stored.decode()
        if before == own.base:
            return None
        if before is not None and await is_served(replace(own, base=before), STARTUP_TIMEOUT_S):
            raise ConfigError(
                f"another process of this store receives callbacks at {before}, and this one would at {own.base}: a"
                " call that both send could run twice; give both the same --url or [server] url, or stop the other"
            )
        if await documents.swap(_ADDRESS_KIND, _ADDRESS_KEY, before=stored, after=own.base.encode()):
            return before


async def find_claimed(documents: DocumentStore, own: CallbackUrls) -> CallbackUrls | None:
    """Return the recorded callback URLs of a store if a process serves them; None otherwise."""
    stored = await documents.get(_ADDRESS_KIND, _ADDRESS_KEY)
    if stored is None:
        return None
    urls = replace(own, base=stored.decode())
    return urls if urls.base == own.base or await is_served(urls, STARTUP_TIMEOUT_S) else None


async def is_served(urls: CallbackUrls, timeout_s: float) -> bool:
    """Return whether a process of the same store answers at an address, verified by a challenge."""
    challenge = secrets.token_hex(16)
    client = HttpClient(SsrfPolicy.parse([urlsplit(urls.base).hostname or ""]), timeout_s=timeout_s)
    try:
        reply = await client.get(f"{urls.base}/{challenge}", max_bytes=1000)
    finally:
        await client.close()
    return reply.is_accepted and hmac.compare_digest(reply.body, JSONResponse({"proof": urls.proof(challenge)}).body)
