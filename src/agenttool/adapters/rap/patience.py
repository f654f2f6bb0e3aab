"""How long a server waits for a request, and for how many at a time: half of one holds up nobody for long."""

import asyncio
from collections.abc import Iterable
from math import inf

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_S = 10.0
WHOLE_S = 40.0
"""Within these times the head of a request must have come in, and all of it; what takes in bodies may be stricter."""

GRACE_S = 5.0
"""How much longer the rest of a request is waited for once the server is to stop."""

MOST_AROUND = 65_536
"""So many bytes may stand around the body of a request: its head, what cuts it into pieces, and what trails it."""

MOST_CONNECTIONS = 500
"""So many has a server; then those make room who owe a request, and after them those who have had their answer."""

_CURRENT = "1.1"


class Patient(HttpToolsProtocol):
    """Serves a connection as the library does, within bounds that the library does not have.

    Attributes:
        is_owed: a request is waited for, or the rest of it.
    """

    _before: RequestResponseCycle | None = None
    _alarm: asyncio.TimerHandle | None = None
    is_owed = True
    _around = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- as the library has it
        """Begin to wait for a request; if there are too many who do, the first of them has waited enough."""
        super().connection_made(transport)
        self._alarm = self.loop.call_later(HEAD_S, self._look)
        if len(self.connections) > MOST_CONNECTIONS:
            others = (each for each in self.connections - {self} if isinstance(each, Patient) and each.is_idle)
            min(others, key=Patient.until, default=self).hang_up()

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody would lose an answer with this connection."""
        return self.is_owed or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Take what came, and see whether the request is whole."""
        if not self.is_owed and self.cycle.response_complete:
            self.is_owed, self._before = True, self.cycle
        self._around += len(data)
        super().data_received(data)
        if self._around > MOST_AROUND:  # also of a request that is answered already, or waits behind another
            self.hang_up()
        elif self.is_owed and self.cycle is not self._before and not self.cycle.more_body:
            self.is_owed = False
            self._rest()
        elif self.is_owed and self._alarm is None:
            self._alarm = self.loop.call_later(HEAD_S, self._look)

    def on_headers_complete(self) -> None:
        """Serve only what every server on its way takes for the same request; whatever is raised here is a 400.

        Raises:
            ValueError: it does not say to whom it goes, or says it twice, or its body is coded in another way.
        """
        is_current = self.parser is not None and self.parser.get_http_version() == _CURRENT
        hosts = sum(name == b"host" for name, _ in self.headers)
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if hosts > 1 or (is_current and not hosts):
            raise ValueError("a request must name its host once")
        if codings and not (is_current and codings == [b"chunked"]):
            raise ValueError("a body must be coded in pieces, or not at all")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, which has a bound of its own."""
        self._around -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to count anew."""
        self._around = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._rest()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Wait a little longer if only the body is missing."""
        self._alarm = None
        if self.cycle is self._before:
            self.hang_up()
        else:
            self._alarm = self.loop.call_later(WHOLE_S - HEAD_S, self.hang_up)

    def until(self) -> float:
        """Tell until when a request is waited for; one that has had its answer comes after those who owe theirs."""
        return inf if self._alarm is None else self._alarm.when()

    def _rest(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def hang_up(self) -> None:
        """Wait no longer."""
        self._rest()
        self.transport.abort()


def let_go(connections: Iterable[object]) -> None:
    """Wait no longer for whoever owes the rest of a request; those who are owed an answer get it."""
    for each in tuple(connections):
        if isinstance(each, Patient) and each.is_owed:
            each.hang_up()
