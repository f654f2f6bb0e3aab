"""Payloads in memory, in a folder and in an object store fulfil the contract of `PayloadStore`."""

import asyncio
import time
from contextlib import nullcontext

import pytest
from obstore.store import MemoryStore

from agenttool.codec import digest_of_bytes
from agenttool.errors import StoreError
from agenttool.records import Digest
from agenttool.stores.memory import MemoryPayloads
from agenttool.stores.payloads import ObjectPayloads

DATA = bytes(range(256)) * 4096
DIGEST = digest_of_bytes(DATA)


@pytest.fixture(params=["memory", "folder", "object store"])
def open_payloads(request, tmp_path):
    """Opens one store of payloads, as often as a test needs."""
    kinds = {
        "memory": MemoryPayloads,
        "folder": lambda: ObjectPayloads.open(tmp_path / "payloads"),
        "object store": lambda: ObjectPayloads(MemoryStore()),
    }
    payloads = kinds[request.param]()
    return lambda: nullcontext(payloads)


async def test_bytes_come_back_whole_and_in_ranges(open_payloads):
    async with open_payloads() as payloads:
        assert DIGEST in await payloads.put(DATA, DIGEST)
        assert await payloads.get(DIGEST) == DATA
        assert await payloads.get(DIGEST, start=1000, length=256) == DATA[1000:1256]
        assert await payloads.get(DIGEST, start=len(DATA) - 10) == DATA[-10:]
        assert await payloads.get(DIGEST, start=len(DATA) - 10, length=100) == DATA[-10:]
        assert await payloads.get(DIGEST, start=len(DATA), length=1) == b""
        assert await payloads.get(DIGEST, start=5, length=0) == b""


async def test_what_is_not_there_is_none(open_payloads):
    async with open_payloads() as payloads:
        unknown = digest_of_bytes(b"never stored")
        assert await payloads.get(unknown) is None
        assert await payloads.get(unknown, start=3, length=4) is None
        try:
            [piece async for piece in payloads.stream(unknown)]
        except StoreError:
            return
        raise AssertionError("a stream of nothing ended as if it were whole")


async def test_putting_twice_or_at_once_is_putting_once(open_payloads):
    async with open_payloads() as payloads:
        uris = await asyncio.gather(*[payloads.put(DATA, DIGEST) for _ in range(8)])
        assert len(set(uris)) == 1
        assert await payloads.get(DIGEST) == DATA


@pytest.mark.parametrize("data", [DATA, b""])
async def test_bytes_can_be_read_as_a_stream(data, open_payloads):
    async with open_payloads() as payloads:
        await payloads.put(data, digest_of_bytes(data))
        assert b"".join([piece async for piece in payloads.stream(digest_of_bytes(data))]) == data


async def test_old_bytes_expire_and_new_ones_stay(open_payloads):
    async with open_payloads() as payloads:
        await payloads.put(DATA, DIGEST)
        assert await payloads.expire(time.time_ns() - 3600 * 10**9) == 0
        assert await payloads.get(DIGEST) == DATA
        assert await payloads.expire(time.time_ns() + 3600 * 10**9) == 1
        assert await payloads.get(DIGEST) is None
        await payloads.put(DATA, DIGEST)
        assert await payloads.get(DIGEST) == DATA


async def test_a_digest_is_no_path(open_payloads):
    async with open_payloads() as payloads:
        for name in ("sha256:../../etc/passwd", "sha256:", "md5:0123", f"sha256:{'g' * 64}"):
            assert await payloads.get(Digest(name)) is None
