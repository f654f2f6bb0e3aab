"""The tasks extension (SEP-2663): calls that take long, which a client follows by polling.

The id of a task is the id of its invocation, and the journal has its state, so a task outlives the process.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers

from agenttool.mcp.calls import ToolRun
from agenttool.mcp.exchange import ClientExchange, RequestContext, is_stateless, missing_capability
from agenttool.mcp.listing import native_members
from agenttool.mcp.results import ERROR_KEY
from agenttool.ports.offer import OfferedTool
from agenttool.records import ErrorClass, InvocationId, JsonObject, ToolInvocation, ToolKind
from agenttool.runtime import Runtime

EXTENSION = "io.modelcontextprotocol/tasks"

TASK_AFTER_S = 5.0
"""A call that takes longer becomes a task, if its client declares the extension."""

POLL_MS = 1_000
TTL_MS = 86_400_000
"""How long a client may read a task; the journal stores it longer."""

MAX_LIVE = 10_000

_REQUIRED: JsonObject = {"extensions": {EXTENSION: {}}}
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
    return is_stateless(context) and declared is not None and EXTENSION in (declared.extensions or {})


def runs_in_background(tool: OfferedTool | None) -> bool:
    """Return whether a tool declares that its calls take long."""
    declared = None if tool is None else tool.declared
    return declared is not None and bool(declared.execution_profile.supports_background)


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


class ClientTasks:
    """The tasks of one profile."""

    def __init__(
        self,
        runtime: Runtime,
        actor_of: Callable[[RequestContext], str | None],
        serves: Callable[[ToolInvocation], bool],
        resume: Callable[[RequestContext, ToolInvocation], ToolRun],
    ) -> None:
        """Take the runtime, and three functions.

        They return the actor of a request, whether the profile has the tool of a call, and the run of a resumed call.
        """
        self._runtime = runtime
        self._actor_of = actor_of
        self._serves = serves
        self._resume = resume
        self._live: OrderedDict[str, ToolRun] = OrderedDict()

    async def create(self, run: ToolRun) -> types.Result:
        """Return the task of a call that was started, once the call is stored."""
        task_id = cast("InvocationId", run.invocation_id)
        self._add(task_id, run)
        await self._runtime.journal.checkpoint([task_id])
        created = await self._state(task_id, run)
        members = {name: created[name] for name in created if name not in ("result", "error", "inputRequests")}
        return _result({**members, "status": "working", "resultType": "task"})

    def leave(self) -> None:
        """Stop following calls, because the server stops; calls that wait are left to the next process."""
        for run in self._live.values():
            run.exchange.leave()

    def _add(self, task_id: str, run: ToolRun) -> None:
        self._live[task_id] = run
        if len(self._live) > MAX_LIVE:
            self._live.popitem(last=False)

    async def get(self, context: RequestContext, params: TaskParams) -> types.Result:
        """Handle `tasks/get`."""
        run = await self._find(context, params.task_id)
        return _result({**await self._state(params.task_id, run), "resultType": "complete"})

    async def update(self, context: RequestContext, params: TaskUpdateParams) -> types.Result:
        """Handle `tasks/update`: deliver replies of the client."""
        run = await self._find(context, params.task_id)
        run.exchange.context = context
        run.exchange.reply(params.input_responses or {})
        return _result({"resultType": "complete"})

    async def cancel(self, context: RequestContext, params: TaskParams) -> types.Result:
        """Handle `tasks/cancel`; a task that has ended stays as it is."""
        run = await self._find(context, params.task_id)
        run.exchange.cancel()
        return _result({"resultType": "complete"})

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
        actor, found = self._actor_of(context), self._live.get(task_id)
        if found is not None and found.identity.actor == actor:
            return found
        invocation = None if found is not None else await self._runtime.journal.invocation(InvocationId(task_id))
        if invocation is None or invocation.actor_ref != actor or not self._serves(invocation):
            raise MCPError(types.INVALID_PARAMS, f"no task has the id {task_id!r}; use one that a call returned")
        run = self._resume(context, invocation)
        self._add(task_id, run)
        return run

    async def _state(self, task_id: str, run: ToolRun) -> dict[str, object]:
        invocation = await self._runtime.journal.invocation(InvocationId(task_id))
        created = None if invocation is None else str(invocation.created_at)
        changed = None if invocation is None else str(invocation.ended_at or invocation.started_at or created)
        state: dict[str, object] = {
            "taskId": task_id,
            "createdAt": created,
            "lastUpdatedAt": changed,
            "ttlMs": TTL_MS,
            "pollIntervalMs": POLL_MS,
        }
        return {**state, **_status_of(run.exchange)}


def _status_of(exchange: ClientExchange) -> dict[str, object]:
    """Return the status of a task, with its result, its error, or its requests to the client."""
    task = exchange.task
    if task is None or not task.done():
        if not exchange.pending:
            return {"status": "working"}
        requests = {key: _wire(each) for key, each in exchange.input_requests().items()}
        return {"status": "input_required", "inputRequests": requests}
    return {"status": "cancelled"} if task.cancelled() else _end_of(task.result())


def _end_of(outcome: types.Result | Exception) -> dict[str, object]:
    """Return the status of a task that has ended. It has failed only if the server did; a tool's error is a result."""
    if isinstance(outcome, Exception):
        internal = types.ErrorData(code=types.INTERNAL_ERROR, message="Internal server error")
        return {"status": "failed", "error": _wire(outcome.error if isinstance(outcome, MCPError) else internal)}
    error = cast("object", (outcome.meta or {}).get(ERROR_KEY))
    error_class = cast("JsonObject", error).get("error_class") if isinstance(error, dict) else None
    if error_class == ErrorClass.CANCELED:
        return {"status": "cancelled"}
    if error_class in _INTERNAL:
        message = f"{error_class}: the call ran, and its output cannot be delivered; the journal has the details"
        return {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": message}}
    return {"status": "completed", "result": _wire(outcome)}


def _wire(model: types.Result | types.InputRequest | types.ErrorData) -> dict[str, object]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class OpenResult(types.Result, extra="allow"):
    """A result of the extension, which the SDK has no class for."""


def _result(members: dict[str, object]) -> types.Result:
    return OpenResult.model_validate(members)
