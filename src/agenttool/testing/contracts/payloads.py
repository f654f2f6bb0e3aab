"""The contract of `PayloadStore`."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from agenttool.codec import digest_of_bytes
from agenttool.errors import StoreError
from agenttool.ports.stores import PayloadStore
from agenttool.records import Digest

OpenPayloads: TypeAlias = Callable[[], AbstractAsyncContextManager[PayloadStore]]

DATA = bytes(range(256)) * 4096
DIGEST = digest_of_bytes(DATA)


async def _pieces(data: bytes, size: int = 70_000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def bytes_come_back_whole_and_in_ranges(open_payloads: OpenPayloads) -> None:
    async with open_payloads() as payloads:
        assert DIGEST in await payloads.put(DATA, DIGEST)
        assert await payloads.get(DIGEST) == DATA
        assert await payloads.get(DIGEST, start=1000, length=256) == DATA[1000:1256]
        assert await payloads.get(DIGEST, start=len(DATA) - 10) == DATA[-10:]
        assert await payloads.get(DIGEST, start=len(DATA) - 10, length=100) == DATA[-10:]
        assert await payloads.get(DIGEST, start=len(DATA), length=1) == b""
        assert await payloads.get(DIGEST, start=5, length=0) == b""


async def what_is_not_there_is_none(open_payloads: OpenPayloads) -> None:
    async with open_payloads() as payloads:
        unknown = digest_of_bytes(b"never stored")
        assert await payloads.get(unknown) is None
        assert await payloads.get(unknown, start=3, length=4) is None
        try:
            [piece async for piece in payloads.stream(unknown)]
        except StoreError:
            return
        raise AssertionError("a stream of nothing ended as if it were whole")


async def putting_twice_or_at_once_is_putting_once(open_payloads: OpenPayloads) -> None:
    async with open_payloads() as payloads:
        uris = await asyncio.gather(*[payloads.put(DATA, DIGEST) for _ in range(8)])
        assert len(set(uris)) == 1
        assert await payloads.get(DIGEST) == DATA


async def a_stream_goes_in_and_out(open_payloads: OpenPayloads) -> None:
    async with open_payloads() as payloads:
        assert await payloads.put_stream(_pieces(DATA)) == (DIGEST, len(DATA))
        assert b"".join([piece async for piece in payloads.stream(DIGEST)]) == DATA
        assert await payloads.put_stream(_pieces(b"")) == (digest_of_bytes(b""), 0)
        assert await payloads.get(digest_of_bytes(b"")) == b""


async def a_stream_that_breaks_leaves_nothing(open_payloads: OpenPayloads) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield DATA
        raise ConnectionError

    async with open_payloads() as payloads:
        try:
            await payloads.put_stream(broken())
        except (StoreError, ConnectionError):
            assert await payloads.get(DIGEST) is None
            return
        raise AssertionError("half a stream was stored")


async def old_bytes_expire_and_new_ones_stay(open_payloads: OpenPayloads) -> None:
    async with open_payloads() as payloads:
        await payloads.put(DATA, DIGEST)
        assert await payloads.expire(time.time_ns() - 3600 * 10**9) == 0
        assert await payloads.get(DIGEST) == DATA
        assert await payloads.expire(time.time_ns() + 3600 * 10**9) == 1
        assert await payloads.get(DIGEST) is None
        await payloads.put(DATA, DIGEST)
        assert await payloads.get(DIGEST) == DATA


async def a_digest_is_no_path(open_payloads: OpenPayloads) -> None:
    async with open_payloads() as payloads:
        for name in ("sha256:../../etc/passwd", "sha256:", "md5:0123", f"sha256:{'g' * 64}"):
            assert await payloads.get(Digest(name)) is None


PAYLOAD_PROMISES = (
    bytes_come_back_whole_and_in_ranges,
    what_is_not_there_is_none,
    putting_twice_or_at_once_is_putting_once,
    a_stream_goes_in_and_out,
    a_stream_that_breaks_leaves_nothing,
    old_bytes_expire_and_new_ones_stay,
    a_digest_is_no_path,
)
