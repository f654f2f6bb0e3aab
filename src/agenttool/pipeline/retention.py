"""Retention: deletes old payloads and facts."""

from datetime import timedelta
from typing import NamedTuple, cast

from agenttool.errors import ConfigError
from agenttool.pipeline.call import Core
from agenttool.ports.stores import DurableLog


class RetentionResult(NamedTuple):
    """The number of deleted payloads, and the position up to which facts were deleted."""

    payloads: int
    facts_up_to: int


async def retain(core: Core, *, payloads: timedelta | None, journal: timedelta | None) -> RetentionResult:
    """Delete payloads and facts that are older than the given times; without a time nothing is deleted.

    A result whose bytes are deleted still has their size, their digest, and the reason why they were stored. Facts are
    deleted from the oldest on, up to the first of an open call, and the chain continues from an anchor.

    Raises:
        ConfigError: it is no length of time.
        StoreError: a disk failed.
    """
    now_ns = core.clock.now_ns()
    stored_ns, facts_ns = _nanoseconds("payloads", payloads), _nanoseconds("journal", journal)
    count = 0 if stored_ns is None else await core.payloads.store.expire(now_ns - stored_ns)
    if facts_ns is None or not core.durable:
        return RetentionResult(count, 0)
    anchor = await cast("DurableLog", core.journal.log).delete_before(now_ns - facts_ns)
    return RetentionResult(count, anchor.position)


def _nanoseconds(what: str, given: timedelta | None) -> int | None:
    if given is None:
        return None
    if not isinstance(cast("object", given), timedelta) or given < timedelta(0):
        raise ConfigError(f"{what} must be a length of time, got {given!r}; pass a timedelta of 0 or more")
    return round(given.total_seconds() * 1e9)
