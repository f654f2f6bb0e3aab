"""Authorization by OAuth 2 with PKCE: the user grants; we exchange, keep and refresh, and tell nobody a token."""

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

from agenttool.adapters.rap.connections import Terms
from agenttool.adapters.rap.courier import Courier
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import ConfigError, RecordError
from agenttool.rap.keeping import grants
from agenttool.rap.keeping.store import Store
from agenttool.rap.outcome import Declined
from agenttool.records import JsonObject

OAUTH_PATH = "/oauth/"
EARLY_S = 60.0
"""A token that ends so soon counts as ended."""

_log = logging.getLogger(__name__)

_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED)
"""What an authorization server answers if a grant does not hold; anything else says nothing about the grant."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Cipher(Protocol):
    """What makes bytes unreadable for others, and readable again, such as `cryptography.fernet.Fernet(key)`."""

    def encrypt(self, data: bytes) -> bytes:
        """Make bytes unreadable."""
        ...

    def decrypt(self, token: bytes) -> bytes:
        """Give them back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """This provider as a client of somebody's authorization server; ask for the least scope that will do."""

    name: str
    authorize_url: str
    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse addresses that a code could be read at.

        Raises:
            ConfigError: one of them is not `https`.
        """
        token = urlsplit(self.token_url)
        is_safe = token.scheme == "https" or token.hostname in _LOOPBACK
        if urlsplit(self.authorize_url).scheme != "https" or not is_safe:
            raise ConfigError(f"the URLs of OAuth client {self.name!r} must use https; correct them")

    def page_for(self, *, state: str, verifier: str, redirect_uri: str) -> str:
        """Give the address of the page where the user grants."""
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
class Pending:
    """An authorization under way: what only we know of it."""

    client: str
    user_id: str
    verifier: str
    redirect_uri: str

    @classmethod
    def new(cls, client: OAuthClient, user_id: str, redirect_uri: str) -> "Pending":
        """Begin one."""
        return cls(client=client.name, user_id=user_id, verifier=secrets.token_urlsafe(48), redirect_uri=redirect_uri)

    def spelled(self) -> str:
        """Write it for the store."""
        return json_bytes([self.client, self.user_id, self.verifier, self.redirect_uri]).decode()

    @classmethod
    def of(cls, spelled: str) -> "Pending":
        """Read what `spelled` wrote."""
        client, user_id, verifier, redirect_uri = (str(each) for each in _list(spelled))
        return cls(client=client, user_id=user_id, verifier=verifier, redirect_uri=redirect_uri)


class Grants:
    """The tokens that users granted."""

    def __init__(
        self, store: Store, courier: Courier, clients: dict[str, OAuthClient], cipher: Cipher | None = None
    ) -> None:
        """Take where tokens are kept, by which cipher, and who exchanges codes."""
        self._store = store
        self._cipher = cipher
        self._courier = courier
        self.clients = clients
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def token(self, client: OAuthClient, user_id: str) -> str | None:
        """Give a token that holds, refreshed if need be; none if the user has to grant it anew.

        One call at a time looks: a refresh token that comes twice counts as stolen, and the grant would be lost.

        Raises:
            ToolFailure: it has to be refreshed, and whoever refreshes it is away.
        """
        turn = self._turns.setdefault((client.name, user_id), asyncio.Lock())
        async with turn:
            tokens = await self._kept(client, user_id)
            while tokens is not None and _is_over(tokens):
                tokens = await self._refreshed(client, user_id, tokens)
        return None if tokens is None else _text(tokens, "access_token")

    async def _kept(self, client: OAuthClient, user_id: str) -> JsonObject | None:
        kept = await self._store.perform(grants.find, client.name, user_id)
        if kept is None:
            return None
        try:
            return parse_object(kept if self._cipher is None else self._cipher.decrypt(kept))
        except Exception as error:  # noqa: BLE001 -- a cipher has errors of its own; the user grants anew
            _log.warning("a grant for %r cannot be read any more: %s", client.name, type(error).__name__)
            return None

    async def _refreshed(self, client: OAuthClient, user_id: str, tokens: JsonObject) -> JsonObject | None:
        """Refresh tokens and give the new ones; none if that was refused, and then the grant is gone.

        Raises:
            ToolFailure: nobody refused it, and it did not work; the grant stays.
        """
        refresh = _text(tokens, "refresh_token")
        form = {"grant_type": "refresh_token", "refresh_token": refresh or ""}
        status = None if refresh is None else await self._exchange(client, user_id, form, tokens)
        if refresh is None or status in _REFUSED:
            await self._store.perform(grants.drop, client.name, user_id)
            return None
        if status != HTTPStatus.OK:
            _log.warning("a grant for %r could not be refreshed: %s", client.name, status or "nobody answered")
            raise Declined("the authorization cannot be renewed now; call again later")
        return await self._kept(client, user_id)

    async def redeem(self, pending: Pending, code: str) -> bool:
        """Exchange a code for tokens and keep them; tell whether that worked."""
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
        """Ask for tokens and keep them; gives 200 if that worked, else what was answered instead, if anything."""
        form = {**form, "client_id": client.client_id}
        if client.client_secret is not None:
            form["client_secret"] = client.client_secret
        body, once = urlencode(form).encode(), Terms(only_once=True)  # a code that comes twice counts as stolen
        reply = await self._courier.post(client.token_url, body, _FORM, max_bytes=100_000, terms=once)
        try:
            told = parse_object(reply.body) if reply.is_accepted else {}
        except RecordError:
            told = {}
        token, lasts_s = _text(told, "access_token"), told.get("expires_in")
        if token is None:
            return None if reply.is_accepted else reply.status
        kept: JsonObject = {
            "access_token": token,
            "refresh_token": told.get("refresh_token", before.get("refresh_token")),
        }
        if isinstance(lasts_s, int | float):
            kept["expires_at"] = time.time() + max(lasts_s, 2 * EARLY_S)  # at least as long as it takes to use it
        plain = json_bytes(kept)
        sealed = plain if self._cipher is None else self._cipher.encrypt(plain)
        await self._store.perform(grants.keep, client.name, user_id, sealed)
        return HTTPStatus.OK


def _is_over(tokens: JsonObject) -> bool:
    ends_at = tokens.get("expires_at")
    return isinstance(ends_at, int | float) and ends_at <= time.time() + EARLY_S


def _text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) and value else None


def _list(spelled: str) -> list[object]:
    value = parse_object(f'{{"list":{spelled}}}')["list"]
    return list(value) if isinstance(value, list) else []
