"""The bodies of requests: read within limits of size, time and memory, for every HTTP server of this package."""

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.types import Receive

UNCOUNTED_BYTES = 1_000_000
"""This many bytes of every body do not count in a `BodyBudget`."""

MAX_BUFFERED_BYTES = 200_000_000
"""The bytes that a `BodyBudget` allows beyond those."""


def is_json(content_type: str) -> bool:
    """Return whether a content type is that of JSON, with or without parameters."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


async def read_body(
    headers: Mapping[str, str],
    receive: Receive,
    max_bytes: int,
    *,
    timeout_s: float | None = None,
    has_room: Callable[[int], bool] = lambda _: True,
) -> bytes:
    """Return the body of a request; empty if the client disconnects, because it will see no response.

    Nothing is read if the headers announce a longer body than `max_bytes`.

    Raises:
        HTTPException: its length is invalid or more than `max_bytes`, it takes too long, or there is no room now.
    """
    announced = headers.get("content-length", "0")
    if not announced.strip().isdecimal():
        raise HTTPException(400, f"Content-Length is not a number: {announced!r}; correct it")
    if int(announced) > max_bytes:
        raise _too_long(max_bytes)
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(receive, max_bytes, has_room)
    except TimeoutError:
        raise HTTPException(408, "the request took too long to arrive") from None


async def _read(receive: Receive, max_bytes: int, has_room: Callable[[int], bool]) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise _too_long(max_bytes)
        if not has_room(len(body)):
            raise HTTPException(503, "too many long messages arrive at once; retry later")
        if not message.get("more_body"):
            return bytes(body)


def _too_long(max_bytes: int) -> HTTPException:
    return HTTPException(413, f"the body must have at most {max_bytes} bytes; send fewer")


class BodyBudget:
    """Limits the bytes of long request bodies that are in memory at a time, so that slow senders cannot exhaust it."""

    def __init__(self) -> None:
        self._used = 0

    @contextmanager
    def reserve(self) -> Generator[Callable[[int], bool]]:
        """Reserve memory for one body; yield a function that takes its length so far and returns whether it fits."""
        counted = 0

        def fits(length: int) -> bool:
            nonlocal counted
            excess = max(0, length - UNCOUNTED_BYTES)
            self._used += excess - counted
            counted = excess
            return not excess or self._used <= MAX_BUFFERED_BYTES

        try:
            yield fits
        finally:
            self._used -= counted
