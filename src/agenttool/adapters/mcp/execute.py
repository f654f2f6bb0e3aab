"""One call of a server's tool: the request, its progress, and its result or failure.

A server may run a call as a task (SEP-2663): it returns a task at once, and the result is polled for. On a durable
store the id of the task is stored with the call. If this process ends, the next one follows the task.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Protocol, cast

from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from agenttool.adapters.mcp.connection import Connection, Unavailable, Waiting
from agenttool.adapters.mcp.content import TooManyBlocks, output_of
from agenttool.adapters.mcp.server_requests import DEFAULT_LOG_LEVEL, ELICITATION, ROOTS, SAMPLING, RunningCall
from agenttool.adapters.mcp.session import (
    BUSY,
    CONNECTION_LOST,
    INVALID,
    NOT_CONNECTED,
    TOO_LARGE,
    UNAUTHORIZED,
    UNKNOWN_SESSION,
    Exchange,
    InvalidResult,
    McpSession,
    data_of,
    fault_of,
)
from agenttool.adapters.polled_work import PolledWork
from agenttool.codec import object_of
from agenttool.errors import ToolFailure
from agenttool.ports.caller import CALLER
from agenttool.ports.executor import Job, call_failure
from agenttool.ports.output import NativeOutput
from agenttool.records import AbortReason, ErrorClass, Json, JsonObject, McpMapping, replace

_CLASSES = {
    BUSY: ErrorClass.DEPENDENCY_UNAVAILABLE,
    NOT_CONNECTED: ErrorClass.DEPENDENCY_UNAVAILABLE,
    UNKNOWN_SESSION: ErrorClass.DEPENDENCY_UNAVAILABLE,
    UNAUTHORIZED: ErrorClass.CREDENTIAL_MISSING,
}

MAX_ROUNDS = 10
"""How often a server may request input during one call."""

TASKS = "mcp_tasks"
"""The kind of the document with the id of the task of an open call, by the id of the call."""

MIN_POLL_S, DEFAULT_POLL_S, MAX_POLL_S = 0.05, 1.0, 30.0
"""The limits and the default of the time between two reads of a task; a task suggests its own."""

CANCEL_S = 5.0
"""How long the cancellation of a task may take."""

_OLDER_WAY = (
    "the tool sends requests while its call is open, which the revision of this connection does not allow; ask the"
    ' operator to write protocol = "legacy" in the settings of the server'
)


class ConnectionPool(Protocol):
    """Finds the connection of a call."""

    def connection_of(self, actor: str | None, /) -> Connection:
        """Return the connection that serves an actor.

        Raises:
            Unavailable: too many actors use the server now.
        """
        ...

    async def older_connection(
        self, actor: str | None, connection: Connection, waiting: Waiting, /
    ) -> Connection | None:
        """Return a connection of an actor with a session of an older revision; None if there can be none now.

        It waits within `waiting`.
        """
        ...

    needs_newest: set[str]
    """The tools that can ask only as newer revisions do, so that they run in the newest session."""

    def headers_of(self, job: Job, /) -> dict[str, str]:
        """Return the headers that the requests of a call carry."""
        ...

    def refusal(self, tool: str, session: McpSession, /) -> str | None:
        """Return why a tool may not run in a session now; None if it may."""
        ...


@dataclass(frozen=True, slots=True)
class Operation:
    """One request about resources or prompts.

    Attributes:
        feature: the capability of the server that it needs.
        shown_with: the feature with which models are shown its tool; None for never.
        output: returns the output of a reply; None returns the reply as a value.
        entries: the member of the reply with the entries of a list; None if it is no list.
    """

    feature: str
    shown_with: str | None
    method: str
    description: str
    properties: JsonObject
    required: tuple[str, ...] = ()
    output: Callable[[JsonObject, McpMapping], NativeOutput] | None = None
    entries: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class McpExecutor:
    """Calls one tool of a server.

    Attributes:
        operation: the request about resources or prompts that the tool sends; None for a tool of the server.
    """

    server: str
    tool: str
    pool: ConnectionPool
    may_repeat: bool
    task_ids: PolledWork | None = None
    operation: Operation | None = None

    @property
    def is_reviewed(self) -> bool:
        """Whether the server defines the tool, so that a changed definition must not run."""
        return self.operation is None

    async def start(self, job: Job, /) -> object:
        """Call the tool once, and return its output.

        A server with a URL may accept all revisions. The call of an older client is sent in a session of an older
        revision, as a direct call would be. A tool that asks only in the newer way fails there with an internal error;
        its next call is sent in the newest session. This call is repeated there only if the tool may be repeated.

        Raises:
            ToolFailure: the server cannot be used, answered with an error, or was lost.
        """
        client, actor, needs_newest = CALLER.get(), job.actor_ref, self.pool.needs_newest
        try:
            newest = self.pool.connection_of(actor)
        except Unavailable as error:
            raise self._unavailable(error) from error
        older = None
        if client is not None and client.is_legacy and self.tool not in needs_newest:
            older = await self.pool.older_connection(actor, newest, self._waiting(job))
        try:
            return await self._run(job, older or newest)
        except ToolFailure as failure:
            cause = failure.__cause__
            if older is None or not isinstance(cause, MCPError) or cause.code != INTERNAL_ERROR:
                raise
            if self.is_reviewed:
                needs_newest.add(self.tool)
            if not self.may_repeat:
                raise
        return await self._run(job, newest)

    async def _run(self, job: Job, connection: Connection) -> object:
        with connection.calls.running(job) as call:
            return await self._call(call, connection, is_first=True)

    async def _call(self, call: RunningCall, connection: Connection, *, is_first: bool) -> object:
        job, session = call.job, await self._session(call.job, connection)
        refusal = self.pool.refusal(self.tool, session) if self.is_reviewed else None
        if refusal is not None:
            raise call_failure(ErrorClass.DEPENDENCY_UNAVAILABLE, f"nothing was sent: {refusal}", code="not_reviewed")
        mapping = McpMapping(
            server_id=self.server,
            server_name=session.server_name,
            mcp_session_id=session.session_id,
            mcp_protocol_version=session.protocol_version,
            method=self.method,
            tool_name=self.tool,
        )
        client = call.client
        exchange = Exchange(
            headers=self.pool.headers_of(job),
            on_sent=_id_recorder(job, mapping),
            log_level=DEFAULT_LOG_LEVEL if client is None else client.log_level,
            withheld=connection.answers.withheld(client),
        )
        try:
            with connection.calls.sending(call, exchange):
                result = await SentCall(self, call, session, exchange, connection).result()
        except MCPError as error:
            fault = fault_of(error)
            connection.drop_if_lost(session, error)
            is_unhandled = fault == UNKNOWN_SESSION or exchange.request_id is None
            if is_first and is_unhandled:
                return await self._call(call, connection, is_first=False)
            call.note_needed(error)
            raise self._failed(error, fault, exchange.request_id, session) from error
        except InvalidResult as error:
            raise self._invalid(str(error)) from error
        is_error, meta = result.get("isError"), result.get("_meta")
        answered = replace(
            mapping,
            jsonrpc_request_id=exchange.request_id,
            is_error=is_error if isinstance(is_error, bool) else None,
            meta=meta if isinstance(meta, dict) else None,
        )
        try:
            return self._output(result, answered)
        except TooManyBlocks as error:
            message = f"the result of the server {self.server!r} was refused: {error}; ask for less"
            raise call_failure(ErrorClass.RESULT_TOO_LARGE, message, code="too_many_blocks", is_safe=False) from error
        except ValueError as error:
            raise self._invalid(str(error)) from error

    async def _session(self, job: Job, connection: Connection) -> McpSession:
        open_session = connection.session_for_tool if self.is_reviewed else connection.session
        try:
            return await open_session(self._waiting(job))
        except Unavailable as error:
            raise self._unavailable(error) from error

    def _waiting(self, job: Job) -> Waiting:
        """Return a function that makes the context in which the call waits for the server and delays no other call."""

        def waiting() -> AbstractAsyncContextManager[None]:
            job.report(f"waits for the server {self.server!r} to start")
            return job.outside()

        return waiting

    @property
    def method(self) -> str:
        """The method of its requests."""
        return "tools/call" if self.operation is None else self.operation.method

    def _output(self, result: JsonObject, mapping: McpMapping) -> NativeOutput:
        """Return the native output of a result; `reply_in` returns a reply about resources or prompts as it was sent.

        Raises:
            ValueError: the result is not valid; the message has the reason.
        """
        if self.operation is None:
            return output_of(result, mapping)
        reply: JsonObject = {name: each for name, each in result.items() if name != "resultType"}
        output = self.operation.output
        return NativeOutput(value=reply, external_mappings=(mapping,)) if output is None else output(reply, mapping)

    def members(self, job: Job) -> JsonObject:
        """Return the parameters of the first request of a call."""
        return {"name": self.tool, "arguments": job.call_input} if self.operation is None else job.call_input

    def _unavailable(self, error: Unavailable) -> ToolFailure:
        after = error.retry_after_s
        when = "" if after is None else f"; it is tried again in {after:.0f} s"
        message = f"nothing was sent: {error.reason}{when}"
        return call_failure(ErrorClass.DEPENDENCY_UNAVAILABLE, message, code="server_unavailable", retry_after=after)

    def _failed(self, error: MCPError, fault: str | None, request_id: int | None, session: McpSession) -> ToolFailure:
        """Return the failure of a request that the server answered with an error, or did not answer."""
        if fault == CONNECTION_LOST:
            message = (
                f"the server {self.server!r} was lost during the call ({error.message}); it may have run,"
                " so check its effects before you call again"
            )
            return call_failure(ErrorClass.DEPENDENCY_UNAVAILABLE, message, code=fault, is_safe=self.may_repeat)
        if fault == TOO_LARGE:
            return call_failure(ErrorClass.RESULT_TOO_LARGE, error.message, code="message_too_large", is_safe=False)
        if fault == INVALID:
            return self._invalid(error.message)
        if fault is not None:
            is_sent = fault not in (BUSY, NOT_CONNECTED)
            what = "did not accept the call" if is_sent else "cannot be used"
            message = f"{'' if is_sent else 'nothing was sent: '}the server {self.server!r} {what}: {error.message}"
            error_class, is_safe = (
                _CLASSES.get(fault, ErrorClass.EXECUTION_FAILED),
                not is_sent or fault == UNKNOWN_SESSION,
            )
            return call_failure(error_class, message, code=fault, is_safe=is_safe)
        data = cast("Json", data_of(error))
        native: JsonObject = {
            "jsonrpc_request_id": request_id,
            "code": error.code,
            "message": error.message,
            **({} if data is None else {"data": data}),
        }
        message = f"the server {self.server!r} answered with the error {error.code}: {error.message}"
        if session.is_modern and any(each in error.message for each in (ELICITATION, SAMPLING, ROOTS)):
            message = f"{message.rstrip('.')}; {_OLDER_WAY}"
        code, is_safe = str(error.code), self.may_repeat
        return call_failure(ErrorClass.EXECUTION_FAILED, message, code=code, is_safe=is_safe, native=native)

    def _invalid(self, reason: str) -> ToolFailure:
        message = f"the result of the server {self.server!r} is not valid MCP: {reason}; report this to its author"
        return call_failure(ErrorClass.EXECUTION_FAILED, message, code="invalid_result", is_safe=self.may_repeat)


@dataclass(frozen=True, slots=True)
class SentCall:
    """The requests of one call in one session."""

    executor: McpExecutor
    call: RunningCall
    session: McpSession
    exchange: Exchange
    connection: Connection

    async def result(self) -> JsonObject:
        """Send the call, and send it again with replies as long as the server needs input; return its result.

        Raises:
            MCPError: the server answered with an error, or its task failed or was canceled.
            InvalidResult: the server does not follow the protocol.
        """
        job, task_ids = self.call.job, self.executor.task_ids
        task_id = None if task_ids is None else await task_ids.get(job.invocation_id)
        if task_id is not None:  # an earlier process has sent the call
            return await self._follow(await self._ask_task(task_id, "tasks/get", self.exchange))
        given: JsonObject = {}
        for _ in range(MAX_ROUNDS):
            params = {**self.executor.members(job), **given}
            result = await self.session.request(self.executor.method, params, self.exchange, _progress_reporter(job))
            if result.get("resultType") == "task":
                return await self._follow(result)
            if result.get("resultType") != "input_required":
                return result
            given = {"inputResponses": await self._answer(result.get("inputRequests"))}
            given |= {"requestState": state} if isinstance(state := result.get("requestState"), str) else {}
        raise InvalidResult(f"it asked for input more than {MAX_ROUNDS} times")

    async def _answer(self, requests: Json) -> JsonObject:
        async with self.call.job.outside():
            return await self.connection.answers.answer(self.call, object_of(requests))

    async def _ask_task(
        self, task_id: str, method: str, exchange: Exchange | None = None, **members: Json
    ) -> JsonObject:
        exchange = exchange or Exchange(headers=self.exchange.headers)
        return await self.session.request(method, {"taskId": task_id, **members}, exchange)

    async def _follow(self, task: JsonObject) -> JsonObject:
        """Return the result of a task when it has ended; cancel it if the call is canceled.

        A task whose id is stored outlives this process: it is not canceled because the runtime is closed.
        """
        job, ids, task_id = self.call.job, self.executor.task_ids, task.get("taskId")
        if self.call.client is not None:
            self.call.client.note_long()
        if not isinstance(task_id, str):
            raise InvalidResult("its task has no taskId")
        if ids is not None:
            await ids.store(job.invocation_id, task_id)
        is_left = False
        try:
            async with job.outside(is_last=True):  # the server schedules its tasks
                return await self._poll(task_id, task)
        except asyncio.CancelledError:
            is_left = ids is not None and job.cancel.reason is AbortReason.RUNTIME_SHUTDOWN
            if not is_left:
                with suppress(MCPError, InvalidResult, TimeoutError):
                    async with asyncio.timeout(CANCEL_S):
                        await self._ask_task(task_id, "tasks/cancel")
            raise
        finally:
            if ids is not None and not is_left:
                await ids.store(job.invocation_id, None)

    async def _poll(self, task_id: str, task: JsonObject) -> JsonObject:
        while True:
            status, message = task.get("status"), task.get("statusMessage")
            self.call.job.report(message if isinstance(message, str) else f"task {status}", facts={"task_id": task_id})
            if status == "completed":
                if isinstance(result := task.get("result"), dict):
                    return result
                raise InvalidResult("its completed task has no result")
            if status in ("failed", "cancelled"):
                raise _failure_in(task, f"the task was {status}")
            if status == "input_required" and isinstance(requests := task.get("inputRequests"), dict):
                await self._ask_task(task_id, "tasks/update", inputResponses=await self._answer(requests))
            suggested = task.get("pollIntervalMs")
            pause_s = suggested / 1000 if isinstance(suggested, int) else DEFAULT_POLL_S
            await asyncio.sleep(min(max(pause_s, MIN_POLL_S), MAX_POLL_S))
            task = await self._ask_task(task_id, "tasks/get")


def _failure_in(task: JsonObject, reason: str) -> MCPError:
    """Return the error of a task; `reason` if it has no message."""
    found = object_of(task.get("error"))
    code, message = found.get("code"), found.get("message")
    words = message if isinstance(message, str) else reason
    return MCPError(code if isinstance(code, int) else INTERNAL_ERROR, words, found.get("data"))


def _id_recorder(job: Job, mapping: McpMapping) -> Callable[[int], None]:
    """Return the function that records the native ids of a call, which takes the id of its request."""
    names = ("server_id", "server_name", "mcp_session_id", "mcp_protocol_version", "method", "tool_name")
    ids: JsonObject = {name: value for name in names if (value := getattr(mapping, name)) is not None}
    return lambda request_id: job.add_native_ids("mcp", {**ids, "jsonrpc_request_id": request_id})


def _progress_reporter(job: Job) -> ProgressFnT:
    """Return the function that reports the progress notifications of a server as progress of its call."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        percent = max(0.0, min(100.0 * progress / total, 100.0)) if total else None
        facts = {"current_step_index": int(progress)} if progress.is_integer() else {}
        if total is not None and total.is_integer():
            facts["total_steps"] = int(total)
        job.report(message, percent=percent, facts=facts)

    return report
