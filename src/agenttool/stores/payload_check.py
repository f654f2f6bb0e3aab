"""Check that stored payloads still have the digests in the log."""

from collections.abc import Iterable

from agenttool.errors import StoreError
from agenttool.ports.stores import JournalFlaw, PayloadStore
from agenttool.records import Digest, Record, ResultPersistence


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
