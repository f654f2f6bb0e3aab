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
from agenttool.adapters.polled_work import PolledWork
from agenttool.ports.executor import Job
from agenttool.records import AbortReason, Json, JsonObject

TASKS = "mcp_tasks"
"""The kind of the document with the id of the task of an open call, by the id of the call."""

MIN_POLL_S, DEFAULT_POLL_S, MAX_POLL_S = 0.05, 1.0, 30.0
"""The limits and the default of the time between two reads of a task; a task suggests its own."""

CANCEL_S = 5.0
"""How long the cancellation of a task may take."""


class TaskRequest(Request[dict[str, Any], str]):
    """A request about a task; over HTTP its id is a header."""

    name_param = "taskId"


async def follow_task(
    job: Job,
    session: McpSession,
    task: JsonObject,
    headers: dict[str, str],
    answer: Callable[[JsonObject], Awaitable[JsonObject]],
    ids: PolledWork | None,
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
