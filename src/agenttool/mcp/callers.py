"""Who makes a request: the subject of a verified token, and the name that the client gives itself.

The application around the endpoints verifies tokens, and puts the principal into the state of the ASGI scope. The name
of a client proves nothing: it is recorded as a claim, and is never the actor of a call, so no rule allows by it.
"""

from collections.abc import Mapping
from typing import cast

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from agenttool.mcp.exchange import RequestContext
from agenttool.policy.approvals import Approver

PRINCIPAL = "principal"
"""The member of the scope's state with the principal; a local caller without a token has none."""


def subject_in(scope: Mapping[str, object]) -> str | None:
    """Return the subject of the verified principal; None for a local caller.

    Raises:
        PermissionError: the principal has no subject, so the caller is not known.
    """
    principal = _principal_in(scope)
    if principal is None:
        return None
    subject: object = getattr(principal, "subject", None)
    if not isinstance(subject, str) or not subject:
        raise PermissionError("the token has no subject; use a token that names one")
    return subject


def session_owner(scope: Mapping[str, object]) -> AuthenticatedUser | None:
    """Return the caller in the form of the SDK, which then serves a session only to the caller that opened it."""
    subject = subject_in(scope)
    if subject is None:
        return None
    issuer: object = getattr(_principal_in(scope), "tenant", None)
    return AuthenticatedUser(
        AccessToken(token="", client_id=subject, scopes=[], subject=subject, claims={"iss": issuer})
    )


def actor_of(context: RequestContext, default: str | None) -> str | None:
    """Return the actor of a request: the subject of its token; without a token the default of the server."""
    scope: object = getattr(context.request, "scope", None)  # on stdio there is no request
    subject = subject_in(cast("Mapping[str, object]", scope)) if isinstance(scope, Mapping) else None
    return default if subject is None else subject


def approver_of(context: RequestContext, actor: str | None) -> Approver:
    """Return who answers a question in a client, or cancels a call there; never the user of this server."""
    params = context.session.client_params
    client = "an MCP client" if params is None else f"the MCP client {params.client_info.name}"
    return Approver(claim=client if actor is None else f"{actor} with {client}")


def _principal_in(scope: Mapping[str, object]) -> object | None:
    state = scope.get("state")
    return cast("Mapping[str, object]", state).get(PRINCIPAL) if isinstance(state, Mapping) else None
