"""Reads of the journal for requests: in a few threads of their own, so that they delay no call."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar
from weakref import WeakValueDictionary

from agenttool.errors import StoreError
from agenttool.history.reader import JournalReader, MemoryReader
from agenttool.journal.steps import STEPS
from agenttool.ports.identity import Principal
from agenttool.ports.quota import CallerQuota
from agenttool.records import InvocationId
from agenttool.server.tenants import Tenant
from agenttool.stores.sqlite.reader import SqliteReader

THREADS, THREADS_OF_CALLER = 32, 2
"""How many reads may have begun at the same time: of all callers, and of one."""

SHORT_S = 0.005
"""Longer reads, such as searches, take turns of this length."""

WORK_S, PAUSE_S = 0.0003, 0.0001
"""A read pauses after so much work, so that the event loop gets the interpreter."""

_CHECK_S = 0.1
"""The interval at which a read that waits for its turn checks whether it was ended."""

_T = TypeVar("_T")


class ReadPool:
    """The threads for reads of all tenants. No caller uses all of them, so that the reads of others can begin."""

    def __init__(self) -> None:
        """Start without threads."""
        self._threads = ThreadPoolExecutor(THREADS, "agenttool-read")
        self._quota = CallerQuota("reads of the journal")
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._long_turn = threading.Lock()

    async def read(self, tenant: Tenant, caller: Principal, use: Callable[[JournalReader], _T]) -> _T:
        """Return what a function reads from the journal of a tenant; a cancellation also ends the read in its thread.

        Raises:
            QuotaError: too many reads of the caller run or wait.
        """
        file = tenant.file
        if file is None:
            asked = await tenant.runtime.approvals.list()
            waiting: dict[InvocationId, str] = {each.invocation_id: each.approval_id for each in asked}
            return use(MemoryReader(tenant.runtime.inspection.log, waiting))

        read = PacedRead(self._long_turn)

        def read_file() -> _T:
            with closing(read), SqliteReader.open(file, steps=STEPS, pause=read.pause) as reader:
                read.interrupt = reader.interrupt
                read.check()
                return use(reader)

        name = f"{caller.tenant} {caller.subject}"
        with self._quota.hold(name):
            turns = self._turns.setdefault(name, asyncio.Semaphore(THREADS_OF_CALLER))
            async with turns:
                try:
                    return await asyncio.get_running_loop().run_in_executor(self._threads, read_file)
                except asyncio.CancelledError:
                    read.end()
                    raise

    def close(self) -> None:
        """Wait for the reads that run; those that wait are canceled."""
        self._threads.shutdown(cancel_futures=True)


class PacedRead:
    """One read in a thread. It pauses after each `WORK_S`; otherwise it would block the event loop for 5 ms at a time.

    Only one long read works at a time, so that many searches delay neither calls nor short reads.
    """

    def __init__(self, long_turn: threading.Lock) -> None:
        """Start the time; the long read that works holds `long_turn`."""
        self._long_turn = long_turn
        self._has_turn = False
        self._worked_s = 0.0
        self._paused_at = time.perf_counter()
        self._is_ended = False
        self.interrupt: Callable[[], None] | None = None
        """Ends the query that runs; None until the file is open."""

    def end(self) -> None:
        """End the read, from any thread: the query that runs, or else the next step."""
        self._is_ended = True
        if self.interrupt is not None:
            self.interrupt()

    def check(self) -> None:
        """Check that the read was not ended.

        Raises:
            StoreError: it was.
        """
        if self._is_ended:
            raise StoreError("the read was ended, because its request was; send it again")

    def pause(self) -> None:
        """Pause, if enough work was done.

        Raises:
            StoreError: the read was ended.
        """
        worked_s = time.perf_counter() - self._paused_at
        if worked_s <= WORK_S:
            return
        self.check()
        self._worked_s += worked_s
        if self._worked_s > SHORT_S:
            self._worked_s = 0.0
            self.close()
            time.sleep(PAUSE_S)  # another long read takes the turn
            while not self._has_turn:
                self._has_turn = self._long_turn.acquire(timeout=_CHECK_S)
                self.check()
        time.sleep(PAUSE_S)
        self._paused_at = time.perf_counter()

    def close(self) -> None:
        """End the turn of this read, if it has one."""
        if self._has_turn:
            self._has_turn = False
            self._long_turn.release()
