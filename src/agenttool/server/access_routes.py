"""The routes about identity: login, the own identity, API keys and console sessions."""

import time
from http import HTTPStatus
from typing import TypeVar

from msgspec.structs import asdict

from agenttool.codec.moments import timestamp
from agenttool.ports.identity import AccessRole, IdentityKind
from agenttool.server.access_messages import (
    KeyBody,
    KeyItem,
    KeyList,
    LoginBody,
    LoginReply,
    Me,
    NewKey,
    ServerInfo,
    SessionItem,
    SessionList,
)
from agenttool.server.authentication import Identity, split_session, unauthorized
from agenttool.server.grants import Grant, GrantKind
from agenttool.server.problem import Problem
from agenttool.server.route import ApiRequest, EmptyQuery, PlainRequest, Reply

SESSION_S = 12 * 3600.0
LINK_S = 15 * 60.0
"""The lifetimes of a console session and of a login link."""

_Item = TypeVar("_Item", KeyItem, SessionItem)
_NO_SESSION = (
    "no session was ended: it has ended before, or the page lost its key; an operator ends a session on the page Access"
)


async def log_in(request: ApiRequest[EmptyQuery, LoginBody]) -> Reply[LoginReply]:
    """Exchange the token of a login link, or an API key, for a console session.

    One part of its secret is a cookie, and the page sends the other part, `page_key`, as the header
    `Agenttool-Page-Key` of each request: browsers send cookies to the servers on all ports of a host.
    """
    authenticator, body = request.server.authenticator, request.body
    grants = authenticator.grants
    if (body.token is None) == (body.key is None):
        raise Problem(HTTPStatus.BAD_REQUEST, "send the token of a login link, or a key", pointer="/token")
    if body.token is not None:
        found = await grants.consume(body.token)
    else:
        found = await grants.find(body.key or "", GrantKind.KEY)
    if found is None:
        detail = "the link was used or has expired, or the key is not valid; make a link with `agenttool keys link`"
        raise unauthorized(detail)
    token, session = await grants.add(
        GrantKind.SESSION,
        subject=found.subject,
        tenant=found.tenant,
        roles=found.roles,
        created_by=found.subject,
        lifetime_s=SESSION_S,
        key_id=found.grant_id if found.kind is GrantKind.KEY else None,
    )
    await grants.delete_surplus(session)
    identity = Identity(principal=session.principal, grant=session, expires_at_s=session.expires_at_s)
    in_cookie, page_key = split_session(token)
    cookie = authenticator.cookie(request.scope, in_cookie, SESSION_S)
    me = _me(request.server.info, identity)
    return Reply(LoginReply(page_key=page_key, **asdict(me)), {"set-cookie": cookie})


async def log_out(request: PlainRequest) -> Reply[None]:
    """End the console session of the request, which needs the cookie and the header `Agenttool-Page-Key`."""
    authenticator = request.server.authenticator
    token = authenticator.session_token(request.scope, request.headers)
    session = None if token is None else await authenticator.grants.find(token, GrantKind.SESSION)
    headers = {"set-cookie": authenticator.cookie(request.scope, "", 0)}
    if session is None:
        raise Problem(HTTPStatus.UNAUTHORIZED, _NO_SESSION, headers=headers)
    await authenticator.grants.revoke(GrantKind.SESSION, session.grant_id)
    authenticator.clear_cache()
    return Reply(None, headers)


async def get_me(request: PlainRequest) -> Me:
    """Return the identity of the request, and what a client may know about the server."""
    return _me(request.server.info, request.identity)


def _me(info: ServerInfo, identity: Identity) -> Me:
    principal = identity.principal
    return Me.of(
        principal,
        roles=sorted(principal.roles),
        kind=IdentityKind(principal.kind).value,
        expires_at=_moment(identity.expires_at_s),
        server=info,
    )


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(round(seconds * 1e9))


async def list_keys(request: PlainRequest) -> KeyList:
    """List the API keys of the tenant, without their secrets."""
    found = await request.server.authenticator.grants.list(GrantKind.KEY, request.principal.tenant)
    return KeyList(items=[_key_item(each) for each in found])


async def add_key(request: ApiRequest[EmptyQuery, KeyBody]) -> NewKey:
    """Create an API key for the tenant; its secret is returned once and is not stored."""
    body = request.body
    token, grant = await request.server.authenticator.grants.add(
        GrantKind.KEY,
        subject=body.subject,
        tenant=request.principal.tenant,
        roles={AccessRole(each) for each in body.roles},
        created_by=request.principal.subject,
        lifetime_s=body.expires_in_s,
    )
    return NewKey(key=token, **asdict(_key_item(grant)))


def _key_item(grant: Grant) -> KeyItem:
    used, revoked = _moment(grant.used_at_s), _moment(grant.revoked_at_s)
    return _item(KeyItem, grant, key_id=grant.grant_id, last_used_at=used, revoked_at=revoked)


def _item(kind: type[_Item], grant: Grant, **members: object) -> _Item:
    """Return a grant as an item of a list."""
    roles, created_at = [each.value for each in grant.roles], _moment(grant.created_at_s)
    return kind.of(grant, roles=roles, created_at=created_at, expires_at=_moment(grant.expires_at_s), **members)


async def revoke_key(request: PlainRequest) -> None:
    """Revoke an API key; its requests and streams end, its calls continue."""
    await _revoke(request, GrantKind.KEY, request.path["key_id"])


async def revoke_session(request: PlainRequest) -> None:
    """End a console session."""
    await _revoke(request, GrantKind.SESSION, request.path["session_id"])


async def _revoke(request: PlainRequest, kind: GrantKind, grant_id: str) -> None:
    authenticator = request.server.authenticator
    if not await authenticator.grants.revoke(kind, grant_id, request.principal.tenant):
        raise Problem(HTTPStatus.NOT_FOUND, f"there is no valid key or session {grant_id!r}; list them first")
    authenticator.clear_cache()


async def list_sessions(request: PlainRequest) -> SessionList:
    """List the console sessions of the tenant."""
    found = await request.server.authenticator.grants.list(GrantKind.SESSION, request.principal.tenant)
    own = request.identity.grant
    items = [
        _item(SessionItem, each, session_id=each.grant_id, is_current=own is not None and own.grant_id == each.grant_id)
        for each in found
        if each.is_valid(time.time())
    ]
    return SessionList(items=items)
