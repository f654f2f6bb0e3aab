"""One route of the HTTP API: its request, its response and the roles that may use it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from http import HTTPStatus
from math import inf
from types import NoneType
from typing import Generic, TypeAlias, TypeVar, get_args, get_origin

import msgspec
from starlette.types import Scope

from agenttool.history.reader import JournalReader
from agenttool.ports.identity import AccessRole, Principal
from agenttool.server.authentication import Identity
from agenttool.server.problem import draining
from agenttool.server.state import ServerState
from agenttool.server.tenants import Tenant


class EmptyQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without query parameters."""


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request without a body."""


Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)
T = TypeVar("T")

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

    async def read(self, use: Callable[[JournalReader], T]) -> T:
        """Return what a function reads from the journal of the tenant, in a thread if that is a file.

        Raises:
            QuotaError: too many reads of the principal run or wait.
            Problem: 503, because the server stops.
        """
        with self.server.within(inf, self.identity):
            return await self.server.reads.read(self.tenant, self.principal, use)
        raise draining()


PlainRequest: TypeAlias = ApiRequest[EmptyQuery, EmptyBody]


class Reply(msgspec.Struct, Generic[T], frozen=True):
    """A response with headers, or with another status than the usual one of its route."""

    value: T
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    status: HTTPStatus | None = None


Handler = Callable[..., Awaitable[object]]
"""Takes an `ApiRequest`, whose annotation names the types of the query and the body.

Returns a `Response`, or a value that is encoded as JSON, also within a `Reply`; None for a response without a body.
"""


@dataclass(frozen=True)
class Route:
    """One line of the route table.

    Attributes:
        path: with names in braces.
        handler: its docstring describes the route, and its annotation the request.
        roles: one of them is required; None if a request needs no identity.
        returned: the type of the response body, if the annotation of the handler does not name it.
        media: the media type of the response body.
        statuses: the statuses of a success with a body; the first is the usual one.
        problems: further statuses of problem documents, besides those of every route.
    """

    method: str
    path: str
    handler: Handler
    roles: frozenset[AccessRole] | None
    returned: object = None
    _: KW_ONLY
    media: str = "application/json"
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    problems: tuple[HTTPStatus, ...] = ()

    @cached_property
    def reply(self) -> object:
        """The type of the response body; None if there is none."""
        found = self.returned or self.handler.__annotations__["return"]
        inner = get_args(found)[0] if get_origin(found) is Reply else found
        return None if inner is NoneType else inner

    @property
    def successes(self) -> tuple[HTTPStatus, ...]:
        """The statuses of a success."""
        return (HTTPStatus.NO_CONTENT,) if self.reply is None else self.statuses

    @property
    def failures(self) -> tuple[HTTPStatus, ...]:
        """The statuses of its own problem documents; 404 is one of them if its path has a name."""
        return (HTTPStatus.NOT_FOUND, *self.problems) if self.names else self.problems

    @cached_property
    def query(self) -> type[msgspec.Struct]:
        """The type of the query parameters."""
        return get_args(self.handler.__annotations__["request"])[0]

    @cached_property
    def body(self) -> type[msgspec.Struct]:
        """The type of the request body."""
        return get_args(self.handler.__annotations__["request"])[1]

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
