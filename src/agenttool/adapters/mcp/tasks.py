"""Calls that a server runs as tasks (SEP-2663): it returns a task at once, and the result is polled for.

On a durable store the id of the task is stored with the call. If this process ends, the next one follows the task.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any  # noqa: TID251 -- the type parameters of the SDK's requests

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, Request

from agenttool.adapters.mcp.session import Exchange, InvalidResult, McpSession
from agenttool.errors import StoreError, ToolFailure
from agenttool.ports.deferred import Prompt, ReplyOutcome, Thread
from agenttool.ports.executor import Job
from agenttool.ports.stores import DocumentStore
from agenttool.records import AbortReason, ErrorClass, InvocationId, Json, JsonObject, ToolError

TASKS = "mcp_tasks"
"""The kind of the document with the id of the task of an open call, by the id of the call."""

MIN_POLL_S, DEFAULT_POLL_S, MAX_POLL_S = 0.05, 1.0, 30.0
"""How often a task is asked for its state: as it suggests, within these limits."""

CANCEL_S = 5.0
"""How long the cancellation of a task may take."""


class TaskRequest(Request[dict[str, Any], str]):
    """A request about a task; over HTTP its id is a header."""

    name_param = "taskId"


class TaskIds:
    """The ids of the tasks of open calls, stored for all processes. It is the `DeferredTool` of the server's tools.

    A process that recovers a call runs its executor again, which follows the task. Without a stored task the request
    may have been lost or handled, so it is not sent again.
    """

    def __init__(self, documents: DocumentStore) -> None:
        """Take the store."""
        self._documents = documents

    async def get(self, invocation_id: InvocationId) -> str | None:
        """Return the id of the task of a call."""
        body = await self._documents.get(TASKS, invocation_id)
        return None if body is None else body.decode()

    async def store(self, invocation_id: InvocationId, task_id: str | None) -> None:
        """Store the id of a task; None deletes it. If that fails, the task does not outlive this process."""
        with suppress(StoreError):
            await self._documents.put(TASKS, invocation_id, None if task_id is None else task_id.encode())

    async def may_resend(self, invocation_id: InvocationId) -> bool:
        """Return whether a later process can follow the task of a call."""
        return await self.get(invocation_id) is not None

    def until_ns(self, invocation_id: InvocationId, started_ns: int) -> int | None:
        """Return None: the timeout of the tool limits the call."""
        return None

    def why_over(self, invocation_id: InvocationId, now_ns: int) -> str | None:
        """Return None, as `until_ns`."""
        return None

    def read(self, body: bytes) -> object:
        """Refuse: results are polled for, and no one else delivers them.

        Raises:
            ToolFailure: always.
        """
        message = "a result was delivered for a call that polls for it; it is not used"
        raise ToolFailure(ToolError(error_class=ErrorClass.RESULT_MAPPING_FAILED, message=message))

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        """Do nothing: `follow_task` cancels the task."""

    async def reply(self, prompt: Prompt, selected: int) -> ReplyOutcome:
        """Refuse: questions of a task are approvals."""
        return ReplyOutcome.REFUSED


async def follow_task(
    job: Job,
    session: McpSession,
    task: JsonObject,
    headers: dict[str, str],
    answer: Callable[[JsonObject], Awaitable[JsonObject]],
    ids: TaskIds | None,
) -> JsonObject:
    """Return the result of a task when it has ended; cancel it if the call is canceled.

    With `ids` it outlives this process: it is not canceled because the runtime is closed.

    Raises:
        MCPError: the task failed, or was canceled.
        InvalidResult: the server does not follow the protocol.
    """
    task_id = task.get("taskId")
    if not isinstance(task_id, str):
        raise InvalidResult("its task has no taskId")

    async def send(method: str, **members: Json) -> JsonObject:
        request = TaskRequest(method=method, params={"taskId": task_id, **members})
        return await session.request(request, Exchange(headers=headers))

    if ids is not None:
        await ids.store(job.invocation_id, task_id)
    is_left = False
    try:
        return await _poll(job, task, send, answer)
    except asyncio.CancelledError:
        is_left = ids is not None and job.cancel.reason is AbortReason.RUNTIME_SHUTDOWN
        if not is_left:
            with suppress(MCPError, InvalidResult, TimeoutError):
                async with asyncio.timeout(CANCEL_S):
                    await send("tasks/cancel")
        raise
    finally:
        if ids is not None and not is_left:
            await ids.store(job.invocation_id, None)


async def _poll(
    job: Job,
    task: JsonObject,
    send: Callable[..., Awaitable[JsonObject]],
    answer: Callable[[JsonObject], Awaitable[JsonObject]],
) -> JsonObject:
    while True:
        status, message = task.get("status"), task.get("statusMessage")
        job.report(
            message if isinstance(message, str) else f"task {status}", facts={"task_id": str(task.get("taskId"))}
        )
        if status == "completed":
            return _result_in(task)
        if status in ("failed", "cancelled"):
            raise _failure_in(task, str(status))
        requests = task.get("inputRequests")
        if status == "input_required" and isinstance(requests, dict):
            await send("tasks/update", inputResponses=await answer(requests))
        await asyncio.sleep(_pause(task))
        task = await send("tasks/get")


def _pause(task: JsonObject) -> float:
    suggested = task.get("pollIntervalMs")
    seconds = suggested / 1000 if isinstance(suggested, int) else DEFAULT_POLL_S
    return min(max(seconds, MIN_POLL_S), MAX_POLL_S)


def _result_in(task: JsonObject) -> JsonObject:
    result = task.get("result")
    if not isinstance(result, dict):
        raise InvalidResult("its completed task has no result")
    return result


def _failure_in(task: JsonObject, status: str) -> MCPError:
    error = task.get("error")
    found: JsonObject = error if isinstance(error, dict) else {}
    code, message = found.get("code"), found.get("message")
    words = message if isinstance(message, str) else f"the task was {status}"
    return MCPError(code if isinstance(code, int) else INTERNAL_ERROR, words, found.get("data"))
