"""Deferred tools: they acknowledge a call at once and deliver its result minutes or days later.

The executor of such a tool returns `DEFERRED` in place of an output. The call is checkpointed before the request is
sent, because the result may arrive before the acknowledgement. While it waits it is a row in the store and no task.
"""

from collections.abc import Awaitable
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from typing import Final, Protocol

from agenttool.codec import json_bytes
from agenttool.records import ApprovalId, ClosedEnum, InvocationId, Json, JsonObject, Part, ToolId


class AnswerStatus(ClosedEnum):
    """What became of an answer."""

    ACCEPTED = "accepted"
    ANSWERED = "answered"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class Deferral(Enum):
    """What an executor returns in place of an output: how the request was received."""

    DEFERRED = "taken on; the answer comes later"
    UNACKNOWLEDGED = "sent and not acknowledged; the answer may still come"


DEFERRED: Final = Deferral.DEFERRED
"""What an executor returns if the result arrives later."""


class Thread(Part, frozen=True, kw_only=True):
    """A conversation and its ancestors: the root first, the parent last."""

    thread_id: str
    ancestors: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        """The first of them, which is the session."""
        return self.ancestors[0] if self.ancestors else self.thread_id

    def child(self, thread_id: str) -> "Thread":
        """Return a conversation within this one."""
        return Thread(thread_id=thread_id, ancestors=(*self.ancestors, self.thread_id))

    @classmethod
    def of_caller(cls, subject: str, name: str | None = None) -> "Thread":
        """Return a conversation that only one caller can name. It is the same one in later processes."""
        return _thread_of_caller(subject, name)


@lru_cache(1024)
def _thread_of_caller(subject: str, name: str | None) -> Thread:
    return Thread(thread_id=f"thr_{sha256(json_bytes([subject, name])).hexdigest()[:32]}")


class PromptKind(ClosedEnum):
    """What a person is asked to do before a call can continue."""

    CHOICE = "choice"
    AUTHORIZATION = "authorization"


class Prompt(Part, frozen=True, kw_only=True):
    """Something that a running call needs from a person.

    Attributes:
        message: the question, in the words of the tool; untrusted.
        choices: the options; none for an authorization.
        default: the choice that is used if the person declines.
        url: where the person grants an authorization; secret, and deleted with the prompt.
        reply_to: how to reach the tool's server, in its own terms; not shown to people.
        selected: the chosen option.
        is_delivered: whether the server has acknowledged the choice.
        asked_before: the latest prompts of the same call that this one replaced.
        number: how many prompts the call has made by now, this one included.
    """

    prompt_id: str
    invocation_id: InvocationId
    tool_id: ToolId
    tool_name: str
    thread_id: str
    kind: PromptKind
    message: str
    choices: tuple[str, ...] = ()
    default: int | None = None
    url: str | None = None
    reply_to: Json = None
    selected: int | None = None
    is_delivered: bool = False
    asked_before: tuple[str, ...] = ()
    number: int = 1
    asked_at_ns: int


PROMPTS = "prompt"
"""The kind of the documents with the open prompts of calls; the key is the call."""


class PromptOutcome(ClosedEnum):
    """What became of a prompt."""

    PUT_UP = "put_up"
    NOT_AWAITED = "not_awaited"
    TOO_MANY = "too_many"


class ReplyOutcome(ClosedEnum):
    """What became of the delivery of a person's choice to the tool's server."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    AWAY = "away"


class PendingCall(Part, frozen=True, kw_only=True):
    """A call that waits for a deferred result, as far as the deliverer of the result may see it.

    Attributes:
        is_sent: the tool has acknowledged the request.
        expires_at_ns: when the result is not wanted any more; none if that is never.
    """

    invocation_id: InvocationId
    tool_id: ToolId
    name: str
    call_input: JsonObject
    thread: Thread
    native_call_id: str | None = None
    is_sent: bool = False
    expires_at_ns: int | None = None


class DeferredTool(Protocol):
    """What the pipeline needs of a deferred tool."""

    async def may_resend(self, invocation_id: InvocationId) -> bool:
        """Return whether a request that may have arrived may be sent again, by a process that recovers the call."""
        ...

    def until_ns(self, invocation_id: InvocationId, started_ns: int) -> int | None:
        """Return until when the result of a call is awaited; none if there is no limit."""
        ...

    def why_over(self, invocation_id: InvocationId, now_ns: int) -> str | None:
        """Return why a result cannot arrive any more; none if it is only late."""
        ...

    def read(self, body: bytes) -> object:
        """Return the native output in a result.

        Raises:
            ToolFailure: the result is a failure, or cannot be read.
        """
        ...

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        """Notify the server that the result is not wanted any more; returns at once, whatever becomes of it."""
        ...

    def reply(self, prompt: Prompt, selected: int) -> Awaitable[ReplyOutcome]:
        """Deliver a person's choice to the server, with a few attempts."""
        ...


class ResultReceiver(Protocol):
    """Receives results and prompts from the servers of deferred tools; `rt.deferred` implements it."""

    async def get(self, invocation_id: InvocationId) -> PendingCall | None:
        """Return a call that waits for a result; None if it does not, or is unknown."""
        ...

    async def deliver(self, invocation_id: InvocationId, body: bytes) -> AnswerStatus:
        """Store the result of a call; it is durable when this returns, and later ones are ignored."""
        ...

    async def ask(self, prompt: Prompt, most: int) -> PromptOutcome:
        """Show the prompt of a waiting call in place of the one before, unless the call had `most` prompts already."""
        ...


def result_key(invocation_id: InvocationId) -> ApprovalId:
    """Return the key of the result that a call waits for."""
    return ApprovalId(RESULT_PREFIX + invocation_id.partition("_")[2])


RESULT_PREFIX = "late_"
"""The prefix of the key of a deferred result, which distinguishes it from an approval."""
