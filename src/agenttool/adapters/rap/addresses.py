"""Callback URLs: one for each call, which nobody can guess, make or use for another call, and which expire."""

import hmac
from dataclasses import dataclass

from agenttool.ports.stores import DocumentStore
from agenttool.records import ClosedEnum, InvocationId

_UNIQUE, _SEAL, _MARK = 32, 32, 16

DAY_NS = 24 * 3600 * 10**9
LIFETIME_NS = 30 * DAY_NS
"""How long a callback URL is good for; a subscription that lasts longer is opened anew."""

PATH = "/rap/callbacks"
_SHELF = "rap.secret"


class Flawed(ClosedEnum):
    """Why a callback URL leads nowhere."""

    FORGED = "forged"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Makes and reads the tokens of callback URLs.

    A token names its call, is sealed by a secret of this store, and carries a mark of the call's thread. When it was
    made is part of the call's id, so the same call always has the same URL, also when it is sent again after a crash.
    """

    base: str
    secret: bytes
    lifetime_ns: int = LIFETIME_NS

    def url(self, invocation_id: InvocationId, thread_id: str) -> str:
        """Give the URL for the callbacks of one call."""
        unique = invocation_id.partition("_")[2]
        return f"{self.base.rstrip('/')}/{unique}{self._seal('call', unique)}{self._mark(unique, thread_id)}"

    def read(self, token: str, now_ns: int) -> InvocationId | Flawed:
        """Tell which call a token is for; a forged one is found out before anything else is looked at."""
        unique, seal = token[:_UNIQUE], token[_UNIQUE : _UNIQUE + _SEAL]
        if len(token) != _UNIQUE + _SEAL + _MARK or not token.isascii():
            return Flawed.FORGED
        if not hmac.compare_digest(seal, self._seal("call", unique)):
            return Flawed.FORGED
        call = InvocationId("inv_" + unique)
        return Flawed.EXPIRED if now_ns > self.expires_at_ns(call) else call

    def expires_at_ns(self, invocation_id: InvocationId) -> int:
        """Tell until when the URL of a call is good: an id begins with its moment, in milliseconds."""
        return int(invocation_id.partition("_")[2][:12], 16) * 1_000_000 + self.lifetime_ns

    def is_of(self, token: str, thread_id: str) -> bool:
        """Tell whether a token that was read is for a call of this thread."""
        return hmac.compare_digest(token[_UNIQUE + _SEAL :], self._mark(token[:_UNIQUE], thread_id))

    def proof(self, word: str) -> str:
        """Say something to a word that only a process of the same store can, and only about this place."""
        return self._seal("place", self.base, word)

    def _seal(self, purpose: str, *words: str) -> str:
        told = "\0".join((purpose, *words)).encode(errors="surrogatepass")
        return hmac.digest(self.secret, told, "sha256").hex()[:_SEAL]

    def _mark(self, unique: str, thread_id: str) -> str:
        return self._seal("thread", unique, thread_id)[:_MARK]


async def secret_of(shelf: DocumentStore, fresh: bytes) -> bytes:
    """Give the secret of a store; the first process that needs one makes it."""
    await shelf.swap(_SHELF, "callbacks", before=None, after=fresh)
    return await shelf.get(_SHELF, "callbacks") or fresh
