"""What a call claims so that no other touches it at the same time."""

from collections.abc import Callable, Iterable

from agenttool.records import JsonObject, ResourceLock

LockRule = Callable[[JsonObject], Iterable[ResourceLock | str]]
"""Names what a call locks, from its actual arguments; a bare string is an exclusive lock."""

SHARED_MODES = frozenset({"read", "shared"})
"""The modes that two calls may hold at once; every other word, and none at all, means exclusive."""


Claim = tuple[str, bool]
"""A lock as the gate reads it: the resource, and whether the call wants it for itself."""


def claims(locks: Iterable[ResourceLock]) -> tuple[Claim, ...]:
    """Read locks as the gate does: each resource once, and exclusive if any of its locks is."""
    modes: dict[str, bool] = {}
    for lock in locks:
        if lock.resource is not None:
            modes[lock.resource] = lock.mode not in SHARED_MODES or modes.get(lock.resource, False)
    return tuple(modes.items())


def locks_of(rule: LockRule, call_input: JsonObject) -> tuple[ResourceLock, ...] | None:
    """Ask a tool what this call locks; `None` means that it could not tell, and then the call must run alone."""
    named: list[ResourceLock] = []
    try:
        for lock in rule(call_input):
            named.append(ResourceLock(resource=lock, mode="exclusive") if isinstance(lock, str) else lock)
            if not _is_readable(named[-1]):
                return None
    except Exception:  # noqa: BLE001 -- a rule that fails has not told what it locks, and unknown means alone
        return None
    return tuple(named)


def _is_readable(lock: object) -> bool:
    """A rule comes from outside: what its signature promises is checked all the same."""
    return isinstance(lock, ResourceLock) and isinstance(lock.resource, str)
