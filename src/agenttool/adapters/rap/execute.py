"""Handing a call to its server: one message, the same each time it is tried, and no outcome on that connection."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from agenttool.adapters.rap.addresses import Addresses
from agenttool.adapters.rap.connections import Terms
from agenttool.adapters.rap.courier import Courier, Reply
from agenttool.adapters.rap.credentials import is_taken_once
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.threads import Threads
from agenttool.adapters.rap.wire import Invocation, Manifest, write
from agenttool.errors import RecordError, StoreError, ToolFailure
from agenttool.ports.deferred import DEFERRED
from agenttool.ports.executor import Job
from agenttool.records import ErrorClass, JsonObject, RetryGuidance, ToolError

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
_MOST_DOUBLED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RapExecutor:
    """Runs one tool of a server, which is to hand the work over."""

    source: RapSource
    manifest: Manifest
    operation: str
    courier: Courier
    addresses: Addresses
    threads: Threads
    now_ns: Callable[[], int]

    def start(self, job: Job) -> Coroutine[object, object, object]:
        """Give the work of one dispatch."""
        return self._dispatch(job)

    async def _dispatch(self, job: Job) -> object:
        """Send the invocation until it is acknowledged, refused, or tried often enough.

        Raises:
            ToolFailure: execution_failed if it was refused, dependency_unavailable if nobody took it.
        """
        thread = job.thread
        if self.now_ns() >= self.addresses.expires_at_ns(job.invocation_id):
            told = "nothing was sent: the call was made so long ago that its callback URL has expired; call again"
            raise _failure(ErrorClass.EXECUTION_FAILED, told, safe=True, code="expired")
        try:
            await self.threads.open(thread)
        except StoreError as error:
            raise _failure(ErrorClass.DEPENDENCY_UNAVAILABLE, f"nothing was sent: {error}", safe=True) from error
        message = Invocation(
            operation=self.operation,
            arguments=job.call_input,
            id=job.invocation_id,
            call_id=job.native_call_id,
            callback_url=self.addresses.url(job.invocation_id, thread.thread_id),
            group_id=thread.thread_id,
            thread_ancestors=thread.ancestors or None,
            user_id=job.actor_ref if self.source.shares_user else None,
        )
        try:
            body = write(message)
        except RecordError as error:
            raise _failure(ErrorClass.EXECUTION_FAILED, f"nothing was sent: {error}", safe=True) from error
        job.add_native_ids("rap", self._ids(message))
        return await self._send(body)

    async def _send(self, body: bytes) -> object:
        url, tried = self.manifest.endpoint, 0
        terms = Terms(only_once=is_taken_once(self.source.credential))  # the next try is signed anew
        while True:
            reply = await self.courier.post(url, body, self.source.headers("POST", url, body), terms=terms)
            tried += 1
            if self._is_taken(reply):
                return DEFERRED
            if not reply.is_worth_retrying:
                raise self._refused(reply, tried)
            if tried >= self.source.attempts:
                raise self._unreachable(reply, tried)
            await asyncio.sleep(random.uniform(0, _delay(tried)))  # noqa: S311 -- so that not all try again at once

    def _is_taken(self, reply: Reply) -> bool:
        is_2xx = reply.status is not None and 200 <= reply.status < 300  # noqa: PLR2004 -- HTTP's own lines
        return reply.is_accepted or (is_2xx and self.source.takes_any_2xx)

    def _refused(self, reply: Reply, tried: int) -> ToolFailure:
        """Tell a refusal; what was tried before it, and not answered, may have been taken all the same."""
        told = reply.fault or f"it answered {reply.status}, and only 200 takes a call on"
        message = f"the server {self.source.name!r} did not take the call: {told}"
        if tried > 1:
            message += f"; that was try {tried}, and one before it may have been taken"
        return _failure(ErrorClass.EXECUTION_FAILED, message, safe=tried == 1, code="not_accepted")

    def _unreachable(self, reply: Reply, tried: int) -> ToolFailure:
        told = reply.fault or f"it answered {reply.status}"
        message = f"the server {self.source.name!r} did not take the call, tried {tried} times: {told}"
        return _failure(ErrorClass.DEPENDENCY_UNAVAILABLE, message, safe=False, code="not_acknowledged")

    def _ids(self, message: Invocation) -> JsonObject:
        known: JsonObject = {
            "toolset": self.manifest.name,
            "base_url": self.source.base,
            "endpoint": self.manifest.endpoint,
            "operation": message.operation,
            "tool_call_id": message.id,
            "call_id": message.call_id,
            "group_id": message.group_id,
            "thread_ancestors": list(message.thread_ancestors) if message.thread_ancestors else None,
            "user_id": message.user_id,
        }
        return {name: value for name, value in known.items() if value is not None}


def _delay(tried: int) -> float:
    return min(FIRST_DELAY_S * 2 ** min(tried - 1, _MOST_DOUBLED), LONGEST_DELAY_S)


def _failure(error_class: ErrorClass, message: str, *, safe: bool, code: str | None = None) -> ToolFailure:
    return ToolFailure(
        ToolError(error_class=error_class, error_code=code, message=message, retry=RetryGuidance(safe=safe))
    )
