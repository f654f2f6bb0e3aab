"""One route of the HTTP API: what it takes, what it returns, and who may use it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from agenttool.ports.identity import AccessRole, Principal
from agenttool.server.authentication import Identified
from agenttool.server.state import ServerState
from agenttool.server.tenants import TenantSpace


class EmptyQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without query parameters."""


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without a body."""


EMPTY_QUERY, EMPTY_BODY = EmptyQuery(), EmptyBody()

Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)

CALLER = frozenset({AccessRole.CALLER})
APPROVER = frozenset({AccessRole.APPROVER})
OPERATOR = frozenset({AccessRole.OPERATOR})
AUDITING = frozenset({AccessRole.OPERATOR, AccessRole.AUDITOR})
READERS = frozenset({AccessRole.APPROVER, AccessRole.OPERATOR, AccessRole.AUDITOR})
EVERY_ROLE = frozenset(AccessRole)


class ApiRequest(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """A request that was authenticated, authorized and decoded.

    Attributes:
        path: the values of the names in the path.
        space: the runtime of the tenant of the principal.
    """

    gateway: ServerState
    space: TenantSpace
    principal: Principal
    scope: Scope
    headers: Headers
    path: Mapping[str, str]
    query: Q
    body: B

    @property
    def identified(self) -> Identified:
        """The identity, and what proves it."""
        return self.scope["state"]["identified"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler returns: a value that is written as JSON; without one, no body."""

    value: object = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


Handler = Callable[[ApiRequest[Q, B]], Awaitable[Reply | Response]]


@dataclass(frozen=True, kw_only=True)
class Route(Generic[Q, B]):
    """One line of the route table.

    Attributes:
        path: with names in braces.
        handler: its docstring describes the route.
        roles: one of them is required; None if a request needs no identity.
        reply: the type of the JSON that it returns; None if it returns none.
        media: the type of a body that is not JSON.
        statuses: those of its replies; the first is the usual one.
        problems: the statuses of its own problem documents, besides those of every route.
    """

    method: str
    path: str
    handler: Handler[Q, B]
    roles: frozenset[AccessRole] | None
    query: type[Q]
    body: type[B]
    reply: type | None
    media: str = "application/json"
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    problems: tuple[HTTPStatus, ...] = ()
    tag: str = ""

    @property
    def has_body(self) -> bool:
        """Whether it takes a body."""
        return self.body is not EmptyBody  # pyright: ignore[reportUnnecessaryComparison] -- the type of a type variable

    @cached_property
    def decode(self) -> Callable[[bytes], B]:
        """The function that decodes a body."""
        return msgspec.json.Decoder(self.body).decode

    @cached_property
    def default_query(self) -> Q:
        """The query of a request without parameters; raises `msgspec.ValidationError` if it needs one."""
        return msgspec.convert({}, self.query)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The paths that it serves."""
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    def __call__(self, request: ApiRequest[Q, B]) -> Awaitable[Reply | Response]:
        """Answer a request."""
        return self.handler(request)


AnyRoute = Route[msgspec.Struct, msgspec.Struct]
