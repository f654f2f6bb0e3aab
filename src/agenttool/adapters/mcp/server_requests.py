"""Requests of a server to its client, such as questions: each is answered within the call that it belongs to."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from mcp.client.session import ClientRequestContext, MessageHandlerFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
)
from pydantic import BaseModel, ValidationError

from agenttool.adapters.mcp.elicitation import elicit
from agenttool.adapters.mcp.processes import ServerLog
from agenttool.adapters.mcp.session import RELATED, Exchange, SessionCallbacks
from agenttool.adapters.mcp.settings import CLIENT, McpServer
from agenttool.codec import object_of
from agenttool.errors import CallerError, ToolFailure, words_of
from agenttool.ports.caller import CALLER, CallingClient
from agenttool.ports.executor import Job, call_failure
from agenttool.records import ErrorClass, Json, JsonObject

ELICITATION, SAMPLING, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"

_CAPABILITIES = {SAMPLING: "sampling", ROOTS: "roots"}
"""The capability that declares that a client answers a method."""

_SWITCHES = {SAMPLING: "sampling = true", ROOTS: 'roots = "client"'}
"""The setting of a server that passes a method to the client of the call."""

DEFAULT_LOG_LEVEL = "info"
"""The lowest level of log messages that a server sends in calls without a client."""

_Reply = TypeVar("_Reply", bound=BaseModel)

Sample = Callable[[JsonObject], Awaitable[JsonObject]]
"""Samples a model: takes the params of `sampling/createMessage`, and returns its result."""

MAX_QUESTIONS = 10
"""How many questions to the user one call may have open."""

LEFT_S = 5.0
"""How long a request of a server may still belong to a call that ended before the server responded.

After the cancellation the server must send no request for the call, but one that it sent before may arrive later.
"""

_NO_CALL = "the request belongs to no call that is open"
_UNCLEAR = (
    "the server does not state to which call the request belongs, and has not answered calls of several actors or"
    ' conversations; give each actor a connection of its own with sessions = "actor", or call again after them'
)
_TOO_MANY = f"{MAX_QUESTIONS} questions of this call are open, which is the limit; ask again after an answer"

_log = logging.getLogger("agenttool.mcp")


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call that runs over a connection.

    Attributes:
        client: the client that made it; None if it was a program.
        exchange: the request that the server has; None if it has none.
        waits: how many requests of its server wait for an answer; meanwhile other calls may run.
        questions: how many of them are questions to the user.
    """

    job: Job
    client: CallingClient | None
    exchange: Exchange | None = None
    waits: int = 0
    questions: int = 0
    _is_refused: bool = False

    @property
    def owner(self) -> tuple[str | None, str]:
        """The actor and the conversation."""
        return self.job.actor_ref, self.job.thread.root

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Note that the call waits for the answer to a request of its server."""
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1

    @contextmanager
    def question(self) -> Generator[bool]:
        """Count a question while it is open; yield whether it may be asked."""
        is_allowed, job = self.questions < MAX_QUESTIONS, self.job
        if not is_allowed and not self._is_refused:
            self._is_refused, call = True, job.invocation_id
            _log.warning("questions of the server in the call %s (%s) are refused: %s", call, job.tool_id, _TOO_MANY)
        self.questions += is_allowed
        try:
            yield is_allowed
        finally:
            self.questions -= is_allowed

    def note_needed(self, error: MCPError) -> None:
        """Pass the capabilities that a server requires of its client to the client of the call."""
        if self.client is not None and error.code == MISSING_REQUIRED_CLIENT_CAPABILITY:
            required = object_of(cast("object", error.data)).get("requiredCapabilities")
            self.client.note_needed(object_of(required))


class RunningCalls:
    """The calls that run over one connection.

    Attributes:
        used_at: when the last one ended.
    """

    def __init__(self) -> None:
        """Start without calls."""
        self.used_at = time.monotonic()
        self._count = 0
        self._sent: list[RunningCall] = []
        self._left: dict[int | str, tuple[float, tuple[str | None, str]]] = {}

    def __len__(self) -> int:
        """Return how many calls run."""
        return self._count

    @contextmanager
    def running(self, job: Job) -> Generator[RunningCall]:
        """Count a call until it has ended."""
        self._count += 1
        try:
            yield RunningCall(job, CALLER.get())
        finally:
            self._count -= 1
            self.used_at = time.monotonic()

    def begin_session(self) -> None:
        """Note that the connection has a new session, whose server does not know the calls of an earlier one."""
        self._left.clear()

    @contextmanager
    def sending(self, call: RunningCall, exchange: Exchange) -> Generator[None]:
        """Note that the server has the request of a call.

        A call that ends before the server responds is left: for `LEFT_S`, a request of the server may belong to it.
        """
        call.exchange = exchange
        self._sent.append(call)
        try:
            yield
        finally:
            self._sent.remove(call)
            if exchange.request_id is not None and not exchange.is_over:
                self._left = self._recently_left()
                self._left[exchange.request_id] = time.monotonic(), call.owner

    def _recently_left(self) -> dict[int | str, tuple[float, tuple[str | None, str]]]:
        since = time.monotonic() - LEFT_S
        return {number: left for number, left in self._left.items() if left[0] > since}

    def end_left(self, request_id: int | str) -> None:
        """Note that the server has responded to the request of a call that ended before."""
        self._left.pop(request_id, None)

    def find(self) -> RunningCall | str:
        """Return the call that a message of the server belongs to, or why that is not known.

        Up to revision 2025-11-25 a request of a server does not name its call, and only streamable HTTP relates them.
        On other transports, all open calls must be of one actor and conversation, and those that were left of the same
        actor. Then it is the latest call that does not wait for an answer.
        """
        related = RELATED.get()
        if related is not None:
            return next((each for each in self._sent if each.exchange is related), _NO_CALL)
        owners = {each.owner for each in self._sent}
        if not owners:
            return _NO_CALL
        owner, *others = owners
        left = (each for _, each in self._recently_left().values())
        is_shared = any(each != owner and (each[0] is None or each[0] != owner[0]) for each in left)
        if others or is_shared:
            return _UNCLEAR
        running = [each for each in self._sent if not each.waits]
        return (running or self._sent)[-1]

    def find_for(self, method: str) -> RunningCall | ErrorData:
        """Return the call that a request of the server belongs to, or the error with which the request is refused.

        The reason is recorded in all calls that the request may belong to.
        """
        found = self.find()
        if isinstance(found, RunningCall):
            return found
        _log.warning("the request %r of a server is refused: %s", method, found)
        for each in self._sent:
            each.job.report(f"the request {method!r} of the server is refused: {found}")
        return ErrorData(code=INVALID_REQUEST, message=found)


@dataclass(frozen=True, slots=True)
class ServerRequests:
    """How the requests of one server are answered.

    Attributes:
        sample: samples a model; None passes such requests to the client of the call, if the settings allow it.
    """

    server: McpServer
    sample: Sample | None = None

    def _is_passed_on(self, method: str) -> bool:
        return self.server.roots == CLIENT if method == ROOTS else self.server.sampling and self.sample is None

    def _is_offered(self, method: str) -> bool:
        return bool(self.server.roots) if method == ROOTS else self.server.sampling or self.sample is not None

    def withheld(self, client: CallingClient | None) -> frozenset[str]:
        """Return the capabilities that a request for a client does not declare, because the client lacks them."""
        return frozenset(
            capability
            for method, capability in _CAPABILITIES.items()
            if not self._is_offered(method)
            or (self._is_passed_on(method) and (client is None or not client.accepts(method)))
        )

    async def answer(self, call: RunningCall, requests: JsonObject) -> JsonObject:
        """Return the replies to what a server needs before a call can continue, by the keys of its requests.

        All are asked at the same time. The user is asked nothing if another request cannot be answered.

        Raises:
            ToolFailure: it needs something that is not offered.
        """
        client, replies = call.client, JsonObject()
        asked = {key: _read_request(each) for key, each in requests.items()}
        for key, (method, params) in asked.items():
            if _CAPABILITIES.get(method) in self.withheld(client):
                await self._forward(method, params, client, key)  # fails at once

        async def reply(key: str, method: str, params: JsonObject) -> None:
            with nullcontext() if client is None else client.expecting(key):
                if method != ELICITATION:
                    replies[key] = await self._forward(method, params, client, key)
                    return
                with call.question() as is_allowed:
                    replies[key] = (
                        await elicit(self.server, call.job, params, key) if is_allowed else {"action": "cancel"}
                    )

        try:
            async with asyncio.TaskGroup() as group:
                for key, (method, params) in asked.items():
                    group.create_task(reply(key, method, params))
        except* ToolFailure as failures:
            failure = failures.exceptions[0]
        else:
            return replies
        raise failure

    async def _forward(
        self, method: str, params: JsonObject, client: CallingClient | None, key: str | None
    ) -> JsonObject:
        if method not in _CAPABILITIES or not self._is_offered(method):
            switch = _SWITCHES.get(method)
            remedy = "" if switch is None else f"; write {switch} into the table of the source"
            message = f"the server needs {method!r} to continue, which is not offered{remedy}"
            raise call_failure(ErrorClass.CAPABILITY_GAP, message, code="not_offered")
        try:
            if method == SAMPLING and self.sample is not None:
                return await self.sample(params)
            if not self._is_passed_on(method):
                return self._roots()
            if client is not None:
                return await client.request(method, params, key=key)
            advice = "call from an MCP client" if method == ROOTS else "it has not offered a model with use_sampling"
            reason = f"the call was made by a program, which cannot answer {method!r}; {advice}"
        except CallerError as error:
            reason = words_of(error)
        message = f"the server needs {method!r} to continue: {reason}"
        raise call_failure(ErrorClass.CAPABILITY_GAP, message, code="not_offered")

    def _roots(self) -> JsonObject:
        return {"roots": [{"uri": Path(each).absolute().as_uri()} for each in self.server.roots]}

    async def _ask(self, calls: RunningCalls, params: JsonObject) -> ElicitResult | ErrorData:
        found = calls.find_for(ELICITATION)
        if isinstance(found, ErrorData):
            return found
        with found.question() as is_allowed:
            if not is_allowed:
                return ErrorData(code=INVALID_REQUEST, message=_TOO_MANY)
            with found.waiting():
                return ElicitResult.model_validate(await elicit(self.server, found.job, params))

    async def _answer_within(
        self, calls: RunningCalls, method: str, params: JsonObject, kind: type[_Reply]
    ) -> _Reply | ErrorData:
        """Answer a request that needs no question; the call that it belongs to waits."""
        found = calls.find_for(method)
        if isinstance(found, ErrorData):
            return found
        try:
            with found.waiting():
                async with found.job.outside():
                    reply = await self._forward(method, params, found.client, None)
            return kind.model_validate(reply)
        except (ToolFailure, ValidationError) as error:
            return ErrorData(code=INVALID_REQUEST, message=words_of(error))

    def callbacks(
        self, calls: RunningCalls, log: ServerLog, on_message: MessageHandlerFnT, on_update: Callable[[str], None]
    ) -> SessionCallbacks:
        """Return what a session calls; log messages of the server go to `log`, and to the client of the call."""

        async def answer_elicitation(
            context: ClientRequestContext, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            return await self._ask(calls, params.model_dump(by_alias=True, mode="json", exclude_none=True))

        async def answer_sampling(
            context: ClientRequestContext, params: CreateMessageRequestParams
        ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
            asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            kind = CreateMessageResultWithTools if params.tools else CreateMessageResult
            return await self._answer_within(calls, SAMPLING, asked, kind)

        async def answer_roots(context: ClientRequestContext) -> ListRootsResult | ErrorData:
            if not self._is_passed_on(ROOTS):  # they are the same in all calls
                return ListRootsResult.model_validate(self._roots())
            return await self._answer_within(calls, ROOTS, {}, ListRootsResult)

        async def add_to_log(params: LoggingMessageNotificationParams) -> None:
            data, found = cast("object", params.data), calls.find()
            log.add(f"{params.level}: {data}")
            if isinstance(found, RunningCall) and found.client is not None:
                await found.client.log(params.level, data, params.logger)

        return SessionCallbacks(
            on_message=on_message,
            on_update=on_update,
            on_response=calls.end_left,
            on_log=add_to_log,
            elicit=answer_elicitation,
            sample=answer_sampling if self._is_offered(SAMPLING) else None,
            list_roots=answer_roots if self._is_offered(ROOTS) else None,
        )


def _read_request(request: Json) -> tuple[str, JsonObject]:
    """Return the method and the parameters of a request of a server."""
    members = object_of(request)
    return str(members.get("method")), object_of(members.get("params"))
