"""The four messages that a runtime posts to a tool server besides invocations."""

from typing import Annotated

from msgspec import Meta

from agenttool.adapters.rap.wire.message import Message


class Selection(Message, frozen=True, kw_only=True):
    """What the user picked, as an index into the choices; posted to the `response_url`."""

    id: str
    selected: Annotated[int, Meta(ge=0)]


class CloseThread(Message, frozen=True, kw_only=True):
    """A thread closed; `thread_id` is the `group_id` of its calls."""

    thread_id: str


class CancelToolCall(Message, frozen=True, kw_only=True):
    """A call, or the subscription it opened, is no longer wanted."""

    thread_id: str
    tool_call_id: str


class Migrate(Message, frozen=True, kw_only=True):
    """A session, the root thread with all below it, moves to the same server on another host."""

    session_id: str
    destination_url: str
