"""One connection to another host: a request goes out, and its answer comes in, both within bounds.

HTTP is read by `httptools`, the parser that also serves requests here. A client library around it would cost ten times
what a message does otherwise, and would have to be kept from redirects, retries and compression one by one.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, cast

import httptools

from agenttool.adapters.rap.headers import check_headers

MOST_AROUND = 65_536
"""So many bytes may stand around the body of an answer: its head, and how it is cut into pieces."""

_FINAL = 200


class Answer(NamedTuple):
    """What came back; a body that is longer than it may be is cut a little behind that length."""

    status: int
    body: bytes


def spell(method: str, host: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Write a request down.

    Raises:
        RecordError: a header would change what the request is.
    """
    check_headers(headers)
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode("ascii") + (body or b"")


class Connection(asyncio.Protocol):
    """Carries one exchange at a time; whatever goes wrong ends it, so that no answer is taken for another's."""

    def __init__(self) -> None:
        """Begin unconnected; the loop connects it."""
        self._transport: asyncio.Transport | None = None
        self._reader = _Reader()

    @property
    def is_open(self) -> bool:
        """Tell whether another exchange may begin."""
        return self._transport is not None and self._reader.answer is None and not self._transport.is_closing()

    @property
    def has_heard(self) -> bool:
        """Tell whether anything came for the last request, so that the other side has surely seen it."""
        return self._reader.has_come > 0

    @property
    def address(self) -> str | None:
        """The address that it leads to."""
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return None if peer is None else str(peer[0])

    async def exchange(self, request: bytes, most: int) -> Answer:
        """Send a request and give its answer, of whose body so many bytes are wanted.

        Raises:
            ConnectionError: the connection failed, or what came is no answer.
        """
        if self._transport is None or not self.is_open:
            raise ConnectionError("the connection is closed")
        reader = self._reader
        answer = reader.begin(most)
        try:
            self._transport.write(request)
            return await answer
        finally:
            reader.answer = None
            if not reader.may_follow or self._transport.get_write_buffer_size():
                self.close()

    def close(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hear that it is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what came; nobody asked for what comes between two exchanges."""
        if self._reader.answer is None:
            self.close()
        else:
            self._reader.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that it is closed, which may be the end of an answer."""
        self._reader.end(exc)


class _Reader:
    """Reads one answer after the other; the parser calls the methods that begin with `on`.

    Attributes:
        answer: whom to tell, once: it is complete, longer than wanted, or will never be either.
        may_follow: whether another answer may follow this one.
        has_come: how many bytes have come for it.
    """

    def __init__(self) -> None:
        self.answer: asyncio.Future[Answer] | None = None
        self.may_follow = False
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._most = self.has_come = self._status = 0
        self._has_length = False

    def begin(self, most: int) -> "asyncio.Future[Answer]":
        """Be ready for the next answer."""
        self.answer = asyncio.get_running_loop().create_future()
        self.may_follow = self._has_length = False
        self._body.clear()
        self._most, self.has_come, self._status = most, 0, 0
        return self.answer

    def feed(self, data: bytes) -> None:
        self.has_come += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("what came is no answer")
        if self.has_come - len(self._body) > MOST_AROUND:
            self._fail("the head of the answer is too long")

    def end(self, error: Exception | None) -> None:
        """Hear that nothing follows; an answer that does not say how long it is ends here."""
        if error is None and self._status >= _FINAL and not self._has_length:
            self._tell()
        else:
            self._fail("the connection was closed before the end of the answer")

    def on_message_begin(self) -> None:
        self.may_follow = False  # more than one answer came
        self._has_length = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._has_length = self._has_length or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        if len(self._body) <= self._most:
            self._body += data
            if len(self._body) > self._most:
                self._tell()

    def on_message_complete(self) -> None:
        if self._status >= _FINAL and self._is_awaited:  # what comes before is about the answer, and not it
            self.may_follow = self._parser.should_keep_alive()
            self._tell()

    @property
    def _is_awaited(self) -> bool:
        return self.answer is not None and not self.answer.done()

    def _tell(self) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(Answer(self._status, bytes(self._body)))

    def _fail(self, why: str) -> None:
        self.may_follow = False
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(ConnectionError(why))
