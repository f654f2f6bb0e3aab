"""A batch of reads and writes that lock accounts: its duration beside the earliest possible end."""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from bench.contestants.batch import AT_ONCE, READS, WORK_S, WRITES, Access, accesses
from bench.figure import Absent, Figure, compare_rounds, with_max_ratio
from bench.harness import Missing, Settings, worker

_NAME = f"{READS:,} reads, {WRITES} writes, {AT_ONCE} at once"
_BOUND, _FLOOR = "the earliest possible end", "a bare semaphore, no locks"


def measure(settings: Settings) -> list[Figure | Absent]:
    """Alternate between the batch and the same number of sleeps under a semaphore."""
    ours: list[float] = []
    floor: list[float] = []
    try:
        with worker("batch", settings) as process:
            for _ in range(3 if settings.quick else 7):
                ours.append(process.measure("batch", 1)["seconds"])
                floor.append(process.measure("semaphore", 1)["seconds"])
    except Missing as error:
        return [Absent(name=_NAME, peer_name=_BOUND, reason=str(error))]
    bound = [earliest_end(accesses())] * len(ours)
    return [
        with_max_ratio(compare_rounds(_NAME, ours, bound, peer_name=_BOUND, unit="ms"), at_most=1.1),
        compare_rounds(_NAME, ours, floor, peer_name=_FLOOR, unit="ms"),
    ]


def earliest_end(calls: Sequence[Access]) -> float:
    """Return the shortest possible duration under the scheduler's rules, if a call costs nothing but its work.

    At most `AT_ONCE` calls run at a time. Conflicting calls run in order, so the calls of one account need one step for
    each write and one for the reads between two writes.
    """
    reads: defaultdict[str, int] = defaultdict(int)
    writes: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        if call.writes:
            writes[call.account] = 1 + max(reads[call.account], writes[call.account])
        else:
            reads[call.account] = 1 + writes[call.account]
    return max(ceil(len(calls) / AT_ONCE), *reads.values(), *writes.values()) * WORK_S
