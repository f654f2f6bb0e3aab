"""Memory and cost of the current process. Runs in the peers' environments, so it uses only the standard library."""

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

_CLEAR_REFS = Path("/proc/self/clear_refs")


def memory(field: str = "VmRSS", pid: int | str = "self") -> int:
    """Return the resident memory of a process in bytes; `VmHWM` is its peak."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def processor_time(pid: int) -> float:
    """Return the seconds that all threads of a process have run; unlike `time.process_time`, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e9


def reset_peak_memory() -> None:
    """Start the peak of memory from its current value."""
    _CLEAR_REFS.write_text("5")


def print_cost(work: Callable[[], object]) -> None:
    """Run something once; print its processor seconds and the growth of memory in bytes as JSON."""
    gc.collect()
    before, start = memory(), time.process_time()
    result = work()
    taken = time.process_time() - start
    print(json.dumps({"processor": taken, "bytes": memory() - before}))
    del result
