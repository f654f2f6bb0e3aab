"""The routes about tools: list them, with the reason if a model does not see one, search, and create surfaces."""

import dataclasses
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar, cast

from msgspec import Raw
from msgspec.structs import asdict

from agenttool.agent.surface_options import SurfaceContext
from agenttool.catalog.absence_text import ToolVisibility, visibility_on
from agenttool.catalog.entry import Entry, estimate_tokens
from agenttool.codec import parse_object, read_own, to_json
from agenttool.errors import RecordError
from agenttool.ports.surfacing import ModelCapabilities, Role
from agenttool.records import (
    Json,
    JsonObject,
    SearchMatch,
    acted_on,
    complete_interface,
    declares,
)
from agenttool.server.messages import (
    SearchBody,
    SearchReply,
    SurfaceBody,
    SurfaceOrRequest,
    SurfaceQuery,
    SurfaceReply,
    ToolDetail,
    ToolListQuery,
    ToolPage,
    ToolSummary,
    optional_member,
    raw,
    raw_record,
    raw_with_type,
)
from agenttool.server.problem import Problem, parse_cursor
from agenttool.server.route import ApiRequest, EmptyBody, EmptyQuery, PlainRequest, Reply

_K = TypeVar("_K", Role, ModelCapabilities)
_RISKS = ("is_read_only", "is_destructive", "is_open_world", "is_concurrency_safe", "requires_user_interaction")
_SEARCHED = 100
_MAX_PART_BYTES = 20_000
_STATES = ("loaded", "blocked", "excluded", "unoffered")


async def list_tools(request: ApiRequest[ToolListQuery, EmptyBody]) -> ToolPage:
    """List all tools with the reason of every absence; with `query`, those that a search finds."""
    query, tenant = request.query, request.tenant
    surface = await tenant.session_surface(request.principal)
    if query.query is None:
        entries = sorted(tenant.runtime.inspection.tools(), key=lambda each: each.qualified_name)
    else:
        result = await tenant.runtime.search(query.query, limit=_SEARCHED)
        found = (each.tool_id for each in result.matches if isinstance(each, SearchMatch))
        matched = (tenant.runtime.inspection.tool(each) for each in found)
        entries = [each for each in matched if each is not None]
    visibility = visibility_on(surface)
    chosen = [
        (entry, state)
        for entry in entries
        if query.source in (None, entry.tool.declaration.namespace)
        for state in (visibility(entry.tool_id, entry.qualified_name),)
        if query.state in (None, _group(state))
    ]
    if query.query is None:
        chosen.sort(key=lambda each: each[1].state != "loaded")  # what a model sees comes first, both parts by name
    start = parse_cursor(query.cursor) or 0
    page = chosen[start : start + query.limit]
    after = start + query.limit
    return ToolPage(
        items=[_summary(entry, state) for entry, state in page],
        next_cursor=str(after) if after < len(chosen) else None,
        total=len(chosen),
    )


def _summary(entry: Entry, state: ToolVisibility) -> ToolSummary:
    declaration = entry.tool.declaration
    return ToolSummary(
        tool_id=entry.tool_id,
        name=entry.qualified_name,
        source=declaration.namespace,
        description=declaration.description,
        state=_group(state),
        why=state.why,
        would_change=state.would_change,
        tokens=estimate_tokens(declaration),
        read_only=acted_on(entry.tool.interface, "is_read_only") is True,
        lifecycle=declaration.lifecycle.value,
        digest=declaration.digest,
    )


def _group(visibility: ToolVisibility) -> str:
    """Return the state as the API names it: every loading state of a deferred tool is `deferred`."""
    return visibility.state if visibility.state in _STATES else "deferred"


async def get_tool(request: PlainRequest) -> ToolDetail:
    """Return one tool, by its qualified name or its id, with its records."""
    name, tenant = request.path["name"], request.tenant
    entry = tenant.runtime.inspection.tool(name)
    if entry is None:
        raise Problem(HTTPStatus.NOT_FOUND, f"no tool is named {name!r}; GET /v1/tools lists all")
    visibility = visibility_on(await tenant.session_surface(request.principal))
    tool, summary = entry.tool, _summary(entry, visibility(entry.tool_id, entry.qualified_name))
    contract = tool.declaration.input_contract
    return ToolDetail(
        **asdict(summary),
        declaration=raw_with_type(tool.declaration),
        interface=raw_with_type(complete_interface(tool.interface)),
        execution_profile=raw_with_type(tool.execution_profile),
        permission_profile=raw_with_type(tool.permission_profile),
        input_schema=raw((contract and contract.model_input_schema) or {}),
        risk=raw(risk_of(entry)),
    )


def risk_of(entry: Entry) -> JsonObject:
    """Return the facts about a tool that decisions use, and which of them are assumed because none is declared."""
    interface = entry.tool.interface
    facts: JsonObject = {name.removeprefix("is_"): cast("Json", acted_on(interface, name)) for name in _RISKS}
    return {**facts, "assumed": [name.removeprefix("is_") for name in _RISKS if not declares(interface, name)]}


async def create_surface(request: ApiRequest[EmptyQuery, SurfaceBody]) -> Reply[SurfaceReply]:
    """Create the surface of one context; return it with its `Location`. No other caller can use it.

    `role` has the members of `Role`, and `model` those of `ModelCapabilities`.
    """
    body = request.body
    context = SurfaceContext(
        role=_part(body.role, "role", Role),
        model=_part(body.model, "model", ModelCapabilities),
        tool_choice=body.tool_choice or "auto",
        refs=body.refs or (),
        reason=body.reason,
    )
    surface = await request.tenant.create_surface(request.principal, body.scope, body.only, **context)
    return Reply(raw_record(surface), {"location": f"/v1/surfaces/{surface.surface_id}"})


async def get_surface(request: ApiRequest[SurfaceQuery, EmptyBody]) -> Reply[SurfaceOrRequest]:
    """Return a surface; with `format`, the tools of a request in the format of a model's provider.

    A surface never changes. If a newer one replaced it, the `Link` header names that one.
    """
    runtime = request.tenant.runtime
    surface = request.tenant.surface(request.principal, request.path["surface_id"], reads_only=True)
    latest = runtime.surfaces.current(surface).surface_id
    newer = {} if latest == surface.surface_id else {"link": f'</v1/surfaces/{latest}>; rel="latest-version"'}
    wanted = request.query.format
    if wanted is None:
        return Reply(raw_record(surface), newer)
    if wanted == "mcp":
        tools: list[Json] = [
            {"name": each.qualified_name, "description": each.description, "inputSchema": each.input_schema}
            for each in runtime.surfaces.offered(surface, deferred=False)
        ]
        return Reply(raw({"tools": tools}), newer)
    return Reply(raw((await runtime.tools_for(wanted, surface=surface)).request()), newer)


async def search(request: ApiRequest[EmptyQuery, SearchBody]) -> SearchReply:
    """Find tools by words, by exact name (`select:NAME`) or by a pattern (`regex:PATTERN`)."""
    body, tenant = request.body, request.tenant
    if body.surface_id is None:
        surface = await tenant.session_surface(request.principal)
    else:
        surface = tenant.surface(request.principal, body.surface_id, "/surface_id")
    return raw(to_json(await tenant.runtime.search(body.query, surface=surface, limit=body.limit)))


def _part(member: Raw, name: str, kind: type[_K]) -> _K | None:
    """Decode a member of the body as a dataclass; None if it is absent.

    Raises:
        Problem: it is no object, or a member is unknown or invalid.
    """
    text = optional_member(member)
    if text is None:
        return None
    known, pointer = [each.name for each in dataclasses.fields(kind)], f"/{name}"
    if len(text) > _MAX_PART_BYTES:
        detail = f"{name} has more than {_MAX_PART_BYTES} bytes; leave out members"
        raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer=pointer)
    with suppress(RecordError):
        unknown = [each for each in parse_object(text) if each not in known]
        if not unknown:
            return read_own(text, kind)
        pointer = f"/{name}/{unknown[0]}"
    detail = f"{name} must be an object with the members {', '.join(known)}; correct it"
    raise Problem(HTTPStatus.BAD_REQUEST, detail, pointer=pointer)
