"""The lease of this process: while it is valid, no other process recovers the calls of this one."""

import asyncio

from agenttool.pipeline.call import Core
from agenttool.pipeline.shutdown import can_park, park
from agenttool.ports.stores import LeaseLost, RecoverableCalls


class Lease:
    """The lease that this process has in a durable store. `Recovery` keeps it as long as the runtime is open."""

    def __init__(self, core: Core, calls: RecoverableCalls) -> None:
        self._core = core
        self._calls = calls
        self._renewing = asyncio.Lock()
        self._renewed_at = 0.0
        """When it was renewed last, by the clock of the event loop."""

    @property
    def is_valid(self) -> bool:
        """Whether it surely has not expired."""
        return self._age_s < self._core.durability.lease_s

    async def acquire(self) -> None:
        """Register the lease.

        Raises:
            StoreError: it could not be written.
        """
        await self._renew()
        self._core.durability.has_lease = True

    async def keep(self) -> None:
        """Renew the lease unless it was renewed recently; continue under a new owner if it was lost.

        Raises:
            StoreError: it could not be written.
        """
        async with self._renewing:
            if self._age_s <= self._core.durability.lease_s / 3:
                return
            try:
                await self._renew()
            except LeaseLost:
                await self._replace_owner()

    @property
    def _age_s(self) -> float:
        return self._core.timing.deadlines.now() - self._renewed_at

    async def _renew(self) -> None:
        began = self._core.timing.deadlines.now()
        await self._calls.renew_lease(self._core.clock.moment().after(round(self._core.durability.lease_s * 1e9)))
        self._renewed_at = began

    async def _replace_owner(self) -> None:
        """Continue under a new owner name; calls that wait are parked for other processes."""
        for invocation_id in self._calls.replace_owner():
            call = self._core.registry.calls.get(invocation_id)
            if call is not None and can_park(call):
                park(call)
        await self._renew()
