"""Security schemes: which ones an operation uses, and what a request carries for them."""

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from agenttool.adapters.openapi.document import DocumentError, References, absolute_url
from agenttool.adapters.openapi.operations import ApiOperation
from agenttool.adapters.openapi.settings import OAuthGrant, OpenApiService
from agenttool.adapters.openapi.shapes import PART_IGNORED, SkippedPart, escape
from agenttool.adapters.source_settings import credentials_in, fill_credentials
from agenttool.codec import object_of, parse_value
from agenttool.errors import RecordError
from agenttool.records import JsonObject
from agenttool.schema.traverse import value_at

MASK = "[redacted]"
_EARLY_S = 30.0
"""How long before its end a token is fetched again."""

_DEFAULT_LIFETIME_S = 300.0
_TYPES = ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")
_TOKEN_FLOWS = ("clientCredentials", "authorizationCode", "password", "deviceAuthorization")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityScheme:
    """One security scheme of a document.

    Attributes:
        kind: `apiKey`, `basic`, `bearer`, or another scheme of HTTP.
        where: `header`, `query` or `cookie`.
        member: the name of the header, the query parameter or the cookie.
        about: its kind for people, such as `http bearer`.
        token_url: the token endpoint, or the OpenID Connect discovery document; it may be relative.
    """

    kind: str = "None"
    where: str = "header"
    member: str = "Authorization"
    about: str = "unknown"
    token_url: str | None = None

    def sent_as(self, value: str) -> str:
        """Return how a request carries a credential, such as `Authorization: Bearer VALUE`."""
        if self.kind == "basic":
            return f"{self.member}: Basic base64({value}), where {value} is user:password"
        word = "" if self.kind == "apiKey" else f"{self.kind.capitalize()} "
        return f"{self.member}: {word}{value}" if self.where == "header" else f"{self.where} {self.member}={value}"

    def token_url_from(self, base: str) -> str | None:
        """Return the URL of the token endpoint, which may be relative to `base`."""
        with suppress(DocumentError):
            return None if self.token_url is None else absolute_url(f"{base}/", self.token_url)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeUse:
    """One configured security scheme of an operation.

    Attributes:
        name: the name of the scheme in the document.
        value: the text from the settings, with references to credentials, or how tokens are fetched.
        token_url: the token endpoint of the settings, or else of the document.
    """

    name: str
    scheme: SecurityScheme
    value: str | OAuthGrant = field(repr=False)
    token_url: str | None
    scopes: tuple[str, ...]

    @property
    def credentials(self) -> tuple[str, ...]:
        """The names of the credentials that it needs."""
        value = self.value
        texts = (value,) if isinstance(value, str) else (value.client_secret or "", value.refresh_token or "")
        return tuple(name for text in texts for name in credentials_in(text))


class SecuritySchemes:
    """The security schemes of one document, and the values that the settings have for them.

    Attributes:
        schemes: those that are complete, by name.
        configured: those for which the settings have a credential, or whose header or query parameter they write.
        skipped: the others.
    """

    def __init__(self, service: OpenApiService, references: References) -> None:
        """Take the settings and the document."""
        self._values = service.security
        self.schemes: dict[str, SecurityScheme] = {}
        self.skipped: list[SkippedPart] = []
        for name, native in object_of(value_at(references.root, "/components/securitySchemes")).items():
            place = f"/components/securitySchemes/{escape(name)}"
            try:
                self.schemes[name] = _read_scheme(references.resolve(native, place), place)
            except DocumentError as error:
                self.skipped.append(SkippedPart(place, str(error), PART_IGNORED))
        items = self.schemes.items()
        added = {"header": service.headers, "query": service.query}
        self._written = {(where, name.lower()) for where, names in added.items() for name in names}
        self.configured = {
            name for name, each in items if name in self._values or (each.where, each.member.lower()) in self._written
        }
        self._written.add(("header", (service.idempotency_header or "").lower()))
        self._used = {name for name, each in items if name in self._values and each.kind != "mutualTLS"}
        self._keys = {name: (each.where, each.member.lower()) for name, each in items if each.kind == "apiKey"}

    def scheme(self, name: str) -> SecurityScheme:
        """Return a scheme; one that the document does not describe is of no kind."""
        return self.schemes.get(name, SecurityScheme())

    def supplied(self, operation: ApiOperation) -> set[tuple[str, str]]:
        """Return the location and lower-case name of what no caller chooses: API keys, and what the settings write.

        If the document does not state which operations use a key, all may.
        """
        names = self._keys if operation.security is None else operation.schemes
        return self._written | {self._keys[name] for name in names if name in self._keys}

    def choose(self, operation: ApiOperation, base: str) -> tuple[tuple[SchemeUse, ...], tuple[str, ...]]:
        """Return the schemes that requests of an operation use, and those that are not configured.

        The first alternative is used whose schemes all have values, or headers or query parameters in the settings.
        Token endpoints may be relative to `base`.
        """
        configured = [each for each in operation.security or () if self.configured.issuperset(each)]
        if not configured:
            first = operation.security[0] if operation.security else ()
            return (), tuple(name for name in first if name not in self.configured)
        chosen = next((each for each in configured if not self._used.isdisjoint(each)), dict[str, list[str]]())
        return tuple(self._use(name, scopes, base) for name, scopes in chosen.items() if name in self._used), ()

    def _use(self, name: str, scopes: Iterable[str], base: str) -> SchemeUse:
        scheme, value = self.schemes[name], self._values[name]
        own = None if isinstance(value, str) else value.token_url
        url = own or scheme.token_url_from(base)
        return SchemeUse(name=name, scheme=scheme, value=value, token_url=url, scopes=tuple(scopes))


def _read_scheme(native: JsonObject, pointer: str) -> SecurityScheme:
    """Return a scheme.

    Raises:
        DocumentError: it does not say where a credential belongs.
    """
    kind, scheme, where, member = (native.get(each) for each in ("type", "scheme", "in", "name"))
    if kind not in _TYPES:
        raise DocumentError(f"its type must be one of {', '.join(_TYPES)}, got {kind!r}; correct it", pointer)
    about = f"{kind} {scheme or where or ''}".strip()
    if kind == "apiKey":
        if not isinstance(member, str) or where not in ("header", "query", "cookie"):
            raise DocumentError("an API key needs a name, and header, query or cookie in 'in'; add them", pointer)
        return SecurityScheme(kind=kind, where=where, member=member, about=about)
    if kind == "http" and not isinstance(scheme, str):
        raise DocumentError("a scheme of HTTP needs 'scheme', such as bearer; add it", pointer)
    flows = object_of(native.get("flows"))
    urls = [native.get("openIdConnectUrl"), *(object_of(flows.get(name)).get("tokenUrl") for name in _TOKEN_FLOWS)]
    return SecurityScheme(
        kind={"http": str(scheme).lower(), "mutualTLS": "mutualTLS"}.get(str(kind), "bearer"),
        about=about,
        token_url=next((each for each in urls if isinstance(each, str) and each), None),
    )


@dataclass(slots=True)
class RequestCredentials:
    """What security adds to one request; all of it is secret."""

    headers: dict[str, str] = field(default_factory=dict[str, str])
    query: list[str] = field(default_factory=list[str])
    cookies: list[str] = field(default_factory=list[str])
    values: list[str] = field(default_factory=list[str])

    def add(self, use: SchemeUse, value: str) -> None:
        """Add the value of a scheme."""
        self.values.append(value)
        kind, name = use.scheme.kind, use.scheme.member
        if kind == "basic" and value != MASK:
            value = base64.b64encode(value.encode()).decode()
        is_complete = value.lower().startswith("bearer ") if kind == "bearer" else " " in value and kind != "basic"
        if kind != "apiKey" and not is_complete:
            value = f"{kind.capitalize()} {value}"
        if use.scheme.where == "query":
            self.query.append(f"{quote(name, safe='')}={quote(value, safe='')}")
        elif use.scheme.where == "cookie":
            self.cookies.append(f"{name}={value}")
        else:
            self.headers[name] = value

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no error and no log may show."""
        pairs = (each.partition("=")[2] for each in (*self.query, *self.cookies))
        return tuple(each for each in (*self.headers.values(), *pairs, *self.values) if each)


Post = Callable[[str, Mapping[str, str], bytes], Awaitable[bytes]]
"""Sends a form to a token endpoint, or reads a URL if the form is empty; returns the body of a 2xx response."""


class TokenCache:
    """Fetches access tokens, and caches each until shortly before it expires."""

    def __init__(self, post: Post) -> None:
        """Take how requests are sent."""
        self._post = post
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}
        self._refresh_tokens: dict[str, str] = {}
        self._locks: dict[tuple[str, ...], asyncio.Lock] = {}

    async def get(
        self, use: SchemeUse, values: Mapping[str, str], waiting: Callable[[], AbstractAsyncContextManager[None]]
    ) -> str:
        """Return a token for a scheme, with the credentials of a call; it is fetched within a context of `waiting`.

        Raises:
            DocumentError: the document and the settings have no token endpoint, or its answer has no token.
        """
        client = use.value
        if isinstance(client, str):
            return fill_credentials(client, values)
        secret = fill_credentials(client.client_secret or "", values)
        refresh = fill_credentials(client.refresh_token or "", values)
        key = (use.name, client.client_id, secret, refresh, *use.scopes)
        token = self._known(key)
        if token is not None:
            return token
        async with waiting(), self._locks.setdefault(key[1:4], asyncio.Lock()):
            token = self._known(key)
            if token is None:
                token, _ = self._tokens[key] = await self._fetch(use, client, secret, refresh)
            return token

    def _known(self, key: tuple[str, ...]) -> str | None:
        token, until = self._tokens.get(key, ("", 0.0))
        return token if until > time.monotonic() else None

    def forget(self, rejected: Iterable[str]) -> None:
        """Delete tokens that the service rejected."""
        self._tokens = {key: each for key, each in self._tokens.items() if each[0] not in rejected}

    async def _fetch(self, use: SchemeUse, client: OAuthGrant, secret: str, refresh: str) -> tuple[str, float]:
        """Return a token, and until when it is used."""
        url = use.token_url
        if url is not None and "/.well-known/" in url:
            found = _read_object(await self._post(url, {"Accept": "application/json"}, b"")).get("token_endpoint")
            url = found if isinstance(found, str) else None
        if url is None:
            raise DocumentError(f"the scheme {use.name!r} has no token endpoint; write token_url in its settings")
        form = (
            {"grant_type": "refresh_token", "refresh_token": self._refresh_tokens.get(refresh, refresh)}
            if refresh
            else {"grant_type": "client_credentials"}
        )
        scope = client.scope or ("" if refresh else " ".join(use.scopes))
        form |= {"scope": scope} if scope else {}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if client.auth_method == "client_secret_basic" and secret:
            pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": client.client_id, **({"client_secret": secret} if secret else {})}
        answer = _read_object(await self._post(url, headers, urlencode(form).encode()))
        token, lifetime, following = (answer.get(each) for each in ("access_token", "expires_in", "refresh_token"))
        if not isinstance(token, str) or not token:
            raise DocumentError(f"the token endpoint of {use.name!r} returned no access_token; check the client")
        if refresh and isinstance(following, str):  # the server accepts each refresh token once
            self._refresh_tokens[refresh] = following
        lifetime = float(lifetime) if isinstance(lifetime, int | float) else _DEFAULT_LIFETIME_S
        return token, time.monotonic() + max(lifetime - _EARLY_S, lifetime / 2)


def _read_object(body: bytes) -> JsonObject:
    with suppress(RecordError):
        return object_of(parse_value(body))
    return {}
