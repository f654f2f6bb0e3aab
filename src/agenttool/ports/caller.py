"""The client program of a running call: what its tool may ask of it, such as input of the user."""

from contextvars import ContextVar
from typing import Protocol

from agenttool.records import JsonObject


class CallingClient(Protocol):
    """The client that made a call. Requests and replies are those of the Model Context Protocol.

    Nothing proves who answers: a client may show a request to its user, or answer by itself.
    """

    def accepts(self, method: str) -> bool:
        """Return whether the client declares that it answers a method, such as `elicitation/create`."""
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
