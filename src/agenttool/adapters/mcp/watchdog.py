"""A small program that ends server processes when the process that started them dies, also by SIGKILL.

It runs as `python -I -S watchdog.py`, and imports only what it needs. Its input has lines: `+PID` for the leader of a
process group to watch, `-PID` for one that has ended. The end of its input, or another parent, means that the owner
has died.
"""

import os
import select
import signal
import time
from collections.abc import Iterable

POLL_S = 1.0
GRACE_S = 2.0
"""How long processes have between SIGTERM and SIGKILL."""


def descendants(pid: int) -> list[int]:
    """Return a process and all processes below it; without `/proc` the process alone."""
    children: dict[int, list[int]] = {}
    for each in _processes():
        parent = _parent(each)
        if parent is not None:
            children.setdefault(parent, []).append(each)
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found


def signal_all(pids: Iterable[int], number: int) -> bool:
    """Send a signal to processes and to the groups that they lead; return whether any received it."""
    is_received = False
    for pid in pids:
        for send in (os.killpg, os.kill):
            try:
                send(pid, number)
                is_received = True
            except (ProcessLookupError, PermissionError):
                continue
    return is_received


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 -- pathlib loads slowly
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    """Return the parent of a process; the name before it may contain anything."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:  # noqa: PTH123 -- as above
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _read_commands() -> set[int]:
    """Return the processes that are left when the owner dies."""
    watched: set[int] = set()
    owner, buffer = os.getppid(), b""
    while os.getppid() == owner:
        if not select.select([0], [], [], POLL_S)[0]:
            continue
        data = os.read(0, 4096)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            change = watched.add if line.startswith(b"+") else watched.discard
            change(int(line[1:]))
    return watched


def main() -> None:
    """Watch until the owner dies, and end what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left = {each for pid in _read_commands() for each in descendants(pid)}
    signal_all(left, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and signal_all(left, 0):
        time.sleep(0.05)
    signal_all(left, signal.SIGKILL)


if __name__ == "__main__":
    main()
