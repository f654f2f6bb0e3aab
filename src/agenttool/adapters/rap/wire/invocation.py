"""A tool invocation, and the least that can be read of a malformed one."""

from typing import Annotated

from msgspec import Meta

from agenttool.adapters.rap.wire.message import Message
from agenttool.records import Json, JsonObject

_Named = Annotated[str, Meta(min_length=1)]
_Ancestors = Annotated[tuple[str, ...], Meta(max_length=100)]


class Invocation(Message, frozen=True, kw_only=True):
    """A call that a runtime asks for. `null` and absence of `call_id`, `thread_ancestors` and `user_id` are alike.

    Attributes:
        thread_ancestors: root first and parent last, without the thread itself; none or empty for a root thread, and
            not so many that anybody could only mean to fill a disk.
    """

    operation: _Named
    arguments: JsonObject
    id: _Named
    call_id: str | None = None
    callback_url: _Named
    group_id: _Named
    thread_ancestors: _Ancestors | None = None
    user_id: str | None = None


class ReturnAddress(Message, frozen=True, kw_only=True):
    """Where the error of a malformed invocation goes; without it, all that is left is to refuse the request."""

    callback_url: _Named
    group_id: _Named
    id: _Named
    call_id: Json = None

    @property
    def echo(self) -> str | None:
        """The `call_id` to return: only a text can be."""
        return self.call_id if isinstance(self.call_id, str) else None
