"""Security schemes: which ones an operation uses, and what a request carries for them."""

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from agenttool.adapters.openapi.document import DocumentError, References, absolute_url, object_of
from agenttool.adapters.openapi.operations import ApiOperation
from agenttool.adapters.openapi.settings import OAuthGrant, OpenApiService
from agenttool.adapters.openapi.shapes import PART_IGNORED, SkippedPart, escape
from agenttool.adapters.source_settings import credentials_in, fill_credentials
from agenttool.codec import parse_value
from agenttool.errors import RecordError
from agenttool.records import JsonObject

_EARLY_S = 30.0
"""How long before its end a token is fetched again."""

_DEFAULT_LIFETIME_S = 300.0
_TYPES = ("apiKey", "http", "oauth2", "openIdConnect", "mutualTLS")
_TOKEN_FLOWS = ("clientCredentials", "authorizationCode", "password", "deviceAuthorization")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeUse:
    """One configured security scheme of an operation.

    Attributes:
        scheme: its name in the document.
        kind: `apiKey`, `basic`, `bearer`, or another scheme of HTTP.
        where: `header`, `query` or `cookie`.
        name: of the header, the query parameter or the cookie.
        value: the text from the settings, with references to credentials.
        client: how tokens are fetched; None if `value` is the token.
        token_url: the token endpoint, or the OpenID Connect discovery document.
    """

    scheme: str
    kind: str
    where: str
    name: str
    value: str = field(default="", repr=False)
    client: OAuthGrant | None = None
    token_url: str | None = None
    scopes: tuple[str, ...] = ()

    @property
    def credentials(self) -> tuple[str, ...]:
        """The names of the credentials that it needs."""
        client = self.client
        texts = (self.value,) if client is None else (client.client_secret or "", client.refresh_token or "")
        return tuple(name for text in texts for name in credentials_in(text))


class SecuritySchemes:
    """The security schemes of one document, and the values that the settings have for them."""

    def __init__(self, service: OpenApiService, references: References) -> None:
        """Take the settings and the document."""
        self._service = service
        self._schemes: dict[str, JsonObject] = {}
        self.skipped: list[SkippedPart] = []
        for name in object_of(object_of(references.root.get("components")).get("securitySchemes")):
            place = f"/components/securitySchemes/{escape(name)}"
            try:
                scheme = references.resolve({"$ref": f"#{quote(place)}"}, place)
                _check_complete(scheme, place)
                self._schemes[name] = scheme
            except DocumentError as error:
                self.skipped.append(SkippedPart(place, str(error), PART_IGNORED))

        items = self._schemes.items()
        self._valued = service.security.keys() & self._schemes.keys()
        self._configured = self._valued | {name for name, each in items if self._is_written(each)}
        self._keys = {
            name: (str(each.get("in")), str(each.get("name")).lower())
            for name, each in items
            if each.get("type") == "apiKey"
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all schemes."""
        return tuple(self._schemes)

    def describe(self, name: str) -> str:
        """Return the kind of a scheme for people, such as `http bearer`."""
        scheme = self._schemes.get(name, {})
        detail = scheme.get("scheme") or scheme.get("in") or ""
        return f"{scheme.get('type', 'unknown')} {detail}".strip()

    def carrier(self, name: str) -> tuple[str, str, str]:
        """Return the kind of a scheme, and the location and name of the member that carries its credential."""
        return _carrier(self._schemes.get(name, {}))

    def sent_as(self, name: str, value: str) -> str:
        """Return how a request carries the credential of a scheme, such as `Authorization: Bearer VALUE`."""
        kind, where, member = _carrier(self._schemes.get(name, {}))
        if kind == "basic":
            return f"{member}: Basic base64({value}), where {value} is user:password"
        word = "" if kind == "apiKey" else f"{kind.capitalize()} "
        return f"{member}: {word}{value}" if where == "header" else f"{where} {member}={value}"

    def is_configured(self, name: str) -> bool:
        """Return whether the settings have a credential for a scheme, or write its header or query parameter."""
        return name in self._configured

    def _is_written(self, scheme: JsonObject) -> bool:
        _, where, member = _carrier(scheme)
        given = {"header": self._service.headers, "query": self._service.query}.get(where, {})
        return member.lower() in map(str.lower, given)

    def keys_of(self, operation: ApiOperation) -> frozenset[tuple[str, str]]:
        """Return the location and lower-case name of each API key of an operation; no caller chooses these.

        If the document does not state which operations use a key, all may.
        """
        names = self._keys if operation.security is None else operation.schemes
        return frozenset(self._keys[name] for name in names if name in self._keys)

    def token_urls(self, base: str) -> tuple[str, ...]:
        """Return the token endpoints that the document names."""
        found = (_token_url(each, base) for each in self._schemes.values())
        return tuple(each for each in found if each is not None)

    def choose(self, operation: ApiOperation, base: str) -> tuple[tuple[SchemeUse, ...], tuple[str, ...]]:
        """Return the schemes that requests of an operation use, and those that are not configured.

        The first alternative is used whose schemes all have values, or headers or query parameters in the settings.
        Token endpoints may be relative to `base`.
        """
        alternatives = operation.security
        if not alternatives:
            return (), ()
        for each in alternatives:
            if self._configured.issuperset(each) and not self._valued.isdisjoint(each):
                uses = [self._use(name, scopes, base) for name, scopes in each.items() if name in self._valued]
                return tuple(use for use in uses if use is not None), ()
        if any(self._configured.issuperset(each) for each in alternatives):
            return (), ()
        return (), tuple(name for name in alternatives[0] if name not in self._configured)

    def _use(self, name: str, scopes: Iterable[str], base: str) -> SchemeUse | None:
        scheme, value = self._schemes.get(name, {}), self._service.security[name]
        kind, where, member = _carrier(scheme)
        if kind == "mutualTLS":
            return None
        token_url = _token_url(scheme, base)
        client = value if isinstance(value, OAuthGrant) else None
        return SchemeUse(
            scheme=name,
            kind=kind,
            where=where,
            name=member,
            value=value if isinstance(value, str) else "",
            client=client,
            token_url=token_url if client is None else client.token_url or token_url,
            scopes=tuple(scopes),
        )


def _carrier(scheme: JsonObject) -> tuple[str, str, str]:
    """Return the kind of a scheme, and the location and name of the member that carries its credential."""
    kind = str(scheme.get("type"))
    if kind == "apiKey":
        return kind, str(scheme.get("in")), str(scheme.get("name"))
    if kind == "http":
        kind = str(scheme.get("scheme")).lower()
    return "bearer" if kind in ("oauth2", "openIdConnect") else kind, "header", "Authorization"


def _check_complete(scheme: JsonObject, pointer: str) -> None:
    """Reject a scheme that does not say where a credential belongs.

    Raises:
        DocumentError: says what it lacks.
    """
    kind = scheme.get("type")
    if kind not in _TYPES:
        raise DocumentError(f"its type must be one of {', '.join(_TYPES)}, got {kind!r}; correct it", pointer)
    is_placed = isinstance(scheme.get("name"), str) and scheme.get("in") in ("header", "query", "cookie")
    if kind == "apiKey" and not is_placed:
        raise DocumentError("an API key needs a name, and header, query or cookie in 'in'; add them", pointer)
    if kind == "http" and not isinstance(scheme.get("scheme"), str):
        raise DocumentError("a scheme of HTTP needs 'scheme', such as bearer; add it", pointer)


def _token_url(scheme: JsonObject, base: str) -> str | None:
    flows = object_of(scheme.get("flows"))
    named = [scheme.get("openIdConnectUrl"), *(object_of(flows.get(name)).get("tokenUrl") for name in _TOKEN_FLOWS)]
    url = next((each for each in named if isinstance(each, str) and each), None)
    with suppress(DocumentError):
        return None if url is None else absolute_url(f"{base}/", url)
    return None


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
        if use.kind == "basic" and value == "[redacted]":
            value = f"Basic {value}"
        elif use.kind == "basic":
            value = f"Basic {base64.b64encode(value.encode()).decode()}"
        elif use.kind == "bearer":
            value = value if value.lower().startswith("bearer ") else f"Bearer {value}"
        elif use.kind != "apiKey" and " " not in value:
            value = f"{use.kind.capitalize()} {value}"
        if use.where == "query":
            self.query.append(f"{quote(use.name, safe='')}={quote(value, safe='')}")
        elif use.where == "cookie":
            self.cookies.append(f"{use.name}={value}")
        else:
            self.headers[use.name] = value

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

    async def get(self, use: SchemeUse, values: Mapping[str, str]) -> str:
        """Return a token for a scheme, with the credentials of a call.

        Raises:
            DocumentError: the document and the settings have no token endpoint, or its answer has no token.
        """
        client = use.client
        if client is None:
            return fill_credentials(use.value, values)
        secret = fill_credentials(client.client_secret or "", values)
        refresh = fill_credentials(client.refresh_token or "", values)
        key = (use.scheme, client.client_id, secret, refresh, *use.scopes)
        async with self._locks.setdefault((client.client_id, secret, refresh), asyncio.Lock()):
            known = self._tokens.get(key)
            if known is not None and known[1] > time.monotonic():
                return known[0]
            token, lifetime = await self._fetch(use, client, secret, refresh)
            self._tokens[key] = token, time.monotonic() + max(lifetime - _EARLY_S, lifetime / 2)
            return token

    def forget(self, rejected: Iterable[str]) -> None:
        """Delete tokens that the service rejected."""
        for key in [key for key, (token, _) in self._tokens.items() if token in rejected]:
            del self._tokens[key]

    async def _fetch(self, use: SchemeUse, client: OAuthGrant, secret: str, refresh: str) -> tuple[str, float]:
        url = await self._endpoint(use)
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
        token, lifetime = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token:
            raise DocumentError(f"the token endpoint of {use.scheme!r} returned no access_token; check the client")
        following = answer.get("refresh_token")
        if refresh and isinstance(following, str):  # the server accepts each refresh token once
            self._refresh_tokens[refresh] = following
        return token, float(lifetime) if isinstance(lifetime, int | float) else _DEFAULT_LIFETIME_S

    async def _endpoint(self, use: SchemeUse) -> str:
        url = use.token_url
        if url is not None and "/.well-known/" in url:
            found = _read_object(await self._post(url, {"Accept": "application/json"}, b"")).get("token_endpoint")
            url = found if isinstance(found, str) else None
        if url is None:
            raise DocumentError(f"the scheme {use.scheme!r} has no token endpoint; write token_url in its settings")
        return url


def _read_object(body: bytes) -> JsonObject:
    with suppress(RecordError):
        return object_of(parse_value(body))
    return {}
