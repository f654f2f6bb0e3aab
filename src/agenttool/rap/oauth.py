"""OAuth 2 with PKCE for tools: tokens are requested, stored and refreshed, and never sent to a runtime."""

import asyncio
import base64
import hashlib
import logging
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit
from weakref import WeakValueDictionary

import msgspec
from msgspec import Meta, Struct

from agenttool.codec import read_own, write_own
from agenttool.errors import ConfigError
from agenttool.http.client import HttpClient, RequestOptions
from agenttool.rap import tables
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import Declined

OAUTH_PATH = "/oauth/"
EXPIRY_MARGIN_S = 60.0
"""A token that expires within this time counts as expired."""

_log = logging.getLogger(__name__)

_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_REJECTED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)
"""The statuses by which an authorization server rejects a grant; other failures are temporary."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Cipher(Protocol):
    """Encrypts and decrypts stored tokens, such as `cryptography.fernet.Fernet(key)`."""

    def encrypt(self, data: bytes) -> bytes:
        """Return the encrypted bytes."""
        ...

    def decrypt(self, token: bytes) -> bytes:
        """Return the decrypted bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """This provider as a client of an authorization server; request the smallest scope that is enough."""

    name: str
    authorize_url: str
    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject URLs without TLS.

        Raises:
            ConfigError: one of them is not `https`.
        """
        token = urlsplit(self.token_url)
        is_safe = token.scheme == "https" or token.hostname in _LOOPBACK
        if urlsplit(self.authorize_url).scheme != "https" or not is_safe:
            raise ConfigError(f"the URLs of OAuth client {self.name!r} must use https; correct them")

    def page_for(self, *, state: str, verifier: str, redirect_uri: str) -> str:
        """Return the URL of the page where the user grants the authorization."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(self.scopes),
                "state": state,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{self.authorize_url}{'&' if '?' in self.authorize_url else '?'}{query}"


class PendingAuthorization(NamedTuple):
    """The private data of an authorization that a user has not answered yet."""

    client: str
    owner: str
    verifier: str
    redirect_uri: str


class Tokens(Struct):
    """The stored tokens of a user."""

    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the access token must be refreshed before it is used."""
        return self.expires_at is not None and self.expires_at <= time.time() + EXPIRY_MARGIN_S


class TokenResponse(Struct):
    """What an authorization server returns for a grant, as far as it is used."""

    access_token: Annotated[str, Meta(min_length=1)]
    refresh_token: str | None = None
    expires_in: float | None = None


@dataclass(slots=True, eq=False)
class GrantStore:
    """The tokens that users granted; without a cipher they are stored in clear."""

    store: ProviderStore
    http: HttpClient
    clients: dict[str, OAuthClient]
    cipher: Cipher | None
    _locks: "WeakValueDictionary[tuple[str, str], asyncio.Lock]" = field(default_factory=WeakValueDictionary)

    async def token(self, client: OAuthClient, user_id: str) -> str | None:
        """Return a valid access token, refreshed if necessary; None if the user must grant it again.

        Refreshes of one user are serialized: a refresh token that is used twice counts as stolen and ends the grant.

        Raises:
            ToolFailure: it must be refreshed, and the authorization server is not available.
        """
        async with self._locks.setdefault((client.name, user_id), asyncio.Lock()):
            tokens = await self._load(client, user_id)
            while tokens is not None and tokens.is_expired:
                tokens = await self._refresh(client, user_id, tokens)
        return tokens and tokens.access_token

    async def _load(self, client: OAuthClient, user_id: str) -> Tokens | None:
        stored = await self.store.run(tables.find_grant, client.name, user_id)
        if stored is None:
            return None
        try:
            return read_own(stored if self.cipher is None else self.cipher.decrypt(stored), Tokens)
        except Exception as error:  # noqa: BLE001 -- a cipher raises its own errors; the user grants again
            _log.warning("a stored grant for %r cannot be read: %s", client.name, type(error).__name__)
            return None

    async def _refresh(self, client: OAuthClient, user_id: str, tokens: Tokens) -> Tokens | None:
        """Refresh tokens and return the new ones; None if the grant was rejected, which deletes it.

        Raises:
            ToolFailure: the refresh failed for another reason; the grant stays.
        """
        refresh = tokens.refresh_token
        form = {"grant_type": "refresh_token", "refresh_token": refresh or ""}
        status = await self._exchange(client, user_id, form, refresh) if refresh else None
        if not refresh or status in _REJECTED:
            await self.store.run(tables.delete_grant, client.name, user_id)
            return None
        if status != HTTPStatus.OK:
            _log.warning("a grant for %r could not be refreshed: %s", client.name, status or "no response")
            raise Declined("the authorization cannot be renewed now; call again later")
        return await self._load(client, user_id)

    async def redeem(self, pending: PendingAuthorization, code: str) -> bool:
        """Exchange a code for tokens and store them; return whether that succeeded."""
        client = self.clients.get(pending.client)
        if client is None:
            return False
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
        }
        return await self._exchange(client, pending.owner, form) == HTTPStatus.OK

    async def _exchange(
        self, client: OAuthClient, user_id: str, form: dict[str, str], refresh: str | None = None
    ) -> int | None:
        """Request tokens and store them; return 200, or the status of the failure, or None without one."""
        form = {**form, "client_id": client.client_id}
        if client.client_secret is not None:
            form["client_secret"] = client.client_secret
        body, options = urlencode(form).encode(), RequestOptions(send_once=True)  # a code used twice counts as stolen
        reply = await self.http.post(client.token_url, body, _FORM, max_bytes=100_000, options=options)
        if not reply.is_accepted:
            return reply.status
        try:
            answer = msgspec.json.decode(reply.body, type=TokenResponse, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        tokens = Tokens(answer.access_token, answer.refresh_token or refresh)
        if answer.expires_in is not None:  # long enough to use it once
            tokens.expires_at = time.time() + max(answer.expires_in, 2 * EXPIRY_MARGIN_S)
        plain = write_own(tokens)
        encrypted = plain if self.cipher is None else self.cipher.encrypt(plain)
        await self.store.run(tables.store_grant, client.name, user_id, encrypted)
        return HTTPStatus.OK
