"""How a tool of a RAP server answers later: what its result says, and how it hears from us meanwhile."""

import asyncio
import logging
from dataclasses import dataclass
from typing import cast

from agenttool.adapters.rap.addresses import DAY_NS, Addresses
from agenttool.adapters.rap.connections import Terms
from agenttool.adapters.rap.courier import Courier, Reply
from agenttool.adapters.rap.credentials import is_taken_once
from agenttool.adapters.rap.notices import Notices
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.translate import output_of
from agenttool.adapters.rap.wire import CancelToolCall, Selection, ToolResultMessage, read_callback, write
from agenttool.errors import RecordError, ToolFailure
from agenttool.ports.deferred import Prompt, ReplyOutcome, Thread
from agenttool.records import ErrorClass, InvocationId, JsonObject, ToolError

log = logging.getLogger("agenttool.rap")

_TRIES = 3
_BETWEEN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RapLater:
    """What the pipeline may ask of a tool whose answers come as callbacks."""

    source: RapSource
    courier: Courier
    notices: Notices
    addresses: Addresses

    def until_ns(self, invocation_id: InvocationId, started_ns: int) -> int | None:
        """Wait no longer than a result could come in: its callback URL expires."""
        expires_at_ns = self.addresses.expires_at_ns(invocation_id)
        within_s = self.source.within_s
        return expires_at_ns if within_s is None else min(expires_at_ns, started_ns + round(within_s * 1e9))

    def why_over(self, invocation_id: InvocationId, now_ns: int) -> str | None:
        """Say that the callback URL has expired, if it has."""
        if now_ns < self.addresses.expires_at_ns(invocation_id):
            return None
        days = self.addresses.lifetime_ns / DAY_NS
        return (
            f"no result came before the callback URL of this call expired, after {days:.3g} days; look, and call again"
        )

    def read(self, body: bytes) -> object:
        """Read the callback that settled the call; it was checked when it came in.

        Raises:
            ToolFailure: another version took it in, and this one cannot read it.
        """
        try:
            message = read_callback(body)
        except RecordError as error:
            raise _unreadable(str(error)) from error
        if not isinstance(message, ToolResultMessage):
            raise _unreadable("it is no result")
        return output_of(message)

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        """Tell every server that a call is given up."""
        notice = CancelToolCall(thread_id=thread.thread_id, tool_call_id=invocation_id)
        self.notices.send("/cancel_tool_call", notice)

    async def reply(self, prompt: Prompt, selected: int) -> ReplyOutcome:
        """Post what was chosen to where the tool wants to hear it."""
        where = cast("JsonObject", prompt.reply_to)
        body = write(Selection(id=str(where["id"]), selected=selected))
        url, tried = str(where["response_url"]), 1
        reply = await self._post(url, body)
        while not reply.is_accepted and reply.is_worth_retrying and tried < _TRIES:
            await asyncio.sleep(_BETWEEN_S)
            reply = await self._post(url, body)
            tried += 1
        if reply.is_accepted:
            return ReplyOutcome.HEARD
        log.warning("the choice of %s was not heard: %s", prompt.prompt_id, reply.fault or reply.status)
        return ReplyOutcome.AWAY if reply.is_worth_retrying else ReplyOutcome.REFUSED

    async def _post(self, url: str, body: bytes) -> Reply:
        terms = Terms(only_once=is_taken_once(self.source.credential))
        return await self.courier.post(url, body, self.source.headers("POST", url, body), terms=terms)


def _unreadable(why: str) -> ToolFailure:
    message = f"the result that was kept cannot be read: {why}"
    return ToolFailure(ToolError(error_class=ErrorClass.RESULT_MAPPING_FAILED, message=message))
