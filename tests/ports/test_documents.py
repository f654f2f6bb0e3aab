"""Documents in memory and in a file fulfil the contract of `DocumentStore`."""

from contextlib import asynccontextmanager, nullcontext

import pytest

from agenttool.journal.steps import STEPS
from agenttool.stores.memory import MemoryDocuments
from agenttool.stores.sqlite.store import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
def open_documents(request, tmp_path):
    """Opens the same documents, as often as a test needs."""
    documents = MemoryDocuments()

    @asynccontextmanager
    async def opened():
        store = SqliteStore.open(tmp_path / "state.db", steps=STEPS)
        try:
            yield store.documents
        finally:
            await store.close()

    return opened if request.param == "sqlite" else lambda: nullcontext(documents)


async def test_a_document_is_stored_until_it_is_replaced_or_deleted(open_documents):
    async with open_documents() as one, open_documents() as other:
        assert await one.get("view", "a") is None
        await one.put("view", "a", b"first")
        assert await other.get("view", "a") == b"first"
        assert await other.get("prompt", "a") is None
        await other.put("view", "a", b"second")
        assert await one.get("view", "a") == b"second"
        await one.put("view", "a", None)
        assert await other.get("view", "a") is None


async def test_only_the_first_of_two_concurrent_swaps_succeeds(open_documents):
    async with open_documents() as one, open_documents() as other:
        assert await one.swap("prompt", "a", before=None, after=b"asked")
        assert not await other.swap("prompt", "a", before=None, after=b"asked too")
        assert await other.swap("prompt", "a", before=b"asked", after=b"yes")
        assert not await one.swap("prompt", "a", before=b"asked", after=b"no")
        assert await one.get("prompt", "a") == b"yes"
        assert await one.swap("prompt", "a", before=b"yes", after=None)
        assert await other.get("prompt", "a") is None


async def test_documents_beside_a_swap_are_written_in_its_transaction(open_documents):
    async with open_documents() as one, open_documents() as other:
        assert await one.swap("open", "a", before=None, after=b"0", beside={("event", "1"): b"first"})
        assert await other.get("event", "1") == b"first"
        assert not await other.swap("open", "a", before=None, after=b"1", beside={("event", "2"): b"second"})
        assert await one.get("event", "2") is None
        assert await one.swap("open", "a", before=b"0", after=None, beside={("event", "3"): b"third"})
        assert (await other.get("open", "a"), await other.get("event", "3")) == (None, b"third")


async def test_documents_are_listed_by_key_page_by_page(open_documents):
    async with open_documents() as one:
        for key in ("t2/x", "t1/b", "t1/a", "t1/\u00fc", "t10/a"):
            await one.put("view", key, key.encode())
        found = await one.page("view", prefix="t1/", limit=2)
        assert [key for key, _ in found] == ["t1/a", "t1/b"]
        rest = await one.page("view", prefix="t1/", after=found[-1][0], limit=9)
        assert [(key, body.decode()) for key, body in rest] == [("t1/\u00fc", "t1/\u00fc")]
        assert await one.page("prompt", limit=9) == []
        assert await one.keys("view", prefix="t1/", limit=2) == ["t1/a", "t1/b"]
        assert await one.keys("view", limit=9) == ["t1/a", "t1/b", "t1/\u00fc", "t10/a", "t2/x"]
        assert await one.keys("prompt", limit=9) == []
