"""A batch of reads and writes that lock accounts: how near its end comes to the earliest that is possible."""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from bench.contest import worker
from bench.contestants.workload import AT_ONCE, READS, WORK_S, WRITES, Access, accesses
from bench.environments import Missing
from bench.figure import Absent, Figure, limited, paired
from bench.settings import Settings

_NAME = f"{READS:,} reads, {WRITES} writes, {AT_ONCE} at once"
_BOUND, _FLOOR = "the earliest possible end", "a bare semaphore, no locks"


def measure(settings: Settings) -> list[Figure | Absent]:
    """Run the batch again and again, and by turns as many sleeps under a bare semaphore."""
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
        limited(paired(_NAME, ours, bound, peer_name=_BOUND, unit="ms"), at_most=1.1),
        paired(_NAME, ours, floor, peer_name=_FLOOR, unit="ms"),
    ]


def earliest_end(calls: Sequence[Access]) -> float:
    """Give a time that no schedule can beat under the gate's rules, if calls cost nothing but their work.

    There are only so many places, so all calls need so many shifts; and conflicting calls run in the order in which
    they came, so those of one account need a shift for each write and one for the reads between two writes.
    """
    reads: defaultdict[str, int] = defaultdict(int)
    writes: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        if call.writes:
            writes[call.account] = 1 + max(reads[call.account], writes[call.account])
        else:
            reads[call.account] = 1 + writes[call.account]
    return max(ceil(len(calls) / AT_ONCE), *reads.values(), *writes.values()) * WORK_S
