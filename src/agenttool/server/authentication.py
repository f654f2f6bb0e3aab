"""Authentication of requests: by API key, JWT or console session, or as a program on this machine."""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import cookie_parser
from starlette.types import Scope

from agenttool.adapters.rap.credentials import Bearer, CredentialRequest
from agenttool.http.request_guard import parse_host
from agenttool.ports.identity import LOCAL, AccessRole, IdentityKind, Principal
from agenttool.ports.quota import OwnedEntries
from agenttool.server.grants import AccessGrants, Grant, GrantKind
from agenttool.server.problem import Problem
from agenttool.server.protected_resource import AuthorizationServer

CACHED_S = 1.0
"""How long a check of credentials is cached; a revocation by another process takes effect after that."""

MAX_CACHED = 10_000

SECURE_COOKIE = "__Host-agenttool"
"""The cookie of a server with TLS; browsers accept its prefix only with TLS, and only for one host."""

PAGE_KEY_HEADER = "agenttool-page-key"
PAGE_KEY_LENGTH = 22
"""The page has the last 132 bits of the 256 bits of a session's secret."""

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
_PROXY_HEADER_PREFIX = "x-forwarded-"
_PROXY_HTTP_VERSION = "1.0"
"""nginx forwards requests with HTTP/1.0 by default; current clients do not use it."""

_SESSION_PREFIX = f"{GrantKind.SESSION.value}_"
_SAFE_METHODS = ("GET", "HEAD")
_WRONG = (
    "the credentials are not valid (any more); log in again, or create a key with `agenttool keys add` and send it as"
    " Authorization: Bearer KEY"
)
_MISSING = "this server requires a key: send Authorization: Bearer KEY; create one with `agenttool keys add`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The principal of a request, with its credentials.

    Attributes:
        grant: the key or session; None for other credentials.
        expires_at_s: when the credentials expire, in seconds since 1970; None if they do not.
    """

    principal: Principal
    grant: Grant | None = None
    expires_at_s: float | None = None


VerifyToken = Callable[[str], Awaitable[Identity]]
"""Returns the identity of a JWT, or raises `Problem`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The settings of a server that are not those of its runtime.

    Attributes:
        url: the URL at which clients reach the server.
        token: the one token of the settings; with it, every request needs credentials.
        verify_jwt: verifies JWTs; None if the server accepts none.
        login: where clients get these JWTs; None if they cannot find out.
        requires_key: whether programs on this machine need a key, too.
        approves_own_calls: whether approvers may answer for their own calls.
        origins: the origins of web pages that may send requests, besides the console.
        max_requests_per_s: the limit on the requests of one identity; None for no limit.
    """

    url: str = "http://127.0.0.1:8642"
    token: Bearer | None = None
    verify_jwt: VerifyToken | None = None
    login: AuthorizationServer | None = None
    requires_key: bool = False
    approves_own_calls: bool = False
    origins: Collection[str] = ()
    max_requests_per_s: float | None = None
    is_demo: bool = False


_LOCAL_CALLER = Identity(
    principal=Principal(subject=LOCAL, kind=IdentityKind.LOCAL, roles=frozenset({AccessRole.CALLER}))
)
"""A program on this machine without credentials. It can never approve, because agents are such programs."""

_TOKEN_CALLER = Identity(
    principal=Principal(
        subject="token", roles=frozenset({AccessRole.CALLER}), kind=IdentityKind.KEY, key_id="token_env"
    )
)


class Authenticator:
    """Finds the identity of each request."""

    def __init__(self, grants: AccessGrants, options: ServerOptions) -> None:
        """Take the keys and sessions, and the other accepted credentials."""
        self.grants = grants
        self._options = options
        self._is_secure = options.url.startswith("https://")
        self._cached: OwnedEntries[str, tuple[float, Identity]] = OwnedEntries("cached credentials", MAX_CACHED)

    async def identify(self, scope: Scope, headers: Mapping[str, str]) -> Identity:
        """Return the identity of a request.

        Raises:
            Problem: 401, because the credentials are not valid, or are missing.
            StoreError: the store could not be read.
        """
        given = headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            if scheme.lower() != "bearer":
                raise unauthorized("the scheme of Authorization must be Bearer; send Authorization: Bearer KEY")
            token = token.strip()
            if token.startswith(_SESSION_PREFIX):
                raise unauthorized("a session is for the pages of this server only; send an API key")
            return await self._check(token, headers)
        session = self.session_token(scope, headers)
        if session is not None:
            return await self._check(session, headers)
        needs_key = self._options.requires_key or self._options.token is not None
        if needs_key or not _is_local_program(scope, headers):
            raise unauthorized(_MISSING)
        return _LOCAL_CALLER

    async def _check(self, token: str, headers: Mapping[str, str]) -> Identity:
        cached = self._cached.get(token)
        if cached is not None and time.monotonic() < cached[0]:
            return cached[1]
        found = await self._verify(token, headers)
        self._cached.add((found.principal.tenant, found.principal.subject), token, (time.monotonic() + CACHED_S, found))
        return found

    async def _verify(self, token: str, headers: Mapping[str, str]) -> Identity:
        kind = next((each for each in (GrantKind.KEY, GrantKind.SESSION) if token.startswith(f"{each.value}_")), None)
        if kind is not None:
            grant = await self.grants.find(token, kind)
            if grant is None:
                raise unauthorized(_WRONG)
            return Identity(principal=grant.principal, grant=grant, expires_at_s=grant.expires_at_s)
        options, request = self._options, CredentialRequest(method="", url=None, headers=headers, body=b"")
        if options.token is not None and options.token.caller_of(request) is not None:
            return _TOKEN_CALLER
        if options.verify_jwt is not None and token.count(".") == 2:  # noqa: PLR2004 -- the parts of a JWT
            return await options.verify_jwt(token)
        raise unauthorized(_WRONG)

    def session_token(self, scope: Scope, headers: Mapping[str, str]) -> str | None:
        """Return the session token of a request from the console: the cookie and the key of the page together.

        Other pages cannot use the cookie. A server on another port receives the cookie, but not the key.

        Raises:
            Problem: 403, because a page of another origin uses the cookie.
        """
        token = cookie_parser(headers.get("cookie", "")).get(self.cookie_name(scope))
        if token is None or not token.startswith(_SESSION_PREFIX):
            return None
        page_key, is_own_page = headers.get(PAGE_KEY_HEADER), scope.get("state", {}).get("is_own_page", False)
        if not is_own_page and (scope["method"] not in _SAFE_METHODS or headers.get("origin") is not None):
            raise Problem(HTTPStatus.FORBIDDEN, "a session may be used by the pages of this server only; use a key")
        return token + page_key if is_own_page and page_key is not None else None

    def cookie_name(self, scope: Scope) -> str:
        """Return the name of the cookie; it has the port, because browsers share cookies among all ports of a host."""
        server = scope.get("server") or ("", 0)
        return SECURE_COOKIE if self._is_secure else f"agenttool_{server[1]}"

    def cookie(self, scope: Scope, token: str, lifetime_s: float) -> str:
        """Return the header that sets the cookie; an empty token deletes it."""
        secure = "; Secure" if self._is_secure else ""
        age = round(lifetime_s) if token else 0
        return f"{self.cookie_name(scope)}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"

    async def is_still_valid(self, identity: Identity) -> bool:
        """Return whether the credentials of an identity are neither revoked nor expired."""
        if identity.expires_at_s is not None and time.time() >= identity.expires_at_s:
            return False
        return identity.grant is None or await self.grants.is_still_valid(identity.grant)

    def clear_cache(self) -> None:
        """Check all credentials again, because one was revoked."""
        self._cached.clear()


def unauthorized(detail: str) -> Problem:
    """Return the problem of missing or invalid credentials, with status 401."""
    return Problem(HTTPStatus.UNAUTHORIZED, detail)


def split_session(token: str) -> tuple[str, str]:
    """Split the token of a session into the cookie and the key of the page, each with 128 random bits or more."""
    return token[:-PAGE_KEY_LENGTH], token[-PAGE_KEY_LENGTH:]


def _is_local_program(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from this machine, through no proxy, and names this machine as the host."""
    client, host = scope.get("client"), parse_host(headers.get("host", ""))
    if client is None or client[0] not in _LOOPBACK_HOSTS or host not in _LOOPBACK_HOSTS:
        return False
    # A proxy that hides itself cannot be detected.
    has_header = any(name in _PROXY_HEADERS or name.startswith(_PROXY_HEADER_PREFIX) for name in headers)
    return not has_header and scope.get("http_version") != _PROXY_HTTP_VERSION
