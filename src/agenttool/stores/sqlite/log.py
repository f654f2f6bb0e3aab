"""The log of facts in the file."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agenttool.errors import StoreError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import Head, JournalFlaw
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import decode_fact, encode_fact
from agenttool.stores.sqlite.chain import find_anchor, find_head
from agenttool.stores.sqlite.connect import reading
from agenttool.stores.sqlite.groups import GroupCommit
from agenttool.stores.sqlite.query import lines_of, read_on
from agenttool.stores.sqlite.retain import let_go
from agenttool.stores.sqlite.verify import verify
from agenttool.stores.sqlite.writer import Standing, Writer

_UNKNOWN = Standing.UNKNOWN

FACT_BYTES = 256 << 20
"""What a single fact may take; with less, whatever else is kept of its call fits into the file, too."""

POLL_S = 0.1
"""How soon a reader hears of what another process wrote."""


class SqliteLog:
    """Facts in order, chained. A fact is told when it is appended: what is on disk is what was so then."""

    durable = True

    def __init__(self, path: Path, reader: sqlite3.Connection, writer: Writer, steps: Mapping[str, Step]) -> None:
        """Take the file, a connection to read by, the writer, and every step by its name."""
        self.group = GroupCommit(writer, self._wake)
        self.settle = self.group.settle
        """Gives something to wait for: it is over once all facts taken before are on disk."""
        self._path = path
        self._reader = reader
        self._steps = steps
        self._listeners: list[Callable[[], None]] = []
        self._is_looking = False
        self._version = 0
        self._writer = writer

    def append(self, fact: Fact) -> None:
        """Take one fact."""
        call, told = fact.invocation_id, encode_fact(fact)
        if len(told) > FACT_BYTES:
            size = f"{len(told):,} bytes, and the log takes {FACT_BYTES:,} at most"
            raise StoreError(f"the fact {fact.step.name!r} of {call!r} is {size}; hand over a file, not what is in it")
        group = self.group
        batch = group.add((call, told))
        if call is None or self._writer.standing is _UNKNOWN:
            return
        # A call of which facts are on disk, but not its end, must be found among those under way. One that ends before
        # anything of it was written never was among them, which is most calls that only read.
        if not fact.step.ends:
            if call not in group.begun:
                group.begun[call] = together = batch.begin
                together.calls[call] = None
            return
        group.forget(call)

    def ended(self, chars: int) -> None:
        """Forget nothing: that is for retention to say."""

    @property
    def last(self) -> int:
        """The position of the newest fact."""
        with reading(self._path):
            return find_head(self._reader)[0]

    def read(self, after: int, limit: int) -> Sequence[tuple[int, Fact]]:
        """Give facts after a position."""
        with reading(self._path):
            return read_on(self._reader, self._steps, after, limit)

    def facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call: those on disk, and those of this process that are on their way there."""
        coming = [told for call, told in self.group.pending() if call == invocation_id]
        with reading(self._path):
            kept = [told for _, told in lines_of(self._reader, invocation_id)]
        # A commit under way may have come there meanwhile.
        return tuple(decode_fact(told, self._steps) for told in (*kept, *(told for told in coming if told not in kept)))

    def stored_facts_of(self, invocation_id: InvocationId) -> Sequence[Fact]:
        """Give the facts of one call that are on disk."""
        with reading(self._path):
            return tuple(decode_fact(told, self._steps) for _, told in lines_of(self._reader, invocation_id))

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when facts were kept: at once for those of this process, soon for those of others."""
        self._listeners.append(wake)
        if not self._is_looking:
            with suppress(RuntimeError):  # without a loop there is nobody to look out for other processes
                self._look(asyncio.get_running_loop())
        return lambda: self._listeners.remove(wake)

    def head(self) -> Head:
        """Give the end of the chain."""
        with reading(self._path):
            return _place(find_head(self._reader))

    def verify(self, pinned: Head | None = None) -> Iterator[JournalFlaw]:
        """Walk the chain and tell everything that is wrong with it."""
        with reading(self._path):
            yield from verify(self._reader, self._steps, pinned)

    async def delete_before(self, before_ns: int) -> Head:
        """Let go of the oldest facts, a portion at a time, so that whoever writes meanwhile hardly waits."""
        while not await self.group.perform(lambda connection: let_go(connection, self._steps, before_ns)):
            pass
        with reading(self._path):
            return _place(find_anchor(self._reader))

    def _wake(self) -> None:
        for wake in tuple(self._listeners):
            wake()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask, as long as anybody listens, whether the file was written."""
        self._is_looking = bool(self._listeners)
        if not self._is_looking:
            return
        loop.call_later(POLL_S, self._look, loop)
        with suppress(sqlite3.Error):  # whoever reads next will hear of it
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._version = version
                self._wake()


def _place(found: tuple[int, bytes]) -> Head:
    return Head(position=found[0], hash=found[1].hex())
