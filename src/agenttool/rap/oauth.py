"""OAuth 2 with PKCE for tools: tokens are requested, stored and refreshed, and never sent to a runtime."""

import asyncio
import base64
import hashlib
import logging
import secrets
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlencode, urlsplit
from weakref import WeakValueDictionary

from agenttool.adapters.rap.http_client import HttpClient, RequestOptions
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import ConfigError, RecordError
from agenttool.rap import tables
from agenttool.rap.store import ProviderStore
from agenttool.rap.tool_api import Declined
from agenttool.records import JsonObject

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAuthorization:
    """The private data of an authorization that a user has not answered yet."""

    client: str
    user_id: str
    verifier: str
    redirect_uri: str

    @classmethod
    def new(cls, client: OAuthClient, user_id: str, redirect_uri: str) -> "PendingAuthorization":
        """Return a new one with a fresh code verifier."""
        return cls(client=client.name, user_id=user_id, verifier=secrets.token_urlsafe(48), redirect_uri=redirect_uri)

    def encode(self) -> str:
        """Return the text for the store."""
        return json_bytes([self.client, self.user_id, self.verifier, self.redirect_uri]).decode()

    @classmethod
    def decode(cls, encoded: str) -> "PendingAuthorization":
        """Return what `encode` wrote."""
        client, user_id, verifier, redirect_uri = (str(each) for each in _decode_list(encoded))
        return cls(client=client, user_id=user_id, verifier=verifier, redirect_uri=redirect_uri)


class GrantStore:
    """The tokens that users granted."""

    def __init__(
        self,
        store: ProviderStore,
        http: HttpClient,
        clients: dict[str, OAuthClient],
        cipher: Cipher | None = None,
    ) -> None:
        """Take the store, the HTTP client, the OAuth clients, and the cipher of stored tokens."""
        self._store = store
        self._cipher = cipher
        self._http = http
        self.clients = clients
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def token(self, client: OAuthClient, user_id: str) -> str | None:
        """Return a valid access token, refreshed if necessary; None if the user must grant it again.

        Refreshes of one user are serialized: a refresh token that is used twice counts as stolen and ends the grant.

        Raises:
            ToolFailure: it must be refreshed, and the authorization server is not available.
        """
        async with self._locks.setdefault((client.name, user_id), asyncio.Lock()):
            tokens = await self._load(client, user_id)
            while tokens is not None and _is_expired(tokens):
                tokens = await self._refresh(client, user_id, tokens)
        return None if tokens is None else _text(tokens, "access_token")

    async def _load(self, client: OAuthClient, user_id: str) -> JsonObject | None:
        stored = await self._store.run(tables.find_grant, client.name, user_id)
        if stored is None:
            return None
        try:
            return parse_object(stored if self._cipher is None else self._cipher.decrypt(stored))
        except Exception as error:  # noqa: BLE001 -- a cipher raises its own errors; the user grants again
            _log.warning("a stored grant for %r cannot be read: %s", client.name, type(error).__name__)
            return None

    async def _refresh(self, client: OAuthClient, user_id: str, tokens: JsonObject) -> JsonObject | None:
        """Refresh tokens and return the new ones; None if the grant was rejected, which deletes it.

        Raises:
            ToolFailure: the refresh failed for another reason; the grant stays.
        """
        refresh = _text(tokens, "refresh_token")
        form = {"grant_type": "refresh_token", "refresh_token": refresh or ""}
        status = None if refresh is None else await self._exchange(client, user_id, form, tokens)
        if refresh is None or status in _REJECTED:
            await self._store.run(tables.delete_grant, client.name, user_id)
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
        return await self._exchange(client, pending.user_id, form, {}) == HTTPStatus.OK

    async def _exchange(
        self, client: OAuthClient, user_id: str, form: dict[str, str], before: JsonObject
    ) -> int | None:
        """Request tokens and store them; return 200, or the status of the failure, or None without one."""
        form = {**form, "client_id": client.client_id}
        if client.client_secret is not None:
            form["client_secret"] = client.client_secret
        body, options = urlencode(form).encode(), RequestOptions(send_once=True)  # a code used twice counts as stolen
        reply = await self._http.post(client.token_url, body, _FORM, max_bytes=100_000, options=options)
        try:
            answer = parse_object(reply.body) if reply.is_accepted else {}
        except RecordError:
            answer = {}
        token, expires_in_s = _text(answer, "access_token"), answer.get("expires_in")
        if token is None:
            return None if reply.is_accepted else reply.status
        tokens: JsonObject = {
            "access_token": token,
            "refresh_token": answer.get("refresh_token", before.get("refresh_token")),
        }
        if isinstance(expires_in_s, int | float):
            tokens["expires_at"] = time.time() + max(expires_in_s, 2 * EXPIRY_MARGIN_S)  # long enough to use it once
        plain = json_bytes(tokens)
        encrypted = plain if self._cipher is None else self._cipher.encrypt(plain)
        await self._store.run(tables.store_grant, client.name, user_id, encrypted)
        return HTTPStatus.OK


def _is_expired(tokens: JsonObject) -> bool:
    expires_at = tokens.get("expires_at")
    return isinstance(expires_at, int | float) and expires_at <= time.time() + EXPIRY_MARGIN_S


def _text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) and value else None


def _decode_list(encoded: str) -> list[object]:
    value = parse_object(f'{{"list":{encoded}}}')["list"]
    return list(value) if isinstance(value, list) else []
