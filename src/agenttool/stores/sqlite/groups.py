"""Group commit: callers who are ready at the same time share a commit, and a thread makes it if the disk is slow.

Whoever wants to settle first waits one turn of the event loop, so that everybody who is ready now comes along. Then it
commits for all of them right here, as long as the disk is quick: a hop to a thread and back, which both need the
interpreter, costs more than it frees. While a disk keeps its callers waiting, a thread waits for it, and the loop goes
on; who comes meanwhile waits for the next departure.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import NoReturn, TypeVar

from agenttool.errors import StoreError
from agenttool.ports.stores import LeaseLost
from agenttool.stores.sqlite.batch import Batch
from agenttool.stores.sqlite.begun import Together
from agenttool.stores.sqlite.chain import ToldFact
from agenttool.stores.sqlite.connect import PATIENCE_S
from agenttool.stores.sqlite.writer import Busy, Writer

LINGER_S = 0.05
"""How long facts that nobody settles stay in memory."""

QUICK_S, PATIENT_S = 0.001, 0.005
"""A disk that is waited for longer than this does not hold up the loop again until it is quick: with many callers,
whose other work would wait as well, and with a single one."""

LONE = 8
"""After so many commits for one caller each, nobody else is waited for."""

TURN_S = 0.002
"""So long a lone caller may go on before everybody else has a turn of the loop."""

BACKLOG = 100_000
"""How many facts may wait for a disk that fails before no more are taken."""

_GIVEN_UP = "this process was taken for dead and gave up its calls; look in the log for what becomes of them"

_T = TypeVar("_T")
_Loop = asyncio.AbstractEventLoop


class _Kept:
    """Something to wait for that is over already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_KEPT = _Kept()


class GroupCommit:
    """All writing of one process to one file. Everything but the commit itself happens on the event loop."""

    def __init__(self, writer: Writer, on_kept: Callable[[], None]) -> None:
        """Take the writer, and whom to tell that facts are kept."""
        self._batches = count()
        self.batch = Batch(next(self._batches))
        self.begun: dict[str, Together] = {}
        """The calls of this process of which facts are on their way to disk, and not yet the last."""
        self.lost: set[str] = set()
        """The calls that other processes have taken from this one."""
        self._under_way: Batch | None = None
        self._writer = writer
        self._on_kept = on_kept
        self._waiting: list[asyncio.Future[None]] = []
        self._aboard: list[asyncio.Future[None]] = []
        self._is_writer_taken = False
        self._is_gathering = False
        self._is_lingering = False
        self._waited_s = 0.0
        self._lone = 0
        self._lives = 0
        self._turn_until_s = 0.0
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[tuple[_Loop, Batch | None] | None] = SimpleQueue()

    def add(self, fact: ToldFact) -> Batch:
        """Take a fact; give the batch that it goes with.

        Raises:
            StoreError: so many wait for a disk that fails that no more are taken.
        """
        batch = self.batch
        if self.lost and fact[0] in self.lost:
            raise StoreError(f"another process has taken {fact[0]} over; look there for what becomes of it")
        if len(batch.facts) >= BACKLOG:
            raise StoreError(f"{BACKLOG} facts wait for a disk that fails; free or mend it, then settle")
        batch.facts.append(fact)
        if not self._is_lingering:
            self.linger()
        return batch

    def lose(self) -> set[str]:
        """Give up every call under way, with all that is still to be written of it; name them.

        Whoever waits is told so: what they wait for may be what is given up, and it would pass for kept.
        """
        # Also those whose last word is on its way: it is too late for that.
        lost = {*self.begun, *self.batch.parted, *(self._under_way.parted if self._under_way is not None else ())}
        for call, together in self.begun.items():
            together.calls.pop(call, None)
        self.begun.clear()
        self.batch.drop(lost)
        self.batch.changes.clear()  # whoever wanted them is among those who wait
        self.lost |= lost
        self._lives += 1
        waiting, self._waiting = self._waiting, []
        _tell(waiting, LeaseLost(_GIVEN_UP))
        return lost

    def forget(self, call: str) -> None:
        """Let a call go from among those that have begun: it has ended, or is kept for whoever comes."""
        together = self.begun.pop(call, None)
        if together is not None:
            del together.calls[call]
            if together.is_put:
                self.batch.parted.add(call)
            if together.is_written and not together.calls and not together.is_loose:
                self.batch.ended.append(together.number)

    def linger(self) -> None:
        """See to it that what is waiting now is written before long, even if nobody settles."""
        if self._is_lingering:
            return
        with suppress(RuntimeError):  # outside of a loop somebody will settle
            loop = asyncio.get_running_loop()
            self._is_lingering = True
            loop.call_later(LINGER_S, self._write_leftovers, loop)

    def pending(self) -> Iterator[ToldFact]:
        """Give the facts that are not known to be kept yet, in order."""
        if self._under_way is not None:
            yield from self._under_way.facts
        yield from self.batch.facts

    def releasing(self) -> list[str]:
        """Give the calls that are let go of, though that is not known to be kept yet."""
        under_way = () if self._under_way is None else self._under_way.released
        return [*under_way, *self.batch.released]

    def settle(self) -> Awaitable[None]:
        """Give something to wait for: it is over once all that was put into the batch before is kept."""
        loop = asyncio.get_running_loop()
        if self._is_gathering and self.batch.facts:  # most of many callers find it so
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiting.append(waiter)
            return waiter
        if self._is_gathering or self._is_writer_taken or not (self.batch.facts or self.batch):
            return self._join(loop)
        return self._go(loop) if self._is_alone(loop) else self._lead(loop)

    @property
    def _is_free(self) -> bool:
        return not self._is_gathering and not self._is_writer_taken

    def _join(self, loop: _Loop) -> asyncio.Future[None]:
        """Wait with whoever waits for what is there now."""
        waiter: asyncio.Future[None] = loop.create_future()
        if self.batch:
            self._waiting.append(waiter)
        elif self._under_way is not None:
            self._aboard.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    def _go(self, loop: _Loop) -> Awaitable[None]:
        """Write what is there for whoever waits; a single fact, if only one does, by the shortest way."""
        batch, is_quick = self.batch, self._waited_s <= PATIENT_S
        if self._waiting or not is_quick or not batch.is_single:
            return self._go_together(loop)
        ((call, told),) = batch.facts
        together = None if call is None else self.begun.get(call)
        is_held = together is not None and (together is batch.begin or together.is_loose)
        number, end, start = next(self._batches), self._writer.end, time.perf_counter()
        try:
            is_kept = self._writer.go_on(told, is_held=is_held)
            if is_kept:
                self._waited_s = time.perf_counter() - start
                batch.single_kept(number)
        except StoreError as error:
            failed: asyncio.Future[None] = loop.create_future()
            _tell([failed], error)
            return failed
        except BaseException as interrupt:
            if self._writer.end is end:
                raise
            is_kept = True
            batch.single_kept(number)
            _come_later(loop, interrupt)
        if not is_kept:
            return self._go_together(loop)
        self._lone += 1
        if self._writer.is_checkpoint_due(idle=True):
            self._hand_over(loop, None)
        self._on_kept()
        return _KEPT

    def _go_together(self, loop: _Loop) -> asyncio.Future[None]:
        waiter = self._join(loop)
        self._depart(loop)
        return waiter

    def _is_alone(self, loop: _Loop) -> bool:
        """Tell whether nobody came along lately, so that there is no use in waiting for others.

        Not for long: whoever settles again and again lets the others have their turn.
        """
        if self._lone < LONE:
            return False
        if self._turn_until_s:
            return time.perf_counter() < self._turn_until_s
        self._turn_until_s = time.perf_counter() + TURN_S
        loop.call_soon(self._begin_turn)
        return True

    def _begin_turn(self) -> None:
        self._turn_until_s = 0.0

    async def _lead(self, loop: _Loop) -> None:
        """Let everybody who is ready now come along, then go; who finds somebody else leading comes along."""
        life = self._lives
        if self._is_free:
            await self._gather(loop)
        if life != self._lives:
            self._depart_if_awaited(loop)
            raise LeaseLost(_GIVEN_UP)
        await (self._go(loop) if self.batch and self._is_free else self._join(loop))

    async def _gather(self, loop: _Loop) -> None:
        self._is_gathering = True
        try:
            await asyncio.sleep(0)
        except BaseException:
            self._is_gathering = False
            self._depart_if_awaited(loop)
            raise
        self._is_gathering = False

    async def perform(self, change: Callable[[sqlite3.Connection], _T], *, registers: bool = False) -> _T:
        """Make one change and give its outcome once it is kept."""
        outcome: list[_T] = []
        self.batch.registers |= registers
        self.batch.changes.append(lambda connection: outcome.append(change(connection)))
        await self.settle()
        return outcome[-1]

    async def close(self) -> None:
        """Write what is left, and let the thread and the connection go whatever comes of it."""
        try:
            await self.settle()
        finally:
            if self._thread is not None:
                self._jobs.put(None)
                await asyncio.to_thread(self._thread.join)
                self._thread = None
            self._writer.close()

    def _write_leftovers(self, loop: _Loop) -> None:
        self._is_lingering = False
        if not self._is_free:
            self.linger()  # whoever writes now does not take along what came since, and nobody may come after
        elif self.batch:
            self._depart(loop)
        elif self._writer.is_checkpoint_due(idle=True):
            self._hand_over(loop, None)

    def _depart_if_awaited(self, loop: _Loop) -> None:
        if self._waiting:
            self._depart(loop)

    def _depart(self, loop: _Loop) -> None:
        is_shared = len(self._waiting) > 1
        self._lone = 0 if is_shared else self._lone + 1
        is_quick = self._waited_s <= (QUICK_S if is_shared else PATIENT_S)
        later = Batch(next(self._batches))
        batch, self.batch = self.batch.depart(later, self.begun), later
        self._under_way, self._aboard, self._waiting = batch, self._waiting, []
        try:
            is_over = is_quick and self._commit_here(loop, batch)
        except BaseException as interrupt:
            if self._under_way is not batch:  # all that it could disturb was over
                raise
            self._land(loop, batch, None if batch.is_kept else interrupt, is_checkpoint_due=False)
            if not batch.is_kept:
                raise
            _come_later(loop, interrupt)
            return
        if not is_over:
            self._hand_over(loop, batch)

    def _commit_here(self, loop: _Loop, batch: Batch) -> bool:
        """Commit on the spot; not if that would mean to wait for another process."""
        try:
            self._commit(batch, patience_s=0)
        except Busy:
            return False
        except Exception as failure:  # noqa: BLE001 -- whatever it is, somebody waits to hear of it
            self._land(loop, batch, failure, is_checkpoint_due=False)
            return True
        # A lone caller waits for it gladly: to let the write-ahead log grow costs the disk more than to write it anew.
        is_due = self._writer.is_checkpoint_due(idle=len(self._aboard) <= 1)
        if is_due:
            self._hand_over(loop, None)
        self._land(loop, batch, None, is_checkpoint_due=is_due)
        return True

    def _commit(self, batch: Batch, *, patience_s: float) -> None:
        # To write few facts is no work to speak of.
        start, worked = time.perf_counter(), 0.0 if batch.is_loose else time.thread_time()
        self._writer.commit(batch, patience_s=patience_s)
        self._waited_s = time.perf_counter() - start
        if worked:
            self._waited_s -= time.thread_time() - worked

    def _hand_over(self, loop: _Loop, batch: Batch | None) -> None:
        """Let the thread have the writer, for a batch or to tidy up, until it returns it."""
        self._is_writer_taken = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="agenttool-writer", daemon=True)
            self._thread.start()
        self._jobs.put((loop, batch))

    def _work(self) -> None:
        """Commit what is handed over, and tidy up behind it once nobody waits; all that runs in the thread."""
        while (job := self._jobs.get()) is not None:
            loop, batch = job
            error: BaseException | None = None
            if batch is not None:
                try:
                    self._commit(batch, patience_s=PATIENCE_S)
                except BaseException as failure:  # noqa: BLE001 -- whatever it is, somebody waits to hear of it
                    error = failure
            is_due = batch is None or self._writer.is_checkpoint_due(idle=False)
            with suppress(RuntimeError):  # a loop that is closed has nobody waiting
                if batch is not None:
                    loop.call_soon_threadsafe(partial(self._land, loop, batch, error, is_checkpoint_due=is_due))
                if is_due:
                    self._writer.checkpoint()
                    loop.call_soon_threadsafe(self._return_writer, loop)

    def _land(self, loop: _Loop, batch: Batch, error: BaseException | None, *, is_checkpoint_due: bool) -> None:
        self._under_way = None
        aboard, self._aboard = self._aboard, []
        if error is not None:
            self.batch = batch.before(self.batch)
            if self.lost:
                self.batch.drop(self.lost)
        else:
            self.batch.ended += batch.kept()
        _tell(aboard, error)
        if not is_checkpoint_due:
            self._return_writer(loop)
        if error is None and batch.facts:
            self._on_kept()

    def _return_writer(self, loop: _Loop) -> None:
        self._is_writer_taken = False
        if not self._is_gathering:
            self._depart_if_awaited(loop)


def _tell(waiting: list[asyncio.Future[None]], error: BaseException | None) -> None:
    """Tell everybody who waits that all is kept, or why it is not."""
    for waiter in waiting:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            kind = LeaseLost if isinstance(error, LeaseLost) else StoreError
            waiter.set_exception(kind(str(error) or repr(error)))


def _come_later(loop: _Loop, interrupt: BaseException) -> None:
    """Let an interrupt that came too late to stop a commit come a turn of the loop later.

    If it came now, what is kept would pass for what is not, and be written again.
    """
    loop.call_soon(_come, interrupt)


def _come(interrupt: BaseException) -> NoReturn:
    raise interrupt
