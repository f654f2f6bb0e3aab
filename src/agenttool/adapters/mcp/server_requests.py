"""Requests of a server to its client, such as questions: each is answered within the call that it belongs to."""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from mcp.client.session import ClientRequestContext, MessageHandlerFnT
from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Root,
)
from pydantic import FileUrl, ValidationError

from agenttool.adapters.mcp.processes import ServerLog
from agenttool.adapters.mcp.session import SessionCallbacks
from agenttool.errors import CallerError, words_of
from agenttool.ports.caller import CALLER, CallingClient
from agenttool.ports.executor import Job
from agenttool.records import InvocationId, JsonObject

Elicit = Callable[[Job, JsonObject], Awaitable[JsonObject]]
"""Asks the user a question within a call: takes the params, and returns the result."""

SampleForCall = Callable[[JsonObject, CallingClient | None], Awaitable[JsonObject]]
"""Samples a model: takes the params, and the client that made the call, if there is one; returns the result."""

MAX_QUESTIONS = 10
"""How many questions to the user one call may have open."""

_NO_CALL = "the request belongs to no call, or calls of several actors are running"
_TOO_MANY = f"{MAX_QUESTIONS} questions of this call are open, which is the limit; ask again after an answer"

_log = logging.getLogger("agenttool.mcp")


class RunningCalls:
    """The calls that run over one connection.

    Attributes:
        used_at: when the last one ended.
    """

    def __init__(self) -> None:
        """Start without calls."""
        self.used_at = time.monotonic()
        self._jobs: list[tuple[Job, CallingClient | None]] = []
        self._questions: Counter[InvocationId] = Counter()
        self._refused: set[InvocationId] = set()

    def __len__(self) -> int:
        """Return how many calls run."""
        return len(self._jobs)

    def begin(self, job: Job) -> None:
        """Add a call."""
        self._jobs.append((job, CALLER.get()))

    def end(self, job: Job) -> None:
        """Remove a call that has ended."""
        self._jobs = [each for each in self._jobs if each[0] is not job]
        self._refused.discard(job.invocation_id)
        self.used_at = time.monotonic()

    @contextmanager
    def question(self, job: Job) -> Generator[bool]:
        """Count a question of a call while it is open; yield whether it may be asked."""
        call = job.invocation_id
        is_allowed = self._questions[call] < MAX_QUESTIONS
        if not is_allowed and call not in self._refused:
            self._refused.add(call)
            _log.warning("questions of the server in the call %s (%s) are refused: %s", call, job.tool_id, _TOO_MANY)
        self._questions[call] += is_allowed
        try:
            yield is_allowed
        finally:
            self._questions[call] -= is_allowed
            if not self._questions[call]:
                del self._questions[call]

    @property
    def current(self) -> tuple[Job, CallingClient | None] | None:
        """The call that a request of the server belongs to: the latest one, if all are of one actor.

        Up to revision 2025-11-25 a request of a server does not say to which call it belongs.
        """
        actors = {job.actor_ref for job, _ in self._jobs}
        return self._jobs[-1] if len(actors) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequests:
    """How the requests of one server are answered.

    Attributes:
        elicit: asks the user a question.
        sample: answers a request to sample a model; None refuses such requests.
        roots: the URIs of folders that are listed to the server if it asks.
    """

    elicit: Elicit
    sample: SampleForCall | None = None
    roots: tuple[str, ...] = ()

    def callbacks(
        self, calls: RunningCalls, log: ServerLog, on_message: MessageHandlerFnT, on_update: Callable[[str], None]
    ) -> SessionCallbacks:
        """Return what a session calls; log messages of the server go to `log`, and to the client of the call."""
        sample, roots = self.sample, self.roots

        async def answer_elicitation(
            context: ClientRequestContext, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            current = calls.current
            if current is None:
                return ErrorData(code=INVALID_REQUEST, message=_NO_CALL)
            asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            with calls.question(current[0]) as is_allowed:
                if not is_allowed:
                    return ErrorData(code=INVALID_REQUEST, message=_TOO_MANY)
                return ElicitResult.model_validate(await self.elicit(current[0], asked))

        async def answer_sampling(
            context: ClientRequestContext, params: CreateMessageRequestParams
        ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
            current = calls.current
            if current is None or sample is None:
                return ErrorData(code=INVALID_REQUEST, message=_NO_CALL)
            try:
                reply = await sample(params.model_dump(by_alias=True, mode="json", exclude_none=True), current[1])
                kind = CreateMessageResultWithTools if params.tools else CreateMessageResult
                return kind.model_validate(reply)
            except (CallerError, ValidationError) as error:
                return ErrorData(code=INVALID_REQUEST, message=f"no model was sampled: {words_of(error)}")

        async def list_roots(context: ClientRequestContext) -> ListRootsResult:
            return ListRootsResult(roots=[Root(uri=FileUrl(each)) for each in roots])

        async def add_to_log(params: LoggingMessageNotificationParams) -> None:
            data, current = cast("object", params.data), calls.current
            log.add(f"{params.level}: {data}")
            if current is not None and current[1] is not None:
                await current[1].log(params.level, data, params.logger)

        return SessionCallbacks(
            on_message=on_message,
            on_update=on_update,
            on_log=add_to_log,
            elicit=answer_elicitation,
            sample=None if sample is None else answer_sampling,
            list_roots=list_roots if roots else None,
        )
