"""The client program of a running call: what its tool may ask of it, such as input of the user."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from agenttool.records import JsonObject


class CallingClient(Protocol):
    """The client that made a call. Requests and replies are those of the Model Context Protocol.

    Nothing proves who answers: a client may show a request to its user, or answer by itself.
    """

    @property
    def is_legacy(self) -> bool:
        """Whether its revision is at most 2025-11-25, in which servers send requests while a call is open."""
        ...

    @property
    def log_level(self) -> str | None:
        """The lowest level of log messages that the client wants; None if it wants none."""
        ...

    def note_long(self) -> None:
        """Note that the call takes long, so that a client that can follow it need not wait."""
        ...

    def accepts(self, method: str) -> bool:
        """Return whether the client declares that it answers a method, such as `elicitation/create`."""
        ...

    def note_needed(self, capabilities: JsonObject) -> None:
        """Record the capabilities of a client that the call needs, as the protocol writes them."""
        ...

    def expecting(self, key: str) -> AbstractContextManager[None]:
        """Deliver other requests of the call only after the block has made the request of this key, or has ended."""
        ...

    async def request(self, method: str, params: JsonObject, *, key: str | None = None) -> JsonObject:
        """Send a request to the client and return its reply; `key` names the request among those of one call.

        Raises:
            CallerError: the client does not declare the method, or has gone.
        """
        ...

    async def log(self, level: str, data: object, logger: str | None = None) -> None:
        """Send a log message to the client, if it wants those of this level."""
        ...


CALLER: ContextVar[CallingClient | None] = ContextVar("caller", default=None)
"""The client of the call that the present code runs within; None if there is none, as for a call of a program."""
