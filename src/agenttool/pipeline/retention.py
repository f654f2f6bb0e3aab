"""What is kept for how long: stored bytes and the oldest facts go when they are old enough."""

from datetime import timedelta
from typing import NamedTuple, cast

from agenttool.errors import ConfigError
from agenttool.pipeline.core import Core
from agenttool.ports.stores import DurableLog


class RetentionResult(NamedTuple):
    """What went: how many payloads, and up to which position of the log there are no facts any more."""

    payloads: int
    facts_up_to: int


async def retain(core: Core, *, payloads: timedelta | None, journal: timedelta | None) -> RetentionResult:
    """Keep stored bytes and facts for so long, and let go of what is older; nothing goes that nobody gave a time for.

    A result whose bytes have gone still says how many they were, their digest, and why they were stored. Facts go from
    the oldest on, up to the first of a call that has not ended, and the chain goes on from an anchor.

    Raises:
        ConfigError: it is no length of time.
        StoreError: a disk failed.
    """
    now_ns = core.now_ns()
    stored_ns, facts_ns = _nanoseconds("payloads", payloads), _nanoseconds("journal", journal)
    count = 0 if stored_ns is None else await core.payloads.expire(now_ns - stored_ns)
    if facts_ns is None or not core.durable:
        return RetentionResult(count, 0)
    anchor = await cast("DurableLog", core.journal.log).delete_before(now_ns - facts_ns)
    return RetentionResult(count, anchor.position)


def _nanoseconds(what: str, given: timedelta | None) -> int | None:
    if given is None:
        return None
    if not isinstance(cast("object", given), timedelta) or given < timedelta(0):
        raise ConfigError(f"{what} are kept for a length of time, got {given!r}; give a timedelta from 0 on")
    return round(given.total_seconds() * 1e9)
