"""Who may ask what of a served runtime, and how a request is read before anybody looks at what it says.

Until callers can be told apart, all but callbacks is for programs on this machine, and if the settings say so for those
only that have a token. A web page that a person there has open is none of them, so a browser's request from elsewhere
is refused, and so is a name that leads here by chance, and whatever a proxy passes on that says so of itself.
"""

from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agenttool.adapters.rap import credentials
from agenttool.adapters.rap.credentials import Bearer
from agenttool.codec import is_too_deep, parse_object
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.records import JsonObject
from agenttool.server.problems import Problem, problem_of

MOST_BYTES = 1_000_000
"""How large the body of a request may be."""

_HERE = frozenset({"127.0.0.1", "::1", "localhost"})
_PASSED_ON = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
_PASSED_ON_FOR = "x-forwarded-"
_OF_PROXIES = "1.0"
"""In this version of HTTP nginx passes requests on unless it is told otherwise, and no client of today asks in it."""

_LOCKED = "this asks for the token that the settings name; send it as Authorization: Bearer TOKEN"
_NOT_HERE = "this is for programs on the machine that serves it; run the client there"

Handler = Callable[[Request], Awaitable[Response]]


def is_from_here(request: Request) -> bool:
    """Tell whether a program on this machine asks, and neither a proxy nor a web page on behalf of somebody else."""
    client = request.client.host if request.client is not None else ""
    if client not in _HERE or _is_passed_on(request):
        return False
    origin = request.headers.get("origin")
    return _name_of(f"//{request.headers.get('host', '')}") in _HERE and (origin is None or _name_of(origin) in _HERE)


def _is_passed_on(request: Request) -> bool:
    """Tell whether a request shows signs of a proxy; one that shows none cannot be told from a program here."""
    names = [name.lower() for name in request.headers]
    is_told = any(name in _PASSED_ON or name.startswith(_PASSED_ON_FOR) for name in names)
    return is_told or request.scope.get("http_version") == _OF_PROXIES


def _name_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def for_programs_here(handler: Handler) -> Handler:
    """Answer programs on this machine, and whatever goes wrong by a problem document."""

    async def answer(request: Request) -> Response:
        if not is_from_here(request):
            return problem_of(Problem(HTTPStatus.FORBIDDEN, _NOT_HERE))
        if not _has_token(request):
            refused = problem_of(Problem(HTTPStatus.UNAUTHORIZED, _LOCKED))
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        try:
            return await handler(request)
        except (Problem, RecordError, ConfigError, StoreError) as error:
            return problem_of(error)

    return answer


def _has_token(request: Request) -> bool:
    """Tell whether a request has the token, if there is to be one."""
    wanted: Bearer | None = getattr(request.app.state, "admits", None)
    if wanted is None:
        return True
    headers = {name.lower(): value for name, value in request.headers.items()}
    return wanted.caller_of(credentials.Request(method=request.method, url=None, headers=headers, body=b"")) is not None


async def body_of(request: Request, known: Collection[str]) -> JsonObject:
    """Read the body of a request as an object with these members.

    Raises:
        Problem: it is too large, no JSON, or has a member that nobody knows.
        RecordError: it cannot be read; says where.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be JSON; send Content-Type: application/json")
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > MOST_BYTES:
                raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body may have {MOST_BYTES} bytes; send less")
    except ClientDisconnect:
        raise Problem(HTTPStatus.BAD_REQUEST, "the body was cut off; send all of it") from None
    members = parse_object(bytes(data), what="the body")
    if is_too_deep(members):
        raise Problem(HTTPStatus.BAD_REQUEST, "the body is nested too deeply; send it flat")
    for name in members:
        if name not in known:
            told = f"nothing is called {name!r} here; use one of {', '.join(sorted(known))}"
            raise Problem(HTTPStatus.BAD_REQUEST, told, pointer=f"/{name}")
    return members
