"""OAuth 2.1 for servers with a URL: how requests are authorized, and how a user logs in.

The SDK implements the protocol: discovery, client id metadata documents and registration, PKCE, the `iss` check,
resource indicators, refresh and step-up. A runtime uses stored tokens and renews them. Only `agenttool sources login`
sends a user to a page.

Tokens are files beside the user's settings, one for each server and actor, which only this user reads.
"""

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NoReturn, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from agenttool.adapters.mcp.settings import McpServer
from agenttool.config.layers import user_file
from agenttool.errors import ConfigError

DEFAULT_REDIRECT = "http://127.0.0.1:8649/callback"
"""Where a login returns to, if the settings name no other place."""

FOLDER = "mcp-tokens"
"""The folder of the token files, beside the user's settings file."""

_LONG_AGO = 1.0
"""The time at which a token that was refused is taken to have expired."""


class StoredLogin(BaseModel):
    """The content of one token file."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None


class TokenFile(TokenStorage):
    """Stores the tokens of one server, for all callers or for one actor, and the registration of this client."""

    def __init__(self, server: McpServer, actor: str | None) -> None:
        """Take the server, and the actor that the tokens belong to."""
        self.path = path_of(server, actor)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return (await asyncio.to_thread(self._read)).tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Replace the stored tokens."""
        await asyncio.to_thread(self._change, {"tokens": tokens})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the stored registration."""
        return (await asyncio.to_thread(self._read)).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        await asyncio.to_thread(self._change, {"client": client_info})

    def _read(self) -> StoredLogin:
        with suppress(FileNotFoundError, ValidationError):  # another version may have written it
            return StoredLogin.model_validate_json(self.path.read_bytes())
        return StoredLogin()

    def _change(self, members: dict[str, object]) -> None:
        """Change members of the stored file atomically, so that a reader never sees a part of it.

        Raises:
            ConfigError: the folder cannot be written.
        """
        stored = self._read().model_copy(update=members)
        unfinished = self.path.with_suffix(f".{os.getpid()}.new")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(stored.model_dump_json(exclude_none=True).encode())
            unfinished.replace(self.path)
        except OSError as error:
            raise ConfigError(f"tokens cannot be stored in {str(self.path.parent)!r}: {error.strerror}") from error


def path_of(server: McpServer, actor: str | None) -> Path:
    """Return the file of the tokens of a server and an actor; two servers never share one, whatever their names."""
    digest = sha256("\0".join((server.name, server.url or "", actor or "")).encode()).hexdigest()[:16]
    return user_file().parent / FOLDER / f"{re.sub('[^A-Za-z0-9_-]', '_', server.name)}-{digest}.json"


class FixedClient(TokenStorage):
    """Stores tokens, and returns the registration of the settings."""

    def __init__(self, storage: TokenStorage, client: OAuthClientInformationFull) -> None:
        """Take the storage of the tokens, and the registration."""
        self.get_tokens, self.set_tokens = storage.get_tokens, storage.set_tokens
        self._storage = storage
        self._client = client

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration of the settings, with the authorization server that it was used with."""
        stored = await self._storage.get_client_info()
        is_same = stored is not None and stored.client_id == self._client.client_id
        issuer = stored.issuer if stored is not None and is_same else None
        return self._client.model_copy(update={"issuer": self._client.issuer or issuer})

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store which authorization server the registration belongs to; the settings have its secret."""
        await self._storage.set_client_info(client_info.model_copy(update={"client_secret": None}))


class Login(Protocol):
    """How a user grants access."""

    async def open(self, url: str) -> None:
        """Send the user to a page."""
        ...

    async def result(self) -> AuthorizationCodeResult:
        """Return what the page sent back."""
        ...


class QuietAuth(httpx2.Auth):
    """Applies OAuth; if a user must log in and none is present, the request gets the server's refusal.

    The SDK does not know when a stored token expires. So a refused token is renewed first, if it can be.
    """

    requires_response_body = True

    def __init__(self, provider: OAuthClientProvider) -> None:
        """Take the provider of the SDK."""
        self._provider = provider

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests of the flow."""
        is_renewed = False
        while True:
            flow = self._provider.async_auth_flow(request)
            try:
                outgoing = await flow.__anext__()
                while True:
                    response = yield outgoing
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                await self._bind_client()
                return
            except LoginNeeded:
                if is_renewed or not self._can_renew:
                    break
            finally:
                await flow.aclose()
            is_renewed = True
            self._provider.context.token_expiry_time = _LONG_AGO
        yield request  # the response to the latest request is the answer, and must be the server's refusal

    @property
    def _can_renew(self) -> bool:
        """Whether the refused token has a refresh token, for the authorization server that is named now."""
        context = self._provider.context
        client, metadata = context.client_info, context.oauth_metadata
        if client is None or client.issuer is None or metadata is None or not context.can_refresh_token():
            return False
        return issuers_match(client.issuer, str(metadata.issuer))

    async def _bind_client(self) -> None:
        """Record which authorization server a client of the settings belongs to, after its first login."""
        context = self._provider.context
        client, metadata = context.client_info, context.oauth_metadata
        if client is not None and client.issuer is None and metadata is not None and context.current_tokens is not None:
            client.issuer = str(metadata.issuer)
            await context.storage.set_client_info(client)


class LoginNeeded(OAuthFlowError):
    """A user must log in, and there is none."""


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log record of the SDK is about something else than a login that is needed."""
    return record.exc_info is None or not isinstance(record.exc_info[1], LoginNeeded)


logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_news)


async def _refuse_login(*_: str) -> NoReturn:
    """Refuse, because no user is at hand.

    Raises:
        LoginNeeded: always.
    """
    raise LoginNeeded("a user must log in")


class LoopbackLogin:
    """Shows a user the page to open, and receives what the page sends back on a port of this machine."""

    def __init__(self, server: McpServer, show: Callable[[str], None]) -> None:
        """Take the settings, and what shows a URL to the user."""
        settings = server.oauth
        self._redirect = urlsplit((settings and settings.redirect_url) or DEFAULT_REDIRECT)
        self._show = show
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._listener: asyncio.Server | None = None

    async def open(self, url: str) -> None:
        """Listen, and show the page.

        Raises:
            ConfigError: the port is in use.
        """
        self._answer = asyncio.get_running_loop().create_future()
        host, port = self._redirect.hostname, self._redirect.port
        try:
            self._listener = await asyncio.start_server(self._receive, host, port)
        except OSError as error:
            raise ConfigError(f"port {port} of {host} is in use: {error}; set redirect_url in oauth") from error
        self._show(url)

    async def result(self) -> AuthorizationCodeResult:
        """Return what the page sent back, and stop listening.

        Raises:
            LoginNeeded: the user, or the page, refused.
        """
        if self._answer is None or self._listener is None:
            raise LoginNeeded("no login was started")
        try:
            return await self._answer
        finally:
            self._listener.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode("latin-1")
        target = urlsplit(line.split(" ")[1] if line.count(" ") > 1 else "")
        found = {name: values[0] for name, values in parse_qs(target.query).items()}
        is_answer = target.path == self._redirect.path and ("code" in found or "error" in found)
        text = "You can close this page." if is_answer else "This is not the page that a login returns to."
        status = "200 OK" if is_answer else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close"
        writer.write(f"{head}\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()
        if is_answer and self._answer is not None and not self._answer.done():
            if "code" in found:
                answer = AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
                self._answer.set_result(answer)
            else:
                self._answer.set_exception(LoginNeeded(f"the login was refused: {found['error']}"))


def make_auth(
    server: McpServer, storage: TokenStorage, client_secret: str | None, login: Login | None = None
) -> httpx2.Auth | None:
    """Return how requests to a server are authorized; None if it needs no OAuth.

    Raises:
        ConfigError: the settings of OAuth are incomplete.
    """
    settings, url = server.oauth, server.url or ""
    if settings is None:
        return None
    if settings.grant == "client_credentials":
        if settings.client_id is None or client_secret is None or settings.issuer is None:
            raise ConfigError("oauth with client_credentials needs client_id, client_secret and issuer; write them")
        return ClientCredentialsOAuthProvider(
            url,
            storage,
            settings.client_id,
            client_secret,
            scope=settings.scope,
            issuer=settings.issuer,
            token_endpoint_auth_method=settings.auth_method,
        )
    redirect = settings.redirect_url or DEFAULT_REDIRECT
    if settings.client_id is not None:
        storage = FixedClient(
            storage,
            OAuthClientInformationFull(
                client_id=settings.client_id,
                client_secret=client_secret,
                issuer=settings.issuer,
                redirect_uris=[AnyUrl(redirect)],
                token_endpoint_auth_method="none" if client_secret is None else settings.auth_method,
            ),
        )
    metadata = OAuthClientMetadata(
        client_name="agenttool",
        redirect_uris=[AnyUrl(redirect)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=settings.scope,
    )
    provider = OAuthClientProvider(
        url,
        metadata,
        storage,
        _refuse_login if login is None else login.open,
        _refuse_login if login is None else login.result,
        client_metadata_url=settings.client_metadata_url,
    )
    return QuietAuth(provider)
