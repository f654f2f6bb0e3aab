"""The route table of the HTTP API, which decoding, authorization and the OpenAPI document use."""

from http import HTTPStatus as S

from agenttool.server.access_messages import KeyList, LoginReply, Me, NewKey, SessionList
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
    AnswerReply,
    AnyObject,
    Approval,
    ApprovalList,
    BatchReply,
    CallDetail,
    CallList,
    CallReply,
    CancelReply,
    CheckReply,
    LogReply,
    MatchReply,
    RuleList,
    SourceList,
    StatsReply,
    ToolDetail,
    ToolPage,
    TryReply,
)
from agenttool.server.openapi import get_openapi
from agenttool.server.route import APPROVER, AUDITING, CALLER, EVERY_ROLE, OPERATOR, READERS, Route
from agenttool.server.stream_routes import get_health, get_metrics, get_status, stream_events
from agenttool.server.tool_routes import create_surface, get_surface, get_tool, list_tools, search

_OK_OR_ACCEPTED = (S.OK, S.ACCEPTED)
_REFUSED = (S.NOT_FOUND, S.CONFLICT, S.GONE, S.UNPROCESSABLE_ENTITY)
_NOT_FOUND = (S.NOT_FOUND,)
_CLOSED = (S.NOT_FOUND, S.GONE)
_NO_CONTENT = (S.NO_CONTENT,)
_CANCELERS = CALLER | OPERATOR

ROUTES = (
    Route(
        "POST",
        "/v1/calls",
        make_call,
        CALLER,
        CallReply,
        statuses=_OK_OR_ACCEPTED,
        problems=(S.NOT_FOUND, S.CONFLICT, S.SERVICE_UNAVAILABLE),
    ),
    Route("GET", "/v1/calls", list_calls, EVERY_ROLE, CallList),
    Route("GET", "/v1/calls/{invocation_id}", get_call, EVERY_ROLE, CallDetail, problems=_NOT_FOUND),
    Route(
        "POST",
        "/v1/calls/{invocation_id}/cancel",
        cancel_call,
        _CANCELERS,
        CancelReply,
        statuses=(S.ACCEPTED,),
        problems=_NOT_FOUND,
    ),
    Route(
        "POST",
        "/v1/batches",
        make_batch,
        CALLER,
        BatchReply,
        statuses=_OK_OR_ACCEPTED,
        problems=(S.BAD_REQUEST, S.NOT_FOUND, S.SERVICE_UNAVAILABLE),
    ),
    Route(
        "GET",
        "/v1/results/{invocation_id}/payloads/{digest}",
        get_payload,
        EVERY_ROLE,
        bytes,
        media="application/octet-stream",
        statuses=(S.OK, S.PARTIAL_CONTENT),
        problems=(S.NOT_FOUND, S.REQUESTED_RANGE_NOT_SATISFIABLE),
    ),
    Route("GET", "/v1/approvals", list_approvals, READERS, ApprovalList),
    Route("GET", "/v1/approvals/{approval_id}", get_approval, READERS, Approval, problems=_CLOSED),
    Route("POST", "/v1/approvals/{approval_id}", answer_approval, APPROVER, AnswerReply, problems=_REFUSED),
    Route("POST", "/v1/approvals/{approval_id}/check", check_input, APPROVER, CheckReply, problems=_CLOSED),
    Route("GET", "/v1/tools", list_tools, EVERY_ROLE, ToolPage),
    Route("GET", "/v1/tools/{name}", get_tool, EVERY_ROLE, ToolDetail, problems=_NOT_FOUND),
    Route("POST", "/v1/search", search, EVERY_ROLE, AnyObject, problems=_NOT_FOUND),
    Route("POST", "/v1/surfaces", create_surface, CALLER, AnyObject, statuses=(S.CREATED,)),
    Route("GET", "/v1/surfaces/{surface_id}", get_surface, EVERY_ROLE, AnyObject, problems=_NOT_FOUND),
    Route("GET", "/v1/sources", list_sources, EVERY_ROLE, SourceList),
    Route("GET", "/v1/sources/{name}/log", get_source_log, AUDITING, LogReply, problems=_NOT_FOUND),
    Route("GET", "/v1/rules", list_rules, READERS, RuleList),
    Route(
        "DELETE", "/v1/rules/{approval_id}", forget_rule, OPERATOR | APPROVER, statuses=_NO_CONTENT, problems=_NOT_FOUND
    ),
    Route("POST", "/v1/policy/try", try_policy, READERS, TryReply, problems=_NOT_FOUND),
    Route("POST", "/v1/policy/matches", match_rule, READERS, MatchReply),
    Route("GET", "/v1/stats", get_stats, READERS, StatsReply),
    Route("GET", "/v1/status", get_status, EVERY_ROLE, AnyObject),
    Route("GET", "/v1/events", stream_events, READERS, str, media="text/event-stream"),
    Route("GET", "/v1/me", get_me, EVERY_ROLE, Me),
    Route("POST", "/v1/login", log_in, None, LoginReply, problems=(S.UNAUTHORIZED,)),
    Route("POST", "/v1/logout", log_out, None, statuses=_NO_CONTENT, problems=(S.UNAUTHORIZED,)),
    Route("GET", "/v1/keys", list_keys, OPERATOR, KeyList),
    Route("POST", "/v1/keys", add_key, OPERATOR, NewKey, statuses=(S.CREATED,)),
    Route("DELETE", "/v1/keys/{key_id}", revoke_key, OPERATOR, statuses=_NO_CONTENT, problems=_NOT_FOUND),
    Route("GET", "/v1/sessions", list_sessions, OPERATOR, SessionList),
    Route("DELETE", "/v1/sessions/{session_id}", revoke_session, OPERATOR, statuses=_NO_CONTENT, problems=_NOT_FOUND),
    Route("GET", "/healthz", get_health, None, str, media="text/plain", problems=(S.SERVICE_UNAVAILABLE,)),
    Route("GET", "/metrics", get_metrics, AUDITING, str, media="text/plain"),
    Route("GET", "/openapi.json", get_openapi, None, AnyObject),
)
"""Every route; the reference of the HTTP API is generated from it and the docstrings of the handlers."""
