"""The route table of the HTTP API: decoding, authorization and the OpenAPI document are made from it."""

from http import HTTPStatus as S
from typing import TypeVar, cast

import msgspec

from agenttool.ports.identity import AccessRole
from agenttool.server.access_messages import (
    KeyBody,
    KeyList,
    LoginBody,
    LoginReply,
    Me,
    NewKey,
    SessionList,
)
from agenttool.server.access_routes import (
    add_key,
    get_me,
    list_keys,
    list_sessions,
    log_in,
    log_out,
    revoke_key,
    revoke_session,
)
from agenttool.server.approval_routes import answer_approval, check_input, get_approval, list_approvals
from agenttool.server.call_routes import cancel_call, get_call, get_payload, list_calls, make_batch, make_call
from agenttool.server.govern_routes import (
    forget_rule,
    get_source_log,
    get_stats,
    list_rules,
    list_sources,
    match_rule,
    try_policy,
)
from agenttool.server.messages import (
    AnswerBody,
    AnswerReply,
    AnyObject,
    Approval,
    ApprovalList,
    ApprovalListQuery,
    BatchBody,
    BatchReply,
    CallBody,
    CallDetail,
    CallList,
    CallListQuery,
    CallQuery,
    CallReply,
    CancelReply,
    CheckReply,
    EventQuery,
    InputBody,
    LogReply,
    MatchBody,
    MatchReply,
    RuleList,
    SearchBody,
    SourceList,
    StatsQuery,
    StatsReply,
    SurfaceBody,
    SurfaceQuery,
    ToolDetail,
    ToolListQuery,
    ToolPage,
    TryBody,
    TryReply,
)
from agenttool.server.openapi import get_openapi
from agenttool.server.route import (
    APPROVER,
    AUDITING,
    CALLER,
    EVERY_ROLE,
    OPERATOR,
    READERS,
    AnyRoute,
    EmptyBody,
    EmptyQuery,
    Handler,
    Route,
)
from agenttool.server.stream_routes import get_health, get_metrics, get_status, stream_events
from agenttool.server.tool_routes import create_surface, get_surface, get_tool, list_tools, search

_Q = TypeVar("_Q", bound=msgspec.Struct)
_B = TypeVar("_B", bound=msgspec.Struct)


def _route(  # noqa: PLR0913 -- the columns of the table
    words: str,
    handler: Handler[_Q, _B],
    roles: frozenset[AccessRole] | None,
    reply: object = None,
    *,
    query: type[_Q] = EmptyQuery,
    body: type[_B] = EmptyBody,
    statuses: tuple[S, ...] = (S.OK,),
    problems: tuple[S, ...] = (),
    media: str = "application/json",
) -> AnyRoute:
    method, _, path = words.partition(" ")
    route = Route(
        method=method,
        path=path,
        handler=handler,
        roles=roles,
        query=query,
        body=body,
        reply=cast("type | None", reply),
        media=media,
        statuses=statuses,
        problems=problems,
    )
    return cast("AnyRoute", route)


_ENDED_OR_NOT = (S.OK, S.ACCEPTED)
_REFUSED = (S.NOT_FOUND, S.CONFLICT, S.GONE, S.UNPROCESSABLE_ENTITY)
_MISSING = (S.NOT_FOUND,)
_CLOSED = (S.NOT_FOUND, S.GONE)
_NOTHING = (S.NO_CONTENT,)
_CANCELERS = CALLER | OPERATOR

ROUTES: tuple[AnyRoute, ...] = (
    _route(
        "POST /v1/calls",
        make_call,
        CALLER,
        CallReply,
        query=CallQuery,
        body=CallBody,
        statuses=_ENDED_OR_NOT,
        problems=(S.NOT_FOUND, S.CONFLICT),
    ),
    _route("GET /v1/calls", list_calls, EVERY_ROLE, CallList, query=CallListQuery),
    _route("GET /v1/calls/{invocation_id}", get_call, EVERY_ROLE, CallDetail, query=CallQuery, problems=_MISSING),
    _route(
        "POST /v1/calls/{invocation_id}/cancel",
        cancel_call,
        _CANCELERS,
        CancelReply,
        statuses=(S.ACCEPTED,),
        problems=_MISSING,
    ),
    _route(
        "POST /v1/batches",
        make_batch,
        CALLER,
        BatchReply,
        query=CallQuery,
        body=BatchBody,
        statuses=_ENDED_OR_NOT,
        problems=_MISSING,
    ),
    _route(
        "GET /v1/results/{invocation_id}/payloads/{digest}",
        get_payload,
        EVERY_ROLE,
        bytes,
        media="application/octet-stream",
        statuses=(S.OK, S.PARTIAL_CONTENT),
        problems=(S.NOT_FOUND, S.REQUESTED_RANGE_NOT_SATISFIABLE),
    ),
    _route("GET /v1/approvals", list_approvals, READERS, ApprovalList, query=ApprovalListQuery),
    _route("GET /v1/approvals/{approval_id}", get_approval, READERS, Approval, problems=_CLOSED),
    _route(
        "POST /v1/approvals/{approval_id}", answer_approval, APPROVER, AnswerReply, body=AnswerBody, problems=_REFUSED
    ),
    _route(
        "POST /v1/approvals/{approval_id}/check", check_input, APPROVER, CheckReply, body=InputBody, problems=_CLOSED
    ),
    _route("GET /v1/tools", list_tools, EVERY_ROLE, ToolPage, query=ToolListQuery),
    _route("GET /v1/tools/{name}", get_tool, EVERY_ROLE, ToolDetail, problems=_MISSING),
    _route("POST /v1/search", search, EVERY_ROLE, AnyObject, body=SearchBody, problems=_MISSING),
    _route("POST /v1/surfaces", create_surface, CALLER, AnyObject, body=SurfaceBody, statuses=(S.CREATED,)),
    _route("GET /v1/surfaces/{surface_id}", get_surface, EVERY_ROLE, AnyObject, query=SurfaceQuery, problems=_MISSING),
    _route("GET /v1/sources", list_sources, EVERY_ROLE, SourceList),
    _route("GET /v1/sources/{name}/log", get_source_log, AUDITING, LogReply, problems=_MISSING),
    _route("GET /v1/rules", list_rules, READERS, RuleList),
    _route("DELETE /v1/rules/{approval_id}", forget_rule, OPERATOR | APPROVER, statuses=_NOTHING, problems=_MISSING),
    _route("POST /v1/policy/try", try_policy, READERS, TryReply, body=TryBody, problems=_MISSING),
    _route("POST /v1/policy/matches", match_rule, READERS, MatchReply, body=MatchBody),
    _route("GET /v1/stats", get_stats, READERS, StatsReply, query=StatsQuery),
    _route("GET /v1/status", get_status, EVERY_ROLE, AnyObject),
    _route("GET /v1/events", stream_events, READERS, str, query=EventQuery, media="text/event-stream"),
    _route("GET /v1/me", get_me, EVERY_ROLE, Me),
    _route("POST /v1/login", log_in, None, LoginReply, body=LoginBody, problems=(S.UNAUTHORIZED,)),
    _route("POST /v1/logout", log_out, None, statuses=_NOTHING, problems=(S.UNAUTHORIZED,)),
    _route("GET /v1/keys", list_keys, OPERATOR, KeyList),
    _route("POST /v1/keys", add_key, OPERATOR, NewKey, body=KeyBody, statuses=(S.CREATED,)),
    _route("DELETE /v1/keys/{key_id}", revoke_key, OPERATOR, statuses=_NOTHING, problems=_MISSING),
    _route("GET /v1/sessions", list_sessions, OPERATOR, SessionList),
    _route("DELETE /v1/sessions/{session_id}", revoke_session, OPERATOR, statuses=_NOTHING, problems=_MISSING),
    _route("GET /healthz", get_health, None, str, media="text/plain", problems=(S.SERVICE_UNAVAILABLE,)),
    _route("GET /metrics", get_metrics, AUDITING, str, media="text/plain"),
    _route("GET /openapi.json", get_openapi, None, AnyObject),
)
"""Every route; the reference of the HTTP API is made from it and the docstrings of the handlers."""
