"""One route of the HTTP API: its request, its response and the roles that may use it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Generic, TypeVar, cast, get_args

import msgspec
from starlette.responses import Response
from starlette.types import Scope

from agenttool.ports.identity import AccessRole, Principal
from agenttool.server.authentication import Identity
from agenttool.server.state import ServerState
from agenttool.server.tenants import Tenant


class EmptyQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without query parameters."""


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without a body."""


Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)

CALLER = frozenset({AccessRole.CALLER})
APPROVER = frozenset({AccessRole.APPROVER})
OPERATOR = frozenset({AccessRole.OPERATOR})
AUDITING = frozenset({AccessRole.OPERATOR, AccessRole.AUDITOR})
READERS = frozenset({AccessRole.APPROVER, AccessRole.OPERATOR, AccessRole.AUDITOR})
EVERY_ROLE = frozenset(AccessRole)


class ApiRequest(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """A request that is authenticated, authorized and decoded.

    Attributes:
        server: what all requests share.
        tenant: the tenant of the principal.
        headers: by their names in lower case.
        path: the values of the names in the path.
    """

    server: ServerState
    tenant: Tenant
    principal: Principal
    scope: Scope
    headers: Mapping[str, str]
    path: Mapping[str, str]
    query: Q
    body: B

    @property
    def identity(self) -> Identity:
        """The identity with its credentials."""
        return self.scope["state"]["identity"]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a handler: a value that is encoded as JSON; without one, no body."""

    value: object = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


Handler = Callable[..., Awaitable[Reply | Response]]
"""Takes an `ApiRequest`, whose annotation names the types of the query and the body."""


@dataclass(frozen=True)
class Route:
    """One line of the route table.

    Attributes:
        path: with names in braces.
        handler: its docstring describes the route, and its annotation the request.
        roles: one of them is required; None if a request needs no identity.
        reply: the type of the response body; None if there is none.
        media: the media type of the response body.
        statuses: the statuses of a success; the first is the usual one.
        problems: the statuses of its own problem documents, besides those of every route.
    """

    method: str
    path: str
    handler: Handler
    roles: frozenset[AccessRole] | None
    reply: object = None
    _: KW_ONLY
    media: str = "application/json"
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    problems: tuple[HTTPStatus, ...] = ()

    @cached_property
    def _request_types(self) -> tuple[type[msgspec.Struct], type[msgspec.Struct]]:
        return cast(
            "tuple[type[msgspec.Struct], type[msgspec.Struct]]", get_args(self.handler.__annotations__["request"])
        )

    @property
    def query(self) -> type[msgspec.Struct]:
        """The type of the query parameters."""
        return self._request_types[0]

    @property
    def body(self) -> type[msgspec.Struct]:
        """The type of the request body."""
        return self._request_types[1]

    @cached_property
    def has_body(self) -> bool:
        """Whether it takes a body."""
        return self.body is not EmptyBody

    @cached_property
    def decode(self) -> Callable[[bytes], msgspec.Struct]:
        """The function that decodes a body."""
        return msgspec.json.Decoder(self.body).decode

    @cached_property
    def default_query(self) -> msgspec.Struct:
        """The query of a request without parameters."""
        return self.query()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The paths that it serves."""
        return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(self.path)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))
