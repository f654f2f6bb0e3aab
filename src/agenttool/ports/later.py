"""Tools that answer later: they take the work on at once, and say what came of it in minutes or days.

Such a tool hands back `LATER` in place of an output. Its call is put down before anything is sent, because the answer
may come before the acknowledgement; then it costs a row and no task, until somebody brings the answer.
"""

from collections.abc import Awaitable
from enum import Enum
from typing import Final, Protocol

from agenttool.ports.stores import Taken
from agenttool.records import ApprovalId, ClosedEnum, InvocationId, Json, JsonObject, Part, ToolId


class _Later(Enum):
    LATER = "later"


LATER: Final = _Later.LATER
"""What an executor hands back if the answer comes later."""


class Thread(Part, frozen=True, kw_only=True):
    """A conversation, and those that it came from: the root first, the parent last."""

    thread_id: str
    ancestors: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        """The first of them, which is the session."""
        return self.ancestors[0] if self.ancestors else self.thread_id


class PromptKind(ClosedEnum):
    """What a person is asked to do before a call can go on."""

    CHOICE = "choice"
    AUTHORIZATION = "authorization"


class Prompt(Part, frozen=True, kw_only=True):
    """Something that a running call needs from a person.

    Attributes:
        message: what is asked, in the words of the tool; untrusted.
        choices: what there is to choose from; none for an authorization.
        default: the choice that is taken if the person turns away.
        url: where the person gives an authorization; a secret of theirs, and gone with the prompt.
        reply_to: how the tool's side is told, in its own terms; not for people.
        selected: what was chosen.
        is_heard: whether the tool has heard of it.
        asked_before: the latest prompts of the same call that this one took the place of.
        number: how many the call has put up by now, this one included.
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
    is_heard: bool = False
    asked_before: tuple[str, ...] = ()
    number: int = 1
    asked_at_ns: int


class Asked(ClosedEnum):
    """What became of a prompt."""

    PUT_UP = "put_up"
    NOT_AWAITED = "not_awaited"
    TOO_MANY = "too_many"


class Told(ClosedEnum):
    """What came of telling a tool's side what a person chose."""

    HEARD = "heard"
    REFUSED = "refused"
    AWAY = "away"


class Awaited(Part, frozen=True, kw_only=True):
    """A call that waits for an answer from outside, as far as whoever brings the answer may see it.

    Attributes:
        is_sent: its tool has acknowledged that it works on it.
        expires_at_ns: when nobody waits for the answer any more; none if that is never.
    """

    invocation_id: InvocationId
    tool_id: ToolId
    name: str
    call_input: JsonObject
    thread: Thread
    native_call_id: str | None = None
    is_sent: bool = False
    expires_at_ns: int | None = None


class AnswersLater(Protocol):
    """What the pipeline must be able to ask of a tool that answers later."""

    def until_ns(self, invocation_id: InvocationId, started_ns: int) -> int | None:
        """Tell until when the answer of a call is waited for; none for as long as it takes."""
        ...

    def why_over(self, invocation_id: InvocationId, now_ns: int) -> str | None:
        """Say why an answer cannot come any more; none if all there is to say is that it did not come in time."""
        ...

    def read(self, body: bytes) -> object:
        """Read the answer as native output.

        Raises:
            ToolFailure: the answer is that it failed, or nothing that can be read.
        """
        ...

    def withdraw(self, invocation_id: InvocationId, thread: Thread) -> None:
        """Tell the tool's side that nobody waits for a call any more; returns at once, whatever comes of it."""
        ...

    def reply(self, prompt: Prompt, selected: int) -> Awaitable[Told]:
        """Tell the tool's side what a person chose, once or a few times in a row."""
        ...


class LateDoor(Protocol):
    """Where answers come in, from whichever side of the world; the runtime is one."""

    async def awaited(self, invocation_id: InvocationId) -> Awaited | None:
        """Give a call that waits for an answer; none if it does not, or never was."""
        ...

    async def answer_later(self, invocation_id: InvocationId, body: bytes) -> Taken:
        """Bring the answer of a call: kept when this returns, and the first one stands."""
        ...

    async def ask(self, prompt: Prompt, most: int) -> Asked:
        """Put a question of a waiting call to a person, in place of the one before, unless it asked so many already."""
        ...


def late_key(invocation_id: InvocationId) -> ApprovalId:
    """Name the answer that a call waits for."""
    return ApprovalId(LATE + invocation_id.partition("_")[2])


LATE = "late_"
"""How the name of an answer begins that comes later, and by which it is told from an approval."""
