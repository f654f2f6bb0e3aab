"""One call of a RAP tool: the invocation, the deferred result, and notices to servers.

An invocation is one message, byte-identical at each attempt. The response only acknowledges it; the result arrives as
a callback.
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass

from agenttool.adapters.rap import wire
from agenttool.adapters.rap.callback_urls import DAY_NS, CallbackUrls
from agenttool.adapters.rap.callbacks import CallbackHandler
from agenttool.adapters.rap.credentials import Signed
from agenttool.adapters.rap.discovery import WatchedServer
from agenttool.adapters.rap.settings import RapServer
from agenttool.adapters.rap.translate import output_of
from agenttool.codec import object_of
from agenttool.errors import RecordError, StoreError, ToolFailure
from agenttool.http.client import DEFAULT_OPTIONS, HttpReply, RequestOptions
from agenttool.ports.deferred import DEFERRED, Deferral, Prompt, ReplyOutcome, Thread
from agenttool.ports.executor import Job, call_failure
from agenttool.records import ErrorClass, InvocationId, JsonObject, ToolError

log = logging.getLogger("agenttool.rap")

FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
DEFAULT_ATTEMPTS = 5
_SEND_ONCE = RequestOptions(send_once=True, max_idle_s=1.0)
"""How an invocation is sent: each time counts as an attempt."""

_SELECTION_RETRIES = 2
_SELECTION_DELAY_S = 0.2


@dataclass(frozen=True, slots=True)
class RapExecutor:
    """Sends the invocations of one tool to its server, and reads the deferred results: its `DeferredTool`, too.

    Attributes:
        callbacks: the handler of the messages about its calls.
    """

    server: WatchedServer
    manifest: wire.Manifest
    tool: wire.ToolDefinition
    callbacks: CallbackHandler

    @property
    def source(self) -> RapServer:
        """The settings of the server."""
        return self.server.source

    @property
    def urls(self) -> CallbackUrls:
        """The callback URLs."""
        return self.callbacks.urls

    @property
    def max_sends(self) -> int:
        """How often an invocation may be sent that may have arrived: once, unless the tool may run twice."""
        hints = self.tool.hints if self.source.trusts_annotations else {}
        is_repeatable = hints.get("idempotent") is True or hints.get("readOnly") is True
        return self.source.attempts or (DEFAULT_ATTEMPTS if is_repeatable else 1)

    async def start(self, job: Job) -> object:
        """Send the invocation until it is acknowledged, rejected, or the attempts are used up.

        Raises:
            ToolFailure: execution_failed if it was rejected, dependency_unavailable if it was not acknowledged.
        """
        thread = job.thread
        if self.callbacks.now_ns() >= self.urls.expires_at_ns(job.invocation_id):
            message = "nothing was sent: the call is so old that its callback URL has expired; call again"
            raise call_failure(ErrorClass.EXECUTION_FAILED, message, code="expired")
        try:
            await self.callbacks.threads.open(thread)
        except StoreError as error:
            raise call_failure(
                ErrorClass.DEPENDENCY_UNAVAILABLE, f"nothing was sent: {error}", code="not_stored"
            ) from error
        invocation = wire.Invocation(
            operation=self.tool.name,
            arguments=job.call_input,
            id=job.invocation_id,
            call_id=job.native_call_id,
            callback_url=self.urls.url(job.invocation_id, thread.thread_id),
            group_id=thread.thread_id,
            thread_ancestors=thread.ancestors or None,
            user_id=job.actor_ref if self.source.shares_user else None,
        )
        try:
            body = wire.write(invocation)
        except RecordError as error:
            raise call_failure(ErrorClass.EXECUTION_FAILED, f"nothing was sent: {error}", code="argument") from error
        job.add_native_ids("rap", self._ids(invocation))
        return await self._send(job, body)

    async def _send(self, job: Job, body: bytes) -> object:
        """Send an invocation until it is acknowledged; again only if nothing left, or if it may arrive twice.

        If the last attempt left and got no reply, the result may still arrive, and the call waits for it if the source
        limits that time.
        """
        attempts, may_have_arrived = 0, False
        while True:
            reply = await _post(self.server, self.manifest.endpoint, body, _SEND_ONCE)
            attempts += 1
            if reply.is_accepted or (reply.is_2xx and self.source.takes_any_2xx):
                return DEFERRED
            if not reply.is_retryable:
                raise self._rejected(reply, attempts, may_have_arrived=may_have_arrived)
            may_have_arrived = may_have_arrived or (reply.is_sent and not reply.is_unhandled)
            if attempts >= (self.max_sends if may_have_arrived else self.source.attempts or DEFAULT_ATTEMPTS):
                self.server.suspicion.set()
                if reply.is_sent and reply.status is None and self.source.within_s is not None:
                    return Deferral.UNACKNOWLEDGED  # only the acknowledgement may be lost
                raise self._unreachable(reply, attempts, may_have_arrived=may_have_arrived)
            async with job.outside():
                await asyncio.sleep(reply.delay_s(attempts, first_s=FIRST_DELAY_S, max_s=MAX_DELAY_S))
            if may_have_arrived and await self.callbacks.results.get(job.invocation_id) is None:
                return DEFERRED  # another process has received the result

    def _rejected(self, reply: HttpReply, attempts: int, *, may_have_arrived: bool) -> ToolFailure:
        """Return the failure of a rejected call; an earlier attempt without a response may have been accepted."""
        reason = reply.fault or f"it answered {reply.status}, and only 200 acknowledges a call"
        message = f"the server {self.source.name!r} did not accept the call: {reason}"
        if may_have_arrived:
            message += f"; that was attempt {attempts}, and an earlier one may have been accepted"
        return call_failure(ErrorClass.EXECUTION_FAILED, message, is_safe=not may_have_arrived, code="not_accepted")

    def _unreachable(self, reply: HttpReply, attempts: int, *, may_have_arrived: bool) -> ToolFailure:
        reason = reply.fault or f"it answered {reply.status}"
        count = "its only attempt" if attempts == 1 else f"{attempts} attempts"
        message = f"the server {self.source.name!r} did not acknowledge the call in {count}: {reason}"
        if may_have_arrived:
            message += "; it may have accepted it, so check the tool's effects before you call again"
        elif not reply.is_sent:
            message = f"nothing was sent: {message}"
        return call_failure(
            ErrorClass.DEPENDENCY_UNAVAILABLE, message, is_safe=not may_have_arrived, code="not_acknowledged"
        )

    def _ids(self, message: wire.Invocation) -> JsonObject:
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

    async def may_resend(self, invocation_id: InvocationId) -> bool:
        """Return whether the server recognizes an invocation that it has already."""
        return self.max_sends > 1

    def until_ns(self, invocation_id: InvocationId, started_ns: int) -> int | None:
        """Return the deadline of a result: the end of its callback URL, or the source's own limit."""
        expires_at_ns = self.urls.expires_at_ns(invocation_id)
        within_s = self.source.within_s
        return expires_at_ns if within_s is None else min(expires_at_ns, started_ns + round(within_s * 1e9))

    def why_over(self, invocation_id: InvocationId, now_ns: int) -> str | None:
        """Return a message if the callback URL has expired."""
        if now_ns < self.urls.expires_at_ns(invocation_id):
            return None
        days = self.urls.lifetime_ns / DAY_NS
        return (
            f"no result came before the callback URL of this call expired, after {days:.3g} days;"
            " check the tool's effects, and call again"
        )

    def read(self, body: bytes) -> object:
        """Return the output of a stored result, which was validated when it arrived.

        Raises:
            ToolFailure: another version stored it, and this one cannot read it.
        """
        try:
            return output_of(wire.read(body, wire.ToolResultMessage))
        except RecordError as error:
            message = f"the stored result cannot be read: {error}"
            raise ToolFailure(ToolError(error_class=ErrorClass.RESULT_MAPPING_FAILED, message=message)) from error

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        """Notify every server that a call is canceled."""
        self.callbacks.withdraw(invocation_id, thread.thread_id)

    async def reply(self, prompt: Prompt, selected: int) -> ReplyOutcome:
        """Post a choice to the `response_url` of its prompt."""
        where = object_of(prompt.reply_to)
        body = wire.write(wire.Selection(id=str(where["id"]), selected=selected))
        url = str(where["response_url"])
        reply = await _post(self.server, url, body)
        for _ in range(_SELECTION_RETRIES):
            if reply.is_retryable:
                await asyncio.sleep(_SELECTION_DELAY_S)
                reply = await _post(self.server, url, body)
        if reply.is_accepted:
            return ReplyOutcome.ACCEPTED
        log.warning("the choice of %s was not accepted: %s", prompt.prompt_id, reply.fault or reply.status)
        return ReplyOutcome.AWAY if reply.is_retryable else ReplyOutcome.REFUSED


class NoticeSender:
    """Posts notices to every server, once and in the background; nothing depends on their arrival."""

    def __init__(self, servers: Collection[WatchedServer]) -> None:
        self._servers = servers
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, path: str, message: wire.Message) -> None:
        """Post a notice to that path of every server, and return at once."""
        body = wire.write(message)
        for server in self._servers:
            task = asyncio.create_task(_post_notice(server, path, body))  # noqa: TID251 -- `close` is its parent
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def cancel(self, invocation_id: InvocationId, thread_id: str) -> None:
        """Notify every server that a call, or the subscription that it opened, is canceled."""
        self.send("/cancel_tool_call", wire.CancelToolCall(thread_id=thread_id, tool_call_id=invocation_id))

    async def close(self) -> None:
        """Wait one second for pending notices, and cancel the rest."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1.0)
            for task in late:
                task.cancel()


async def _post(server: WatchedServer, url: str, body: bytes, options: RequestOptions = DEFAULT_OPTIONS) -> HttpReply:
    """Post a message with the credential of a server; each attempt has its own signature."""
    source = server.source
    options = options._replace(send_once=options.send_once or isinstance(source.credential, Signed))
    return await server.client.post(url, body, source.headers("POST", url, body), options=options)


async def _post_notice(server: WatchedServer, path: str, body: bytes) -> None:
    reply = await _post(server, server.source.base + path, body)
    if not reply.is_accepted:
        log.info(
            "the server %r did not accept the notice %s: %s", server.source.name, path, reply.fault or reply.status
        )
