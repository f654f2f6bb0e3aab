"""The route table of the HTTP API, which decoding, authorization and the OpenAPI document use."""

from http import HTTPStatus as S

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
from agenttool.server.messages import StatusReply
from agenttool.server.openapi import get_openapi
from agenttool.server.route import APPROVER, AUDITING, CALLER, EVERY_ROLE, OPERATOR, READERS, Route
from agenttool.server.stream_routes import get_health, get_metrics, get_status, stream_events
from agenttool.server.tool_routes import create_surface, get_surface, get_tool, list_tools, search

_OK_OR_ACCEPTED = (S.OK, S.ACCEPTED)
_REFUSED = (S.CONFLICT, S.GONE, S.UNPROCESSABLE_ENTITY)
_NOT_FOUND = (S.NOT_FOUND,)

ROUTES = (
    Route(
        "POST",
        "/v1/calls",
        make_call,
        CALLER,
        statuses=_OK_OR_ACCEPTED,
        problems=(S.NOT_FOUND, S.CONFLICT, S.SERVICE_UNAVAILABLE),
    ),
    Route("GET", "/v1/calls", list_calls, EVERY_ROLE),
    Route("GET", "/v1/calls/{invocation_id}", get_call, EVERY_ROLE),
    Route("POST", "/v1/calls/{invocation_id}/cancel", cancel_call, CALLER | OPERATOR, statuses=(S.ACCEPTED,)),
    Route(
        "POST",
        "/v1/batches",
        make_batch,
        CALLER,
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
        problems=(S.REQUESTED_RANGE_NOT_SATISFIABLE,),
    ),
    Route("GET", "/v1/approvals", list_approvals, READERS),
    Route("GET", "/v1/approvals/{approval_id}", get_approval, READERS, problems=(S.GONE,)),
    Route("POST", "/v1/approvals/{approval_id}", answer_approval, APPROVER, problems=_REFUSED),
    Route("POST", "/v1/approvals/{approval_id}/check", check_input, APPROVER, problems=(S.GONE,)),
    Route("GET", "/v1/tools", list_tools, EVERY_ROLE),
    Route("GET", "/v1/tools/{name}", get_tool, EVERY_ROLE),
    Route("POST", "/v1/search", search, EVERY_ROLE, problems=_NOT_FOUND),
    Route("POST", "/v1/surfaces", create_surface, CALLER, statuses=(S.CREATED,)),
    Route("GET", "/v1/surfaces/{surface_id}", get_surface, EVERY_ROLE),
    Route("GET", "/v1/sources", list_sources, EVERY_ROLE),
    Route("GET", "/v1/sources/{name}/log", get_source_log, AUDITING),
    Route("GET", "/v1/rules", list_rules, READERS),
    Route("DELETE", "/v1/rules/{approval_id}", forget_rule, OPERATOR | APPROVER),
    Route("POST", "/v1/policy/try", try_policy, READERS, problems=_NOT_FOUND),
    Route("POST", "/v1/policy/matches", match_rule, READERS),
    Route("GET", "/v1/stats", get_stats, READERS),
    Route("GET", "/v1/status", get_status, EVERY_ROLE, StatusReply),
    Route("GET", "/v1/events", stream_events, EVERY_ROLE, str, media="text/event-stream"),
    Route("GET", "/v1/me", get_me, EVERY_ROLE),
    Route("POST", "/v1/login", log_in, None, problems=(S.UNAUTHORIZED,)),
    Route("POST", "/v1/logout", log_out, None, problems=(S.UNAUTHORIZED,)),
    Route("GET", "/v1/keys", list_keys, OPERATOR),
    Route("POST", "/v1/keys", add_key, OPERATOR, statuses=(S.CREATED,)),
    Route("DELETE", "/v1/keys/{key_id}", revoke_key, OPERATOR),
    Route("GET", "/v1/sessions", list_sessions, OPERATOR),
    Route("DELETE", "/v1/sessions/{session_id}", revoke_session, OPERATOR),
    Route("GET", "/healthz", get_health, None, str, media="text/plain", problems=(S.SERVICE_UNAVAILABLE,)),
    Route("GET", "/metrics", get_metrics, AUDITING, str, media="text/plain"),
    Route("GET", "/openapi.json", get_openapi, None),
)
"""Every route; the reference of the HTTP API is generated from it and the docstrings of the handlers."""
