"""The caller of a request: the principal that the gateway authenticated, and the name of the client.

The application around the endpoints stores the principal in the state of the ASGI scope. The name of a client is not
authenticated: it is recorded as a claim, and is never the actor of a call, so rules do not match it.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from agenttool.codec import object_of
from agenttool.errors import QuotaError
from agenttool.mcp.exchange import RequestContext
from agenttool.policy.approvals import Approver
from agenttool.ports.identity import AccessRole, IdentityKind, Principal

PRINCIPAL = "principal"
"""The member of the scope's state with the principal."""


MAX_NAME_CHARS = 200
"""How many characters of the name and the version of a client are stored."""

_CAPABILITIES = ("elicitation", "roots", "sampling")
"""The capabilities of a client that are used, on revisions with a handshake."""

IS_ENDED_HERE = "is_ended_here"
"""The member with a function that returns whether the server ended the request: a key was revoked, or it stops."""


def principal_in(scope: Mapping[str, object]) -> Principal | None:
    """Return the authenticated principal of a request; None if the application around it authenticates no caller.

    Raises:
        PermissionError: the principal has no subject, so the caller is not known.
    """
    found = _state_member(scope, PRINCIPAL)
    if found is None:
        return None
    if not isinstance(found, Principal) or not found.subject:
        raise PermissionError("the token has no subject; use a token that names one")
    return found


@lru_cache(1024)
def session_owner(principal: Principal | None) -> AuthenticatedUser | None:
    """Return the caller in the form of the SDK, which then serves a session only to the caller that opened it."""
    if principal is None:
        return None
    subject, claims = principal.subject, {"iss": principal.tenant}
    return AuthenticatedUser(AccessToken(token="", client_id=subject, scopes=[], subject=subject, claims=claims))


def _state_member(scope: Mapping[str, object], name: str) -> object:
    return object_of(scope.get("state")).get(name)


def _scope_of(context: RequestContext) -> Mapping[str, object]:
    return object_of(getattr(context.request, "scope", None))  # on stdio there is no request


def principal_of(context: RequestContext) -> Principal | None:
    """Return the authenticated principal of a request to a handler."""
    return principal_in(_scope_of(context))


def is_ended_here(context: RequestContext) -> bool:
    """Return whether the server ended a request, and not its client."""
    is_ended = _state_member(_scope_of(context), IS_ENDED_HERE)
    return callable(is_ended) and bool(is_ended())


def approver_of(context: RequestContext) -> Approver:
    """Return the approver of an answer or a cancellation that comes from a client."""
    params = context.session.client_params
    client = "an MCP client" if params is None else f"the MCP client {params.client_info.name[:MAX_NAME_CHARS]}"
    return Approver(claim=client, principal=principal_of(context))


async def bound_introduction(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Handle a request; after a handshake, remove what is not used from its parameters.

    The SDK stores the parameters after this returns, for as long as the session is open.
    """
    reply = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(ctx.params, dict):
        params = cast("dict[str, dict[str, object]]", ctx.params)
        about, declared = params["clientInfo"], params["capabilities"]
        names = {name: str(about[name])[:MAX_NAME_CHARS] for name in ("name", "version")}
        known = {name: each for name, each in declared.items() if name in _CAPABILITIES}
        stored = {"protocolVersion": params["protocolVersion"], "clientInfo": names, "capabilities": known}
        params.clear()
        params |= cast("dict[str, dict[str, object]]", stored)
    return reply


def may_approve(context: RequestContext, *, own_calls: bool) -> bool:
    """Return whether the caller of a request may approve its own call.

    Over stdio, the user who started the server answers in the client. Over HTTP, the gateway knows a principal; the
    owner must allow own calls, and a caller with a token needs the role.
    """
    principal = principal_of(context)
    if principal is None:
        return True
    return own_calls and (principal.kind is IdentityKind.LOCAL or principal.has(AccessRole.APPROVER))


ParamsT = TypeVar("ParamsT", bound=BaseModel)
ResultT = TypeVar("ResultT")


def within_quota(
    handler: Callable[[RequestContext, ParamsT], Awaitable[ResultT]],
) -> Callable[[RequestContext, ParamsT], Awaitable[ResultT]]:
    """Return a handler that answers with an MCP error if its caller has too many of something."""

    async def handle(context: RequestContext, params: ParamsT) -> ResultT:
        try:
            return await handler(context, params)
        except QuotaError as error:
            raise MCPError(types.INVALID_REQUEST, str(error)) from error

    return handle
