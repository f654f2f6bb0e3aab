"""Whether the bytes that the log speaks of are still the ones it speaks of."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact
from agenttool.ports.stores import JournalFlaw, PayloadStore
from agenttool.records import Digest, Record, ResultPersistence

PORTION = 500


class Facts(Protocol):
    """A log as far as it is read here."""

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Give facts with their positions, oldest first."""
        ...


async def verify_payloads(log: Facts, payloads: PayloadStore) -> AsyncIterator[JournalFlaw]:
    """Read every payload that the log refers to, and tell those that were changed; one that has expired is no flaw."""
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
    """Name the payloads that some records promise."""
    refs = [record.persisted_ref for record in records if isinstance(record, ResultPersistence)]
    return [ref.digest for ref in refs if ref is not None and ref.digest is not None]


async def is_there(payloads: PayloadStore, digest: Digest) -> bool:
    """Tell whether there are any bytes of that name."""
    return await payloads.get(digest, length=0) is not None


async def flaw_of(payloads: PayloadStore, digest: Digest, position: int) -> JournalFlaw | None:
    """Read a payload to its end, piece by piece, and tell what is wrong with it."""
    try:
        async for _ in payloads.stream(digest):
            pass
    except StoreError as error:
        return JournalFlaw(position=position, what="payload", expected=digest, found=str(error))
    return None
