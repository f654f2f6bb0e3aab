"""One file, one thread that reads and writes it; everybody who waits when it looks shares a commit."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar, cast

from agenttool.errors import StoreError
from agenttool.rap.keeping.schema import open_file

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

_log = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")

_Work = Callable[[sqlite3.Connection], object]
_Job = tuple[_Work, "asyncio.Future[object]"]
_Outcome = tuple["asyncio.Future[object]", object, BaseException | None]


class Store:
    """What `perform` has given back is on the disk."""

    def __init__(self, path: Path) -> None:
        """Open the file; must be called inside a running event loop.

        Raises:
            ConfigError: it cannot be used, or another process uses it.
        """
        self._connection, self._lock = open_file(path)
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        (self.name,) = cast(
            "tuple[str]", self._connection.execute("SELECT value FROM facts WHERE name = 'file'").fetchone()
        )
        self._thread = threading.Thread(target=self._work, name="agenttool-rap-store", daemon=True)
        self._thread.start()

    async def perform(
        self, work: Callable[Concatenate[sqlite3.Connection, _P], _T], *arguments: _P.args, **keywords: _P.kwargs
    ) -> _T:
        """Do something with the file as one step, and give its outcome once it is kept.

        Raises:
            StoreError: the disk did not keep it.
        """
        outcome: asyncio.Future[object] = self._loop.create_future()
        self._jobs.put((lambda connection: work(connection, *arguments, **keywords), outcome))
        return cast("_T", await outcome)

    async def insist(
        self, work: Callable[Concatenate[sqlite3.Connection, _P], _T], *arguments: _P.args, **keywords: _P.kwargs
    ) -> _T:
        """Do what must not be lost, such as keeping a result: again and again, until the disk has room or is back."""
        pause_s = FIRST_PAUSE_S
        while True:
            with suppress(StoreError):
                return await self.perform(work, *arguments, **keywords)
            _log.error("the disk does not keep what must be kept; trying again in %g seconds", pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Finish what was asked for, and let go of the file."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()
        self._lock.close()

    def _work(self) -> None:
        is_open = True
        while is_open:
            jobs = self._waiting()
            is_open = None not in jobs
            outcomes = self._commit([job for job in jobs if job is not None])
            with suppress(RuntimeError):  # the loop is gone, and nobody waits any more
                self._loop.call_soon_threadsafe(partial(_tell, outcomes))

    def _waiting(self) -> list[_Job | None]:
        """Take everything that waits, at least one."""
        jobs = [self._jobs.get()]
        with suppress(Empty):
            while jobs[-1] is not None:
                jobs.append(self._jobs.get_nowait())
        return jobs

    def _commit(self, jobs: list[_Job]) -> list[_Outcome]:
        """Do all that waits in one transaction; only if a piece of it fails, once more with each piece on its own."""
        try:
            try:
                return self._transact(jobs, self._perform)
            except sqlite3.OperationalError:
                raise  # the disk: nobody aboard fares any better
            except Exception:  # noqa: BLE001 -- told to whoever asked for that piece
                return self._transact(jobs, self._attempt)
        except sqlite3.Error as error:
            failure = StoreError(f"the provider's store cannot be written: {error}; look at the disk")
            return [(outcome, None, failure) for _, outcome in jobs]

    def _transact(self, jobs: list[_Job], do: Callable[[_Job], _Outcome]) -> list[_Outcome]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [do(job) for job in jobs]
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a disk may fail at that, too; what was not committed is gone anyway
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise
        return outcomes

    def _perform(self, job: _Job) -> _Outcome:
        work, outcome = job
        return outcome, work(self._connection), None

    def _attempt(self, job: _Job) -> _Outcome:
        """Do one piece of work; if it fails, what it did is undone, and the others go on."""
        work, outcome = job
        self._connection.execute("SAVEPOINT job")
        try:
            value, error = work(self._connection), None
        except sqlite3.OperationalError:
            raise  # the disk: nobody aboard fares any better
        except Exception as failure:  # noqa: BLE001 -- told to whoever asked for the work
            value, error = None, failure
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")
        return outcome, value, error


def _tell(outcomes: list[_Outcome]) -> None:
    for outcome, value, error in outcomes:
        if outcome.done():
            continue
        if error is None:
            outcome.set_result(value)
        else:
            outcome.set_exception(error)
