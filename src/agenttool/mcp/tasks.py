"""The tasks extension (SEP-2663): calls that take long, which a client follows by polling.

The id of a task is the id of its invocation, and the journal has its state, so a task outlives the process.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers

from agenttool.adapters.mcp.session import TASKS_EXTENSION
from agenttool.history.listed_call import tool_name
from agenttool.mcp.calls import ToolRun
from agenttool.mcp.exchange import RequestContext, is_stateless, missing_capability, wire
from agenttool.mcp.listing import native_members
from agenttool.mcp.profiles import has_tool
from agenttool.mcp.results import server_error
from agenttool.ports.offer import OfferedTool
from agenttool.ports.quota import OwnedEntries
from agenttool.ports.surfacing import Role
from agenttool.records import ErrorClass, InvocationId, JsonObject, ToolInvocation, ToolKind
from agenttool.runtime import Runtime

TASK_AFTER_S = 5.0
"""A call that takes longer becomes a task, if its client declares the extension."""

POLL_MS = 1_000
TTL_MS = 86_400_000
"""How long a client may read a task; the journal stores it longer."""

MAX_LIVE = 10_000
"""How many tasks of all callers are held in memory; others are read from the journal."""

_REQUIRED: JsonObject = {"extensions": {TASKS_EXTENSION: {}}}
_INTERNAL = frozenset({ErrorClass.RESULT_MAPPING_FAILED, ErrorClass.HOOK_FAILED, ErrorClass.POST_HOOK_FAILED})
"""Failures of the server and not of the tool."""


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, object] | None = None


def declares_tasks(context: RequestContext) -> bool:
    """Return whether the client of a request can follow tasks."""
    declared = context.session.client_capabilities
    return is_stateless(context) and declared is not None and TASKS_EXTENSION in (declared.extensions or {})


def task_after_s(context: RequestContext, tool: OfferedTool | None) -> float | None:
    """Return after how long a call becomes a task; None if its client cannot follow tasks."""
    if not declares_tasks(context):
        return None
    declared = None if tool is None else tool.declared
    return 0.0 if declared is not None and declared.execution_profile.supports_background else TASK_AFTER_S


def refuse_without_tasks(context: RequestContext, tool: OfferedTool | None) -> None:
    """Refuse a call of a tool that only runs as a task, if the client cannot follow tasks.

    Raises:
        MCPError: the tool requires tasks, and the client does not declare them.
    """
    declared = None if tool is None else tool.declared
    if tool is None or (declared is not None and declared.declaration.tool_kind is ToolKind.MCP_TOOL):
        return  # our client follows the tasks of an MCP server, and the caller need not
    execution = native_members(tool).get("execution")
    is_required = isinstance(execution, dict) and execution.get("taskSupport") == "required"
    if is_required and is_stateless(context) and not declares_tasks(context):
        raise missing_capability(_REQUIRED)


@dataclass(slots=True, eq=False)
class ClientTasks:
    """The tasks of one profile.

    Attributes:
        role: the tools of the profile.
        actor_of: returns the actor of a request.
        resume: returns the run of a call that an earlier process started.
    """

    runtime: Runtime
    role: Role | None
    actor_of: Callable[[RequestContext], str | None]
    resume: Callable[[RequestContext, ToolInvocation], ToolRun]
    _live: OwnedEntries[str, ToolRun] = field(
        default_factory=lambda: OwnedEntries("MCP tasks", MAX_LIVE, may_drop=lambda run: run.exchange.has_ended)
    )

    async def create(self, run: ToolRun) -> JsonObject:
        """Return the task of a call that was started, once the call is stored."""
        task_id = cast("InvocationId", run.invocation_id)
        self._live.add(run.identity.actor, task_id, run)
        await self.runtime.journal.checkpoint([task_id])
        created = await self._state(task_id, run)
        members = {name: created[name] for name in created if name not in ("result", "error", "inputRequests")}
        return {**members, "status": "working", "resultType": "task"}

    def leave(self) -> None:
        """Stop following calls, because the server stops; calls that wait are left to the next process."""
        for run in self._live.values():
            run.exchange.leave()

    async def get(self, context: RequestContext, params: TaskParams) -> JsonObject:
        """Handle `tasks/get`."""
        run = await self._find(context, params.task_id)
        return await self._state(params.task_id, run)

    async def update(self, context: RequestContext, params: TaskUpdateParams) -> JsonObject:
        """Handle `tasks/update`: deliver replies of the client."""
        run = await self._find(context, params.task_id)
        run.exchange.context = context
        run.exchange.reply(params.input_responses or {})
        return {"resultType": "complete"}

    async def cancel(self, context: RequestContext, params: TaskParams) -> JsonObject:
        """Handle `tasks/cancel`; a task that has ended stays as it is."""
        run = await self._find(context, params.task_id)
        run.exchange.cancel()
        return {"resultType": "complete"}

    async def _find(self, context: RequestContext, task_id: str) -> ToolRun:
        """Return the run of a task.

        Raises:
            MCPError: the client does not declare the extension, or has no such task.
        """
        if not declares_tasks(context):
            raise missing_capability(_REQUIRED)
        headers: object = getattr(context.request, "headers", None)
        # Clients that know tasks as an extension alone do not send the header.
        if isinstance(headers, Headers) and headers.get("mcp-name", task_id) != task_id:
            raise MCPError(types.HEADER_MISMATCH, "the header Mcp-Name is not the taskId of the body; send the same")
        actor, found = self.actor_of(context), self._live.get(task_id)
        if found is not None and found.identity.actor == actor:
            return found
        invocation = None if found is not None else await self.runtime.journal.invocation(InvocationId(task_id))
        is_own = invocation is not None and invocation.actor_ref == actor
        if invocation is None or not is_own or not has_tool(self.role, tool_name(invocation.tool_id)):
            raise MCPError(types.INVALID_PARAMS, f"no task has the id {task_id!r}; use one that a call returned")
        run = self.resume(context, invocation)
        self._live.add(actor, task_id, run)
        return run

    async def _state(self, task_id: str, run: ToolRun) -> JsonObject:
        invocation = await self.runtime.journal.invocation(InvocationId(task_id))
        created = None if invocation is None else str(invocation.created_at)
        changed = None if invocation is None else str(invocation.ended_at or invocation.started_at or created)
        state: JsonObject = {
            "taskId": task_id,
            "createdAt": created,
            "lastUpdatedAt": changed,
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }
        return {**state, **_status_of(run)}


def _status_of(run: ToolRun) -> JsonObject:
    """Return the status of a task, with its result, its error, or its requests to the client."""
    exchange = run.exchange
    task = exchange.task
    if task is not None and task.done():
        return {"status": "cancelled"} if task.cancelled() else _end_of(task.result(), run)
    status: JsonObject = {"status": "working"}
    if exchange.pending:
        status = {"status": "input_required", "inputRequests": exchange.input_requests()}
    return {**status, "statusMessage": "\n".join(run.waits_for.values())} if run.waits_for else status


def _end_of(outcome: JsonObject | Exception, run: ToolRun) -> JsonObject:
    """Return the status of a task that has ended.

    It is `failed` only if our server or that of the tool failed; an error of the tool is a result.
    """
    failure = None if run.result is None else run.result.error
    error_class = None if failure is None else failure.error_class
    if (answered := server_error(failure)) is not None:
        return {"status": "failed", "error": wire(answered)}
    if isinstance(outcome, Exception):
        internal = types.ErrorData(code=types.INTERNAL_ERROR, message="Internal server error")
        return {"status": "failed", "error": wire(outcome.error if isinstance(outcome, MCPError) else internal)}
    if error_class == ErrorClass.CANCELED:
        return {"status": "cancelled"}
    if error_class in _INTERNAL:
        message = f"{error_class}: the call ran, and its output cannot be delivered; the journal has the details"
        return {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": message}}
    return {"status": "completed", "result": {"resultType": "complete", **outcome}}
