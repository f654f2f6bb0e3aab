"""How requests of the client are repeated, and the error of one that failed."""

import asyncio
import time
from contextlib import suppress
from typing import NamedTuple

from agenttool.codec import parse_object
from agenttool.errors import GatewayError, RecordError
from agenttool.http.client import ACCEPTED, HttpReply
from agenttool.records import JsonObject

FIRST_DELAY_S, MAX_DELAY_S = 0.25, 8.0
"""The delay before a request is repeated, which doubles up to the second value."""

CALL_RETRIES, READ_RETRIES = 12, 3
"""How often a request is repeated: one that makes a call or waits for one, and any other that is safe to repeat.

With random delays the first takes about 30 seconds, so that a call survives a restart of the server. The second takes
about a second, so that a wrong address is reported soon.
"""

MAX_RETRY_AFTER_S = 60.0
"""The longest `Retry-After` that the client accepts; with a longer one, the request fails at once."""

_REPEATED = frozenset((ACCEPTED, 408, 425, 429, 500, 502, 503, 504))
"""The statuses after which a request may be repeated; an event stream that ends early has the status 200."""


class Repeats(NamedTuple):
    """How a request is repeated, and the call that it is about.

    Attributes:
        retries: how often it may be repeated; None if it must be sent once.
        deadline: it is not repeated after this moment of the monotonic clock.
        invocation_id: the call that it waits for.
        idempotency_key: the key that the call was made with.
        is_sent: whether the server may have received the request.
    """

    retries: int | None
    deadline: float | None = None
    invocation_id: str | None = None
    idempotency_key: str | None = None
    is_sent: bool = True


SEND_ONCE = Repeats(None)


async def pause(reply: HttpReply, failures: int, repeats: Repeats) -> None:
    """Wait before a request is repeated; raise its error if it must not be repeated, or failed too often."""
    delay_s = reply.delay_s(failures, first_s=FIRST_DELAY_S, max_s=MAX_DELAY_S)
    is_late = repeats.deadline is not None and time.monotonic() + delay_s > repeats.deadline
    if is_late or failures > (repeats.retries or 0) or not _may_repeat(reply):
        raise _error_of(reply, repeats)
    await asyncio.sleep(delay_s)


def _may_repeat(reply: HttpReply) -> bool:
    if reply.is_refused or reply.retry_after_s > MAX_RETRY_AFTER_S:
        return False
    return reply.status is None or reply.status in _REPEATED


def _error_of(reply: HttpReply, repeats: Repeats) -> GatewayError:
    """Return the exception for a reply with a problem document or without one, or for no reply."""
    problem: JsonObject = {}
    if reply.status is None:
        detail = f"the server did not answer: {reply.fault}; check its address and that it runs"
    else:
        with suppress(RecordError):
            problem = parse_object(reply.body)
        detail = f"the server answered {reply.status}"
    texts = {name: value for name, value in problem.items() if isinstance(value, str)}
    remedy = _remedy(repeats) if _may_repeat(reply) else ""
    return GatewayError(
        texts.get("detail", detail) + remedy,
        status=reply.status,
        pointer=texts.get("pointer"),
        reason=texts.get("reason"),
        members=problem,
        invocation_id=repeats.invocation_id,
        idempotency_key=repeats.idempotency_key,
    )


def _remedy(repeats: Repeats) -> str:
    """Return how to continue with a call whose outcome is not known."""
    if repeats.invocation_id is not None:
        return f"; the call was made, so wait for {repeats.invocation_id!r} instead of calling again"
    if not repeats.is_sent:
        return "" if repeats.idempotency_key is None else "; the call was not made"
    if repeats.idempotency_key is not None:
        return f"; the call may run, so call again only with the idempotency key {repeats.idempotency_key!r}"
    return ""
