"""The batch that is measured: many reads and some writes of a few accounts, the writes spread among the reads."""

from typing import NamedTuple

READS, WRITES, ACCOUNTS = 1000, 50, 5
AT_ONCE = 16
WORK_S = 0.02
"""How long each call takes; long enough that the event loop's clock, which counts milliseconds, does not matter."""


class Access(NamedTuple):
    """One call of the batch."""

    writes: bool
    account: str


def accesses() -> list[Access]:
    """Give the calls in the order in which they are asked for, turning through the accounts."""
    every = (READS + WRITES) // WRITES
    kinds = [place % every == every // 2 for place in range(READS + WRITES)]
    turns = {True: 0, False: 0}
    made: list[Access] = []
    for writes in kinds:
        made.append(Access(writes, f"account_{turns[writes] % ACCOUNTS}"))
        turns[writes] += 1
    return made
