"""Check that stored payloads still have the digests in the log."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact
from agenttool.ports.stores import JournalFlaw, PayloadStore
from agenttool.records import Digest, Record, ResultPersistence

PORTION = 500


class FactReader(Protocol):
    """The part of a log that the check reads."""

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Return facts with their positions, oldest first."""
        ...


async def verify_payloads(log: FactReader, payloads: PayloadStore) -> AsyncIterator[JournalFlaw]:
    """Read every payload that the log refers to, and yield those that were changed; an expired one is no flaw."""
    after = 0
    while facts := log.read(after, PORTION):
        for position, fact in facts:
            if fact.data is None or isinstance(fact.data, dict):
                continue
            for digest in digests_in(fact.data.records(fact)):
                if await is_there(payloads, digest) and (flaw := await flaw_of(payloads, digest, position)):
                    yield flaw
        after = facts[-1][0]


def digests_in(records: Iterable[Record]) -> list[Digest]:
    """Return the digests of the payloads that records refer to."""
    refs = [record.persisted_ref for record in records if isinstance(record, ResultPersistence)]
    return [ref.digest for ref in refs if ref is not None and ref.digest is not None]


async def is_there(payloads: PayloadStore, digest: Digest) -> bool:
    """Return whether a payload is stored."""
    return await payloads.get(digest, length=0) is not None


async def flaw_of(payloads: PayloadStore, digest: Digest, position: int) -> JournalFlaw | None:
    """Read a payload to its end, piece by piece; return its flaw, or none."""
    try:
        async for _ in payloads.stream(digest):
            pass
    except StoreError as error:
        return JournalFlaw(position=position, what="payload", expected=digest, found=str(error))
    return None
