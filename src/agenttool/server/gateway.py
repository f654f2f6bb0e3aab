"""The ASGI application of a server: it finds the route, the identity and the tenant of each request."""

import gzip
import re
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from math import inf
from typing import cast
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agenttool.adapters.rap.callback_urls import PATH as CALLBACKS
from agenttool.adapters.rap.source import RapClient
from agenttool.codec import check_syntax, is_too_deep, parse_object, parse_value, repeated_name
from agenttool.console.pages import console_response, is_console_path, missing_page
from agenttool.http.limiter import RateLimiter
from agenttool.http.request_body import is_json, read_body
from agenttool.ports.identity import DEFAULT_TENANT, AccessRole, IdentityKind, Principal
from agenttool.ports.limits import RateLimit
from agenttool.server.authentication import Identity
from agenttool.server.problem import REPORTED, MissingRole, Problem, draining, invalid_member, problem_response
from agenttool.server.protected_resource import ProtectedResource
from agenttool.server.route import ApiRequest, EmptyBody, Reply, Route
from agenttool.server.state import ServerState
from agenttool.server.tenants import is_tenant_name

MAX_BODY_BYTES = 1_000_000
"""The largest request body that is read."""

MAX_LEVELS = 100
"""The maximum nesting depth of a request body."""

BODY_TIMEOUT_S = 30.0
MIN_COMPRESSED_BYTES = 1_400
_MAX_PARAMETERS = 100

_TOO_DEEP = f"the body has more than {MAX_LEVELS} levels; flatten it"
_NO_MCP = "this server has no MCP endpoint, because the package mcp is missing; run: pip install 'agenttool[mcp]'"

_JSON_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-type", b"application/json"),
)
_COMPRESSED = [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]

_EMPTY_BODY = EmptyBody()
_encode = msgspec.json.Encoder().encode

_ANONYMOUS = Principal(subject="", kind=IdentityKind.NONE)
"""The sender of a request to a route that needs no identity."""


class Gateway:
    """Serves the route table, `/mcp`, callbacks and the console."""

    def __init__(self, state: ServerState, routes: Sequence[Route]) -> None:
        """Take the state that handlers share, and the route table."""
        self.state = state
        self.tenants = state.tenants
        self.options = state.options
        self._resource = ProtectedResource(state.options.url, state.options.login)
        rate = state.options.max_requests_per_s
        self._limiter = None if rate is None else RateLimiter(RateLimit(per_second=rate, burst=max(1, round(2 * rate))))
        self._exact: dict[str, dict[str, Route]] = {}
        self._patterns: dict[re.Pattern[str], dict[str, Route]] = {}
        for route in routes:
            methods = (
                self._patterns.setdefault(route.pattern, {}) if route.names else self._exact.setdefault(route.path, {})
            )
            methods[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return

        def counted(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                self.state.counts[message["status"]] += 1
            return send(message)

        try:
            answer = await self._answer(scope, receive)
        except REPORTED as error:
            answer = self._refusal(error, scope)
        await answer(scope, receive, counted)

    def _refusal(self, error: Exception, scope: Scope) -> Response:
        """Return the response of a request that failed; it says where a client gets other credentials."""
        response = problem_response(error)
        has_token = "authorization" in _headers_of(scope)
        challenge = self._resource.challenge(error, scope["path"], has_token=has_token)
        if challenge is not None:
            response.headers["www-authenticate"] = challenge
        return response

    async def _answer(self, scope: Scope, receive: Receive) -> ASGIApp:
        path, method = scope["path"], scope["method"]
        self._refuse_while_draining()
        found = self._find(path, method)
        if found is not None:
            route, names = found
            return await self._call(route, names, scope, receive)
        if path == "/mcp" or path.startswith("/mcp/"):
            return await self._mcp(scope)
        answer = await self._callbacks(path)
        if answer is None and method in ("GET", "HEAD"):
            answer = self._page(path, scope)
        if answer is None:
            raise Problem(HTTPStatus.NOT_FOUND, f"no route for the path {path!r}; correct it, or read /openapi.json")
        return answer

    def _page(self, path: str, scope: Scope) -> ASGIApp | None:
        """Return what needs no credentials: a page of the console, or where to log in; None if it is neither.

        A browser gets the page of the console also for an unknown path, with status 404.
        """
        if is_console_path(path):
            return console_response(path, _headers_of(scope).get("if-none-match", ""))
        metadata = self._resource.metadata(path)
        if metadata is not None:
            return _response(metadata, HTTPStatus.OK, {})
        is_link = "text/html" in _headers_of(scope).get("accept", "")  # a person follows it
        return missing_page() if is_link else None

    def _refuse_while_draining(self) -> None:
        if self.state.draining.is_set():
            raise draining()

    def _find(self, path: str, method: str) -> tuple[Route, Mapping[str, str]] | None:
        """Return the route of a request; None if no route has its path.

        Raises:
            Problem: the path does not accept the method.
        """
        names: Mapping[str, str] = {}
        methods = self._exact.get(path)
        if methods is None:
            for pattern, known in self._patterns.items():
                if (match := pattern.fullmatch(path)) is not None:
                    methods, names = known, match.groupdict()
                    break
            else:
                return None
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            detail = f"{path!r} does not accept {method}; use {allowed}"
            raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"allow": allowed})
        return route, names

    async def _call(self, route: Route, names: Mapping[str, str], scope: Scope, receive: Receive) -> ASGIApp:
        headers = _headers_of(scope)
        if route.roles is None:
            identity, tenant = None, self.tenants.default
        else:
            identity = await self._authorize(scope, headers, route.roles)
            tenant = await self.tenants.get(identity.principal.tenant)
        scope.setdefault("state", {})["identity"] = identity
        request = ApiRequest(
            server=self.state,
            tenant=tenant,
            principal=_ANONYMOUS if identity is None else identity.principal,
            scope=scope,
            headers=headers,
            path=names,
            query=_read_query(route, scope["query_string"]),
            body=await self._read_body(route, headers, receive),
        )
        self._refuse_while_draining()  # again, because opening the tenant and reading the body take time
        reply = await route.handler(request)
        return reply if isinstance(reply, Response) else _response(reply, route.statuses[0], headers)

    async def _authorize(self, scope: Scope, headers: Mapping[str, str], roles: frozenset[AccessRole]) -> Identity:
        """Return the identity of a request.

        Raises:
            Problem: it has none of the roles, or sends too many requests.
        """
        identity = await self.state.authenticator.identify(scope, headers)
        principal = identity.principal
        if principal.roles.isdisjoint(roles):
            wanted = " or ".join(sorted(roles))
            detail = (
                f"this needs the role {wanted}, and {principal.subject!r} has {', '.join(sorted(principal.roles))};"
                " open the login link that the server printed, or use a key with the role: agenttool keys add"
            )
            raise MissingRole(detail, roles)
        wait_s = 0.0 if self._limiter is None else self._limiter.take(f"{principal.tenant} {principal.subject}")
        if wait_s > 0:
            detail = f"more than {self.options.max_requests_per_s:g} requests a second; send fewer"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"retry-after": str(round(wait_s + 1))})
        return identity

    async def _read_body(self, route: Route, headers: Mapping[str, str], receive: Receive) -> msgspec.Struct:
        """Read and decode the body of a request.

        Raises:
            Problem: it is too large, arrives too slowly, is not JSON, is nested too deeply, or does not fit.
            RecordError: it is not JSON, or is nested too deeply to be decoded.
        """
        if not route.has_body:
            return _EMPTY_BODY
        kind = headers.get("content-type", "")
        if not is_json(kind):
            detail = f"the body must be JSON, got {kind!r}; send Content-Type: application/json"
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
        try:
            body = await read_body(headers, receive, MAX_BODY_BYTES, timeout_s=BODY_TIMEOUT_S)
        except HTTPException as error:
            raise Problem(HTTPStatus(error.status_code), error.detail) from None
        try:
            if body.count(b"{") + body.count(b"[") > MAX_LEVELS and is_too_deep(parse_value(body), MAX_LEVELS):
                raise Problem(HTTPStatus.BAD_REQUEST, _TOO_DEEP)
            message = route.decode(body)
        except (msgspec.MsgspecError, UnicodeError) as error:
            check_syntax(body, what="the body")
            raise invalid_member(error, route.body.__struct_fields__) from None
        _reject_repeated_names(body, message)
        return message

    async def _mcp(self, scope: Scope) -> ASGIApp:
        identity = await self._authorize(scope, _headers_of(scope), frozenset({AccessRole.CALLER}))
        tenant = await self.tenants.get(identity.principal.tenant)
        if tenant.mcp is None:
            raise Problem(HTTPStatus.NOT_FOUND, _NO_MCP)
        scope.setdefault("state", {})["principal"] = identity.principal
        profile = scope["path"].removeprefix("/mcp").strip("/")
        scope["path_params"] = {"profile": profile} if profile else {}
        return partial(self._serve_while_valid, tenant.mcp, identity)

    async def _serve_while_valid(
        self, app: ASGIApp, identity: Identity, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve a request, also one with a stream, until its credentials are revoked or expire, or the server stops."""
        is_started = is_complete = False
        ended: Problem | None = None

        def noted(message: Message) -> Awaitable[None]:
            nonlocal is_started, is_complete
            is_started = True
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)
            return send(message)

        try:
            with self.state.within(inf, identity) as limit:
                scope["state"]["is_ended_here"] = lambda: limit.is_expired
                await app(scope, receive, noted)
                return
        except Problem as problem:
            ended = problem
        if not is_started:
            ended = ended or draining()
            await self._refusal(ended, scope)(scope, receive, send)
        elif not is_complete:
            await send({"type": "http.response.body", "body": b""})

    async def _callbacks(self, path: str) -> ASGIApp | None:
        """Return the application for callbacks of RAP servers; the token in the path is the credential."""
        name, rest = DEFAULT_TENANT, path
        if path.startswith("/t/"):
            name, _, rest = path.removeprefix("/t/").partition("/")
            rest = f"/{rest}"
        if not rest.startswith(f"{CALLBACKS}/") or not is_tenant_name(name):
            return None
        tenant = await self.tenants.find(name)
        rap = tenant and tenant.runtime.sources.find(RapClient)
        return PlainTextResponse("not found", HTTPStatus.NOT_FOUND) if rap is None else rap.app


def _reject_repeated_names(body: bytes, message: msgspec.Struct) -> None:
    """Reject a body that repeats a member, because another program may read the first value; calls check arguments.

    Raises:
        Problem: it repeats a member.
    """
    arguments = getattr(message, "arguments", b"")
    rest = body.replace(bytes(arguments), b"0", 1) if arguments else body
    if (name := repeated_name(rest, parse_object(rest))) is not None:
        raise Problem(HTTPStatus.BAD_REQUEST, f"the body has the member {name!r} twice; send it once")


def _headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by their names in lower case; of several with one name, the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _read_query(route: Route, text: bytes) -> msgspec.Struct:
    if not text:
        return route.default_query
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        detail = f"send at most {_MAX_PARAMETERS} query parameters"
        raise Problem(HTTPStatus.BAD_REQUEST, detail) from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise Problem(HTTPStatus.BAD_REQUEST, "a query parameter was sent twice; send it once")
    try:
        return msgspec.convert(parameters, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise invalid_member(error, route.query.__struct_fields__, prefix="?") from None


class _JsonResponse:
    """A response whose headers are bytes already; most are the same in every response."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, body: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._body, self._status = body, status
        self._headers = [*_JSON_HEADERS, *headers, (b"content-length", b"%d" % len(body))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def _response(value: object, status: HTTPStatus, headers: Mapping[str, str]) -> ASGIApp:
    """Return the response of a handler that returned a value; `headers` are those of the request."""
    reply = cast("Reply[object]", value) if isinstance(value, Reply) else Reply(value)
    status, value = reply.status or status, reply.value
    if value is None:
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=reply.headers)
    body = bytes(value) if isinstance(value, msgspec.Raw) else _encode(value)
    sent = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in reply.headers.items()]
    if len(body) >= MIN_COMPRESSED_BYTES and "gzip" in headers.get("accept-encoding", ""):
        body = gzip.compress(body, 4, mtime=0)
        sent += _COMPRESSED
    return _JsonResponse(body, status.value, sent)
