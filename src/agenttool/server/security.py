"""Which requests the HTTP API accepts, how it reads their bodies, and how it reports errors.

Every route except callbacks and `/healthz` accepts only programs on this machine. If the settings name tokens, those
programs must present one. Requests for other host names and requests that a proxy forwarded are rejected. No route
accepts a browser (`RequestGuard`).
"""

from collections.abc import Awaitable, Callable, Collection
from functools import wraps
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agenttool.adapters.rap.credentials import Bearer, CredentialRequest
from agenttool.adapters.rap.request_body import is_json, read_body
from agenttool.adapters.rap.request_guard import parse_host, problem_document
from agenttool.codec import is_too_deep, parse_object
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.records import JsonObject

MAX_BODY_BYTES = 1_000_000
"""The largest request body that is read."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
_PROXY_HEADER_PREFIX = "x-forwarded-"
_PROXY_HTTP_VERSION = "1.0"
"""nginx forwards requests with HTTP/1.0 by default; current clients do not use it."""

_UNAUTHORIZED = "this route requires the token that the settings name; send it as Authorization: Bearer TOKEN"
_LOCAL_ONLY = "this route accepts only programs on the machine that serves it; run the client there"

Handler = Callable[[Request], Awaitable[Response]]


class Problem(Exception):
    """A request that cannot be answered; reported as a problem document."""

    def __init__(self, status: HTTPStatus, detail: str, *, pointer: str | None = None) -> None:
        """Take the status, the message, and a JSON pointer to the invalid member of the body."""
        super().__init__(detail)
        self.status = status
        self.pointer = pointer


def problem_response(error: Exception) -> Response:
    """Return an error as a problem document (RFC 9457)."""
    pointer = error.pointer if isinstance(error, Problem | RecordError) else None
    return problem_document(_status_of(error), str(error), pointer)


def _status_of(error: Exception) -> HTTPStatus:
    """Return 503 for a store that fails, and 400 for any other error of a request."""
    if isinstance(error, Problem):
        return error.status
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, StoreError) else HTTPStatus.BAD_REQUEST


def check_origin(text: str) -> str:
    """Return an origin as browsers send it.

    Raises:
        ConfigError: no browser sends it, so it would never match.
    """
    try:
        parts = urlsplit(text)
        port = None if parts.port == _DEFAULT_PORTS.get(parts.scheme) else parts.port
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    except ValueError:
        host = port = parts = None
    origin = None if parts is None or not host else f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")
    if parts is None or parts.scheme not in _DEFAULT_PORTS or origin != text:
        example = "'http://localhost:3000', in lower case and without a default port or a path"
        raise ConfigError(f"an origin in [server] must be like {example}, got {text!r}; correct it")
    return text


def local_only(handler: Handler) -> Handler:
    """Wrap a handler so that it answers only authorized programs on this machine, and reports errors as problems."""

    @wraps(handler)
    async def answer(request: Request) -> Response:
        rejected = _rejection(request)
        if rejected is not None:
            return rejected
        try:
            return await handler(request)
        except (Problem, RecordError, ConfigError, StoreError) as error:
            return problem_response(error)

    return answer


class LocalOnlyApp:
    """Wraps an ASGI application as `local_only` wraps a handler; it reports its own errors."""

    def __init__(self, app: ASGIApp) -> None:
        """Take the application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of an authorized program on this machine, or reject it."""
        await (_rejection(Request(scope)) or self._app)(scope, receive, send)


def _rejection(request: Request) -> Response | None:
    """Return why a request is not answered; None if it is of an authorized program on this machine."""
    if not is_local_program(request):
        return problem_response(Problem(HTTPStatus.FORBIDDEN, _LOCAL_ONLY))
    if not _has_token(request):
        rejected = problem_response(Problem(HTTPStatus.UNAUTHORIZED, _UNAUTHORIZED))
        rejected.headers["WWW-Authenticate"] = "Bearer"
        return rejected
    return None


def is_local_program(request: Request) -> bool:
    """Return whether the sender is on this machine and not a proxy, and names this machine as the host."""
    client = request.client.host if request.client is not None else ""
    if client not in _LOOPBACK_HOSTS or _is_forwarded(request):
        return False
    return parse_host(request.headers.get("host", "")) in _LOOPBACK_HOSTS


def _is_forwarded(request: Request) -> bool:
    """Return whether a request shows signs of a proxy; a proxy that hides itself cannot be detected."""
    names = [name.lower() for name in request.headers]
    has_header = any(name in _PROXY_HEADERS or name.startswith(_PROXY_HEADER_PREFIX) for name in names)
    return has_header or request.scope.get("http_version") == _PROXY_HTTP_VERSION


def _has_token(request: Request) -> bool:
    """Return whether a request presents a valid token, or none is required."""
    tokens: Bearer | None = getattr(request.app.state, "admits", None)
    if tokens is None:
        return True
    headers = {name.lower(): value for name, value in request.headers.items()}
    return tokens.caller_of(CredentialRequest(method=request.method, url=None, headers=headers, body=b"")) is not None


async def read_object(request: Request, known: Collection[str]) -> JsonObject:
    """Read the body of a request as a JSON object that has only known members.

    Raises:
        Problem: the body is too large, is not JSON, or has an unknown member.
        RecordError: the body cannot be parsed; the message says where.
    """
    if not is_json(request.headers.get("content-type", "")):
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be JSON; send Content-Type: application/json")
    try:
        body = await read_body(request.receive, MAX_BODY_BYTES)
    except HTTPException as error:
        raise Problem(HTTPStatus(error.status_code), error.detail) from None
    members = parse_object(body, what="the body")
    if is_too_deep(members):
        raise Problem(HTTPStatus.BAD_REQUEST, "the body is nested too deeply; flatten it")
    for name in members:
        if name not in known:
            detail = f"unknown member {name!r}; use one of {', '.join(sorted(known))}"
            raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer=f"/{name}")
    return members
