"""Whether the bytes that the log speaks of are still the ones it speaks of."""

from collections.abc import AsyncIterator

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact
from agenttool.ports.stores import EventLog, Flaw, PayloadStore
from agenttool.records import Digest, ResultPersistence

PORTION = 500


async def verify_payloads(log: EventLog, payloads: PayloadStore) -> AsyncIterator[Flaw]:
    """Read every payload that the log refers to, and tell those that were changed; one that has expired is no flaw."""
    after = 0
    while facts := log.read(after, PORTION):
        for position, fact in facts:
            for digest in _digests(fact):
                problem = await _problem(payloads, digest)
                if problem is not None:
                    yield Flaw(position=position, what="payload", expected=digest, found=problem)
        after = facts[-1][0]


def _digests(fact: Fact) -> list[Digest]:
    if fact.data is None or isinstance(fact.data, dict):
        return []
    refs = [record.persisted_ref for record in fact.data.records(fact) if isinstance(record, ResultPersistence)]
    return [ref.digest for ref in refs if ref is not None and ref.digest is not None]


async def _problem(payloads: PayloadStore, digest: Digest) -> str | None:
    """Read a payload to its end, piece by piece, and give what is wrong with it."""
    if await payloads.get(digest, length=0) is None:
        return None
    try:
        async for _ in payloads.stream(digest):
            pass
    except StoreError as error:
        return str(error)
    return None
