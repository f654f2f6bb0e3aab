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
from http import HTTPStatus
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

from agenttool.adapters.mcp.settings import McpServer, OAuthSettings
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
    """Stores the tokens of one server, for all callers or for one actor, and the registration of this client.

    The settings may have a registration. Then the file has only the authorization server that it was used with.
    """

    def __init__(self, server: McpServer, actor: str | None, client: OAuthClientInformationFull | None) -> None:
        """Take the server, the actor that the tokens belong to, and the registration of the settings."""
        self._path = path_of(server, actor)
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return (await asyncio.to_thread(self._read)).tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Replace the stored tokens."""
        await asyncio.to_thread(self._change, {"tokens": tokens})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registration."""
        stored, client = (await asyncio.to_thread(self._read)).client, self._client
        if client is None:
            return stored
        is_same = stored is not None and stored.client_id == client.client_id
        return client.model_copy(update={"issuer": client.issuer or (stored.issuer if stored and is_same else None)})

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration, without its secret if the registration is in the settings."""
        stored = client_info if self._client is None else client_info.model_copy(update={"client_secret": None})
        await asyncio.to_thread(self._change, {"client": stored})

    def _read(self) -> StoredLogin:
        with suppress(FileNotFoundError, ValidationError):  # another version may have written it
            return StoredLogin.model_validate_json(self._path.read_bytes())
        return StoredLogin()

    def _change(self, members: dict[str, object]) -> None:
        """Change members of the stored file atomically, so that a reader never sees a part of it.

        Raises:
            ConfigError: the folder cannot be written.
        """
        stored = self._read().model_copy(update=members)
        unfinished = self._path.with_suffix(f".{os.getpid()}.new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(stored.model_dump_json(exclude_none=True).encode())
            unfinished.replace(self._path)
        except OSError as error:
            raise ConfigError(f"tokens cannot be stored in {str(self._path.parent)!r}: {error.strerror}") from error


def path_of(server: McpServer, actor: str | None) -> Path:
    """Return the file of the tokens of a server and an actor; two servers never share one, whatever their names."""
    digest = sha256("\0".join((server.name, server.url or "", actor or "")).encode()).hexdigest()[:16]
    return user_file().parent / FOLDER / f"{re.sub('[^A-Za-z0-9_-]', '_', server.name)}-{digest}.json"


class Login(Protocol):
    """How a user grants access."""

    async def open(self, url: str) -> None:
        """Send the user to a page."""
        ...

    async def result(self) -> AuthorizationCodeResult:
        """Return what the page sent back."""
        ...


class TokenAuth(httpx2.Auth):
    """Sends requests with a valid token at once; other requests run the OAuth flow of the SDK.

    The SDK runs one flow at a time, until the response to its request. So a request that a server does not answer would
    delay every other request.

    If a user must log in and none is present, the request gets the server's refusal. A refused token is first renewed,
    if it can be, because the SDK does not know when a stored token expires.
    """

    def __init__(self, provider: OAuthClientProvider) -> None:
        """Take the provider of the SDK, which holds and renews the token."""
        self._provider = provider

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the request, and the requests of the flow if there is no token, or the server refused it."""
        context = self._provider.context
        if context.current_tokens is not None and context.is_token_valid():
            request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            response = yield request
            if response.status_code != HTTPStatus.UNAUTHORIZED and not _needs_scope(response):
                return
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
            context.token_expiry_time = _LONG_AGO
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
        if isinstance(self._provider, ClientCredentialsOAuthProvider):
            return  # the settings name its authorization server, and have its secret
        context = self._provider.context
        client, metadata = context.client_info, context.oauth_metadata
        if client is not None and client.issuer is None and metadata is not None and context.current_tokens is not None:
            client.issuer = str(metadata.issuer)
            await context.storage.set_client_info(client)


def _needs_scope(response: httpx2.Response) -> bool:
    """Return whether a server requires a token with more scopes."""
    is_forbidden = response.status_code == HTTPStatus.FORBIDDEN
    return is_forbidden and "insufficient_scope" in response.headers.get("www-authenticate", "")


class LoginNeeded(OAuthFlowError):
    """A user must log in, and there is none."""


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log record of the SDK is about something other than a required login."""
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
    server: McpServer, settings: OAuthSettings, actor: str | None, client_secret: str | None, login: Login | None
) -> httpx2.Auth:
    """Return how requests to a server are authorized.

    Raises:
        ConfigError: the settings of OAuth are incomplete.
    """
    url, redirect = server.url or "", AnyUrl(settings.redirect_url or DEFAULT_REDIRECT)
    if settings.grant == "client_credentials":
        if settings.client_id is None or client_secret is None or settings.issuer is None:
            raise ConfigError("oauth with client_credentials needs client_id, client_secret and issuer; write them")
        machine = ClientCredentialsOAuthProvider(
            url,
            TokenFile(server, actor, None),
            settings.client_id,
            client_secret,
            scope=settings.scope,
            issuer=settings.issuer,
            token_endpoint_auth_method=settings.auth_method,
        )
        return TokenAuth(machine)
    registered = settings.client_id and OAuthClientInformationFull(
        client_id=settings.client_id,
        client_secret=client_secret,
        issuer=settings.issuer,
        redirect_uris=[redirect],
        token_endpoint_auth_method="none" if client_secret is None else settings.auth_method,
    )
    metadata = OAuthClientMetadata(
        client_name="agenttool",
        redirect_uris=[redirect],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=settings.scope,
    )
    provider = OAuthClientProvider(
        url,
        metadata,
        TokenFile(server, actor, registered or None),
        _refuse_login if login is None else login.open,
        _refuse_login if login is None else login.result,
        client_metadata_url=settings.client_metadata_url,
    )
    return TokenAuth(provider)
