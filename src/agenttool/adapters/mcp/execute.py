"""One call of a server's tool: the request, its progress, and its result or failure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequest, CallToolRequestParams

from agenttool.adapters.mcp.connection import Connection, Unavailable
from agenttool.adapters.mcp.content import TooManyBlocks, output_of
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
    fault_of,
)
from agenttool.adapters.mcp.tasks import TaskRequest, follow_task
from agenttool.adapters.polled_work import PolledWork
from agenttool.errors import ToolFailure
from agenttool.ports.executor import Job, call_failure
from agenttool.ports.output import NativeOutput
from agenttool.records import ErrorClass, JsonObject, McpMapping, replace

_CLASSES = {
    BUSY: ErrorClass.DEPENDENCY_UNAVAILABLE,
    NOT_CONNECTED: ErrorClass.DEPENDENCY_UNAVAILABLE,
    UNKNOWN_SESSION: ErrorClass.DEPENDENCY_UNAVAILABLE,
    UNAUTHORIZED: ErrorClass.CREDENTIAL_MISSING,
}

MAX_ROUNDS = 10
"""How often a server may request input during one call."""


class ConnectionPool(Protocol):
    """Finds the connection of a call."""

    def connection_of(self, actor: str | None, /) -> Connection:
        """Return the connection that serves an actor.

        Raises:
            Unavailable: too many actors use the server now.
        """
        ...

    def headers_of(self, job: Job, /) -> dict[str, str]:
        """Return the headers that the requests of a call carry."""
        ...

    def refusal(self, tool: str, session: McpSession, /) -> str | None:
        """Return why a tool may not run in a session now; None if it may."""
        ...

    async def answer(self, job: Job, requests: JsonObject, /) -> JsonObject:
        """Return the answers to what a server needs before a call can continue, by the keys of the requests.

        Raises:
            ToolFailure: it needs something that is not offered.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class McpExecutor:
    """Calls one tool of a server.

    Attributes:
        is_reviewed: whether the server defines the tool, so that a changed definition must not run.
    """

    server: str
    tool: str
    pool: ConnectionPool
    may_repeat: bool
    task_ids: PolledWork | None = None
    is_reviewed: bool = True

    async def start(self, job: Job, /) -> object:
        """Call the tool once, and return its output.

        Raises:
            ToolFailure: the server cannot be used, answered with an error, or was lost.
        """
        try:
            connection = self.pool.connection_of(job.actor_ref)
        except Unavailable as error:
            raise self._unavailable(error) from error
        connection.calls.begin(job)
        try:
            return await self._call(job, connection, is_first=True)
        finally:
            connection.calls.end(job)

    async def _call(self, job: Job, connection: Connection, *, is_first: bool) -> object:
        open_session = connection.session_for_tool if self.is_reviewed else connection.session
        try:
            session = await open_session(lambda: job.report(f"waits for the server {self.server!r} to start"))
        except Unavailable as error:
            raise self._unavailable(error) from error
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
        exchange = Exchange(headers=self.pool.headers_of(job), on_sent=_id_recorder(job, mapping))
        try:
            result = await self.send(job, session, exchange)
        except MCPError as error:
            fault = fault_of(error)
            connection.drop_if_lost(session, error)
            if is_first and (
                fault == UNKNOWN_SESSION or exchange.request_id is None
            ):  # the server did not handle the request
                return await self._call(job, connection, is_first=False)
            raise self._failed(error, fault, exchange.request_id) from error
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
            return self.output(result, answered)
        except TooManyBlocks as error:
            message = f"the result of the server {self.server!r} was refused: {error}; ask for less"
            raise call_failure(ErrorClass.RESULT_TOO_LARGE, message, code="too_many_blocks", is_safe=False) from error
        except ValueError as error:
            raise self._invalid(str(error)) from error

    @property
    def method(self) -> str:
        """The method of its requests."""
        return "tools/call"

    def output(self, result: JsonObject, mapping: McpMapping) -> NativeOutput:
        """Return the native output of a result.

        Raises:
            ValueError: the result is not valid; the message has the reason.
        """
        return output_of(result, mapping)

    async def send(self, job: Job, session: McpSession, exchange: Exchange) -> JsonObject:
        """Send the call, and send it again with answers as long as the server needs input; return its result."""
        headers = dict(exchange.headers)
        task_id = None if self.task_ids is None else await self.task_ids.get(job.invocation_id)
        if task_id is not None:  # an earlier process has sent the call
            task = await session.request(TaskRequest(method="tasks/get", params={"taskId": task_id}), exchange)
            return await self._follow(job, session, task, headers)
        params = CallToolRequestParams(name=self.tool, arguments=job.call_input)
        for _ in range(MAX_ROUNDS):
            result = await session.request(CallToolRequest(params=params), exchange, _progress_reporter(job))
            if result.get("resultType") == "task":
                return await self._follow(job, session, result, headers)
            if result.get("resultType") != "input_required":
                return result
            requests = result.get("inputRequests")
            answers = await self.pool.answer(job, requests) if isinstance(requests, dict) else {}
            state = result.get("requestState")
            params = CallToolRequestParams.model_validate(
                {
                    "name": self.tool,
                    "arguments": job.call_input,
                    "inputResponses": answers,
                    **({"requestState": state} if isinstance(state, str) else {}),
                }
            )
        raise InvalidResult(f"it asked for input more than {MAX_ROUNDS} times")

    async def _follow(self, job: Job, session: McpSession, task: JsonObject, headers: dict[str, str]) -> JsonObject:
        return await follow_task(job, session, task, headers, lambda each: self.pool.answer(job, each), self.task_ids)

    def _unavailable(self, error: Unavailable) -> ToolFailure:
        after = error.retry_after_s
        when = "" if after is None else f"; it is tried again in {after:.0f} s"
        message = f"nothing was sent: {error.reason}{when}"
        return call_failure(ErrorClass.DEPENDENCY_UNAVAILABLE, message, code="server_unavailable", retry_after=after)

    def _failed(self, error: MCPError, fault: str | None, request_id: int | str | None) -> ToolFailure:
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
        native: JsonObject = {
            "jsonrpc_request_id": request_id,
            "code": error.code,
            "message": error.message,
            **({} if error.data is None else {"data": error.data}),
        }
        message = f"the server {self.server!r} answered with the error {error.code}: {error.message}"
        code, is_safe = str(error.code), self.may_repeat
        return call_failure(ErrorClass.EXECUTION_FAILED, message, code=code, is_safe=is_safe, native=native)

    def _invalid(self, reason: str) -> ToolFailure:
        message = f"the result of the server {self.server!r} is not valid MCP: {reason}; report this to its author"
        return call_failure(ErrorClass.EXECUTION_FAILED, message, code="invalid_result", is_safe=self.may_repeat)


def _id_recorder(job: Job, mapping: McpMapping) -> Callable[[int | str], None]:
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
