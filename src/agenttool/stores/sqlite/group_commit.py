"""Group commit: concurrent callers share a commit, which runs in a thread if the disk is slow.

The first caller yields once to the event loop, so that concurrent callers share its commit. While the disk is fast, it
commits on the loop's thread: switching threads would cost more time than the commit. While the disk is slow, a thread
commits and the loop continues. Callers that arrive meanwhile wait for the next commit.
"""

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import NoReturn, TypeVar

from agenttool.errors import StoreError
from agenttool.ports.stores import LeaseLost
from agenttool.stores.sqlite.connect import BUSY_TIMEOUT_S, StoreBusy
from agenttool.stores.sqlite.fact_rows import PendingFact
from agenttool.stores.sqlite.writer import LeaseState, WriteBatch, Writer

LINGER_S = 0.05
"""How long facts may stay in memory if no caller settles."""

SHARED_WAIT_S, SINGLE_WAIT_S = 0.001, 0.005
"""If the last commit waited longer for the disk, the next one runs in the thread. The first limit is for commits of
several callers, whose other work would wait, too; the second is for a single caller."""

ALONE_AFTER = 8
"""After this many commits of one caller each, a commit does not wait for other callers."""

MAX_BLOCKING_S = 0.002
"""How long the commits of a single caller may block the event loop before that caller yields."""

BACKLOG = 100_000
"""How many facts may wait for a failing disk before more are rejected."""

_PARENT = re.compile(rb'"parent_invocation_id":"([^"]+)"')
_LOST = "the lease of this process was lost, and its calls belong to others; look in the log for their results"

_T = TypeVar("_T")
_Loop = asyncio.AbstractEventLoop


class GroupCommit:
    """Writes to one file for one process. All work except the commit itself runs on the event loop."""

    def __init__(self, writer: Writer, on_stored: Callable[[], None]) -> None:
        self.batch = WriteBatch()
        self.started: set[str] = set()
        """The calls of this process that have facts to write and have not ended."""
        self.claimed: set[str] = set()
        """The calls of other processes that this one has claimed and that have not ended."""
        self.lost: set[str] = set()
        """The calls that other processes may have claimed from this one."""
        self._committing: WriteBatch | None = None
        self._writer = writer
        self._on_stored = on_stored
        self._waiting: list[asyncio.Future[None]] = []
        self._in_commit: list[asyncio.Future[None]] = []
        self._is_writer_taken = False
        self._is_gathering = False
        self._is_lingering = False
        self._waited_s = 0.0
        self._single_commits = 0
        self._owner_changes = self._committing_owner = 0
        self._may_block_until_s = 0.0
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[tuple[_Loop, WriteBatch | None] | None] = SimpleQueue()

    def add(self, fact: PendingFact) -> WriteBatch:
        """Add a fact and return its batch.

        Raises:
            LeaseLost: another process has claimed the call.
            StoreError: too many facts wait for a failing disk.
        """
        batch = self.batch
        if self.lost and fact[0] in self.lost:
            raise LeaseLost(f"another process has claimed {fact[0]}; look there for its result")
        if len(batch.facts) >= BACKLOG:
            raise StoreError(f"{BACKLOG} facts wait for a failing disk; free some space or repair it, and try again")
        batch.facts.append(fact)
        if not self._is_lingering:
            self.linger()
        return batch

    def drop_open_calls(self) -> set[str]:
        """Drop all open calls with their pending writes, and return these calls.

        All waiters fail, because their facts may be among those dropped.
        """
        # Also calls whose last fact is not written yet: the new owner may have ended them.
        committing = self._committing.finished if self._committing is not None else ()
        lost = {*self.started, *self.claimed, *self.batch.finished, *committing}
        # Also nested calls that have ended: the new owner of their parent makes them under the same ids.
        for call, line in (*(self._committing.facts if self._committing is not None else ()), *self.batch.facts):
            if call is not None and (parent := _PARENT.search(line)) is not None and parent[1].decode() in lost:
                lost.add(call)
        self.started.clear()
        self.claimed.clear()
        self.batch.drop(lost)
        self.batch.changes.clear()  # their callers are among the waiters
        self.lost |= lost
        self._owner_changes += 1
        waiting, self._waiting = self._waiting, []
        _complete(waiting, LeaseLost(_LOST))
        return lost

    def forget(self, call: str) -> None:
        """Remove a call from the started ones: it has ended or is unowned."""
        if call in self.claimed or (call in self.started and call not in self.batch.born):
            self.batch.finished.add(call)
        self.claimed.discard(call)
        self.started.discard(call)

    def linger(self) -> None:
        """Schedule a commit soon, even if no caller settles."""
        if self._is_lingering:
            return
        with suppress(RuntimeError):  # outside of a loop a caller will settle
            loop = asyncio.get_running_loop()
            self._is_lingering = True
            loop.call_later(LINGER_S, self._write_leftovers, loop)

    def pending(self) -> Iterator[PendingFact]:
        """Yield the facts that are not known to be stored, in order."""
        if self._committing is not None:
            yield from self._committing.facts
        yield from self.batch.facts

    def amendable(self, call: str) -> list[bytes] | None:
        """Return the queued facts of a call; None while a commit writes some of its facts."""
        if self._committing is not None and any(each == call for each, _ in self._committing.facts):
            return None
        return [line for each, line in self.batch.facts if each == call]

    def amend(self, call: str, line: bytes | None) -> None:
        """Replace the last queued fact of an `amendable` call; without a line, drop all of its facts."""
        if line is None:
            self.batch.drop({call})
            return
        facts = self.batch.facts
        facts[max(index for index, (each, _) in enumerate(facts) if each == call)] = (call, line)

    def removing(self) -> list[str]:
        """Return the calls whose removal is not known to be stored."""
        committing = () if self._committing is None else self._committing.removed
        return [*committing, *self.batch.removed]

    def settle(self) -> Awaitable[None]:
        """Return an awaitable that completes once everything in the present batch is stored."""
        loop = asyncio.get_running_loop()
        if self._is_gathering or self._is_writer_taken or not self.batch:
            return self._join(loop)
        return self._commit_now(loop) if self._is_alone(loop) else self._gather_and_commit(loop)

    @property
    def _is_free(self) -> bool:
        return not self._is_gathering and not self._is_writer_taken

    def _join(self, loop: _Loop) -> asyncio.Future[None]:
        """Return a future that completes with the commit of the present batch, or with the running commit."""
        waiter: asyncio.Future[None] = loop.create_future()
        if self.batch:
            self._waiting.append(waiter)
        elif self._committing is not None:
            self._in_commit.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    def _commit_now(self, loop: _Loop) -> asyncio.Future[None]:
        """Start to commit the batch, and return a future that completes with it; while the disk is fast, it has."""
        waiter = self._join(loop)
        self._start_commit(loop)
        return waiter

    def _is_alone(self, loop: _Loop) -> bool:
        """Return whether the last commits had one caller each, so that waiting for other callers is useless.

        After `MAX_BLOCKING_S` it returns False, so that a caller that settles repeatedly yields to the event loop.
        """
        if self._single_commits < ALONE_AFTER:
            return False
        if self._may_block_until_s:
            return time.perf_counter() < self._may_block_until_s
        self._may_block_until_s = time.perf_counter() + MAX_BLOCKING_S
        loop.call_soon(self._loop_continued)
        return True

    def _loop_continued(self) -> None:
        self._may_block_until_s = 0.0

    async def _gather_and_commit(self, loop: _Loop) -> None:
        """Yield once so that concurrent callers share this commit; then commit, or join a commit that has started."""
        owners = self._owner_changes
        if self._is_free:
            self._is_gathering = True
            try:
                await asyncio.sleep(0)
            except BaseException:
                self._is_gathering = False
                self._commit_if_awaited(loop)
                raise
            self._is_gathering = False
        if owners != self._owner_changes:
            self._commit_if_awaited(loop)
            raise LeaseLost(_LOST)
        await (self._commit_now(loop) if self.batch and self._is_free else self._join(loop))

    async def perform(
        self, change: Callable[[sqlite3.Connection], _T], *, lease: LeaseState | None = None, erases: bool = False
    ) -> _T:
        """Make a change in the next transaction, and return its outcome once it is stored."""
        outcome: list[_T] = []
        self.batch.lease = lease or self.batch.lease
        self.batch.erases |= erases
        self.batch.changes.append(lambda connection: outcome.append(change(connection)))
        await self.settle()
        return outcome[-1]

    async def close(self) -> None:
        """Write pending facts; then stop the thread and close the connection, even after an error."""
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
            self.linger()  # the running commit does not include what was added since
        elif self.batch:
            self._start_commit(loop)
        elif self._writer.is_checkpoint_due(idle=True):
            self._lend_writer(loop, None)

    def _commit_if_awaited(self, loop: _Loop) -> None:
        if self._waiting:
            self._start_commit(loop)

    def _start_commit(self, loop: _Loop) -> None:
        is_shared = len(self._waiting) > 1
        self._single_commits = 0 if is_shared else self._single_commits + 1
        is_fast = self._waited_s <= (SHARED_WAIT_S if is_shared else SINGLE_WAIT_S) and not self.batch.erases
        batch, self.batch = self.batch.seal(self.started), WriteBatch()
        self._committing, self._in_commit, self._waiting = batch, self._waiting, []
        self._committing_owner = self._owner_changes
        try:
            is_over = is_fast and self._commit_here(loop, batch)
        except BaseException as interrupt:
            if self._committing is not batch:  # the commit is complete, so an interrupt is safe
                raise
            self._finish_commit(loop, batch, None if batch.is_stored else interrupt, is_checkpoint_due=False)
            if not batch.is_stored:
                raise
            _raise_later(loop, interrupt)
            return
        if not is_over:
            self._lend_writer(loop, batch)

    def _commit_here(self, loop: _Loop, batch: WriteBatch) -> bool:
        """Commit on the loop's thread; return False if another process holds the lock."""
        try:
            self._commit(batch, timeout_s=0)
        except StoreBusy:
            return False
        except Exception as failure:  # noqa: BLE001 -- any error must reach the waiters
            self._finish_commit(loop, batch, failure, is_checkpoint_due=False)
            return True
        # With a single caller a checkpoint is due early: a growing write-ahead log costs more than to reuse it.
        is_due = self._writer.is_checkpoint_due(idle=len(self._in_commit) <= 1)
        if is_due:
            self._lend_writer(loop, None)
        self._finish_commit(loop, batch, None, is_checkpoint_due=is_due)
        return True

    def _commit(self, batch: WriteBatch, *, timeout_s: float) -> None:
        # The work of writing few facts is negligible.
        start, worked = time.perf_counter(), 0.0 if batch.is_unindexed else time.thread_time()
        self._writer.commit(batch, timeout_s=timeout_s)
        if batch.erases:  # which takes longer than other commits
            return
        self._waited_s = time.perf_counter() - start
        if worked:
            self._waited_s -= time.thread_time() - worked

    def _lend_writer(self, loop: _Loop, batch: WriteBatch | None) -> None:
        """Run a batch or a checkpoint of the writer in the thread."""
        self._is_writer_taken = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="agenttool-writer", daemon=True)
            self._thread.start()
        self._jobs.put((loop, batch))

    def _work(self) -> None:
        """Commit batches and make checkpoints; this is all that runs in the thread."""
        while (job := self._jobs.get()) is not None:
            loop, batch = job
            error: BaseException | None = None
            if batch is not None:
                try:
                    self._commit(batch, timeout_s=BUSY_TIMEOUT_S)
                except BaseException as failure:  # noqa: BLE001 -- any error must reach the waiters
                    error = failure
            is_due = batch is None or self._writer.is_checkpoint_due(idle=False)
            with suppress(RuntimeError):  # a closed loop has no waiters
                if batch is not None:
                    finish = partial(self._finish_commit, loop, batch, error, is_checkpoint_due=is_due)
                    loop.call_soon_threadsafe(finish)
                if is_due:
                    self._writer.checkpoint()
                    loop.call_soon_threadsafe(self._return_writer, loop)

    def _finish_commit(
        self, loop: _Loop, batch: WriteBatch, error: BaseException | None, *, is_checkpoint_due: bool
    ) -> None:
        self._committing = None
        waiters, self._in_commit = self._in_commit, []
        if error is not None and not batch.is_stored:
            self.batch = batch.followed_by(self.batch)
            if self.lost:
                self.batch.drop(self.lost)
            if self._committing_owner != self._owner_changes:
                error = LeaseLost(_LOST)
        _complete(waiters, error)
        if not is_checkpoint_due:
            self._return_writer(loop)
        if error is None and batch.facts:
            self._on_stored()

    def _return_writer(self, loop: _Loop) -> None:
        self._is_writer_taken = False
        if not self._is_gathering:
            self._commit_if_awaited(loop)


def _complete(waiters: list[asyncio.Future[None]], error: BaseException | None) -> None:
    """Complete all waiters, or fail them with a `StoreError`."""
    for waiter in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            kind = LeaseLost if isinstance(error, LeaseLost) else StoreError
            waiter.set_exception(kind(str(error) or repr(error)))


def _raise_later(loop: _Loop, interrupt: BaseException) -> None:
    """Raise an interrupt that arrived during a commit, in the next iteration of the event loop.

    Raised now, it would make stored facts look unstored, and they would be written again.
    """
    loop.call_soon(_raise, interrupt)


def _raise(interrupt: BaseException) -> NoReturn:
    raise interrupt
