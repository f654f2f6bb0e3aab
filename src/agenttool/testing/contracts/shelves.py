"""What every shelf must keep."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from agenttool.ports.stores import DocumentStore

OpenTheShelf: TypeAlias = Callable[[], AbstractAsyncContextManager[DocumentStore]]
"""Opens the same place; twice at once gives two views of it."""


async def a_document_stays_until_another_takes_its_place(shelf: OpenTheShelf) -> None:
    async with shelf() as one, shelf() as other:
        assert await one.get("view", "a") is None
        await one.put("view", "a", b"first")
        assert await other.get("view", "a") == b"first"
        assert await other.get("prompt", "a") is None
        await other.put("view", "a", b"second")
        assert await one.get("view", "a") == b"second"
        await one.put("view", "a", None)
        assert await other.get("view", "a") is None


async def of_two_that_saw_the_same_only_the_first_changes_it(shelf: OpenTheShelf) -> None:
    async with shelf() as one, shelf() as other:
        assert await one.swap("prompt", "a", before=None, after=b"asked")
        assert not await other.swap("prompt", "a", before=None, after=b"asked too")
        assert await other.swap("prompt", "a", before=b"asked", after=b"yes")
        assert not await one.swap("prompt", "a", before=b"asked", after=b"no")
        assert await one.get("prompt", "a") == b"yes"
        assert await one.swap("prompt", "a", before=b"yes", after=None)
        assert await other.get("prompt", "a") is None


async def documents_beside_a_swap_are_put_with_it_or_not_at_all(shelf: OpenTheShelf) -> None:
    async with shelf() as one, shelf() as other:
        assert await one.swap("open", "a", before=None, after=b"0", beside={("event", "1"): b"first"})
        assert await other.get("event", "1") == b"first"
        assert not await other.swap("open", "a", before=None, after=b"1", beside={("event", "2"): b"second"})
        assert await one.get("event", "2") is None
        assert await one.swap("open", "a", before=b"0", after=None, beside={("event", "3"): b"third"})
        assert (await other.get("open", "a"), await other.get("event", "3")) == (None, b"third")


async def documents_come_by_their_keys_page_by_page(shelf: OpenTheShelf) -> None:
    async with shelf() as one:
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


SHELF_PROMISES = (
    a_document_stays_until_another_takes_its_place,
    of_two_that_saw_the_same_only_the_first_changes_it,
    documents_beside_a_swap_are_put_with_it_or_not_at_all,
    documents_come_by_their_keys_page_by_page,
)
