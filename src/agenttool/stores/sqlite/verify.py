"""Walk the chain: whether any fact was edited, taken out, put in or moved, and whether each call's story can be."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agenttool.errors import RecordError, StoreError
from agenttool.ports.facts import Fact, Step
from agenttool.ports.stores import Flaw, Head
from agenttool.records import InvocationId, InvocationStatus, ToolResult
from agenttool.stores.sqlite.chain import LinkedFact, find_anchor, find_head, link
from agenttool.stores.told import recall

PORTION = 500

Inspect: TypeAlias = Callable[[int, Fact], Iterator[Flaw]]
"""Looks at a fact and its position for flaws of its own."""


def verify(
    connection: sqlite3.Connection,
    steps: Mapping[str, Step],
    pinned: Head | None = None,
    inspect: Inspect | None = None,
) -> Iterator[Flaw]:
    """Tell every flaw, in order. Memory grows with the calls that are under way at one time, and with nothing else."""
    anchor = find_anchor(connection)
    if pinned is not None:
        yield from _check_pin(connection, pinned, anchor)
    walk = _Walk(*anchor, steps, inspect)
    while rows := _portion(connection, walk.position):
        for row in rows:
            yield from walk.check(row)


def _portion(connection: sqlite3.Connection, after: int) -> list[LinkedFact]:
    # Whoever edits the file may leave text or numbers where bytes were.
    return connection.execute(
        "SELECT position, invocation_id, CAST(hash AS BLOB), CAST(told AS BLOB) FROM facts WHERE position > ?"
        " ORDER BY position LIMIT ?",
        (after, PORTION),
    ).fetchall()


def _check_pin(connection: sqlite3.Connection, pinned: Head, anchor: tuple[int, bytes]) -> Iterator[Flaw]:
    place = pinned.position
    if place < anchor[0]:
        yield Flaw(position=place, what="pin", expected=pinned.hash, found="let go by retention; pin a later place")
        return
    found = connection.execute("SELECT hash FROM facts WHERE position = ?", (place,)).fetchone()
    chained = anchor[1] if place == anchor[0] else found[0] if found else None
    if chained is None:
        last, _ = find_head(connection)
        yield Flaw(position=place, what="pin", expected=pinned.hash, found=f"nothing; the log ends at {last}")
    elif chained.hex() != pinned.hash:
        yield Flaw(position=place, what="pin", expected=pinned.hash, found=chained.hex())


class _Walk:
    """Where the walk is, and how the calls under way there stand."""

    def __init__(self, position: int, chained: bytes, steps: Mapping[str, Step], inspect: Inspect | None) -> None:
        self.position = position
        self._chained = chained
        self._steps = steps
        self._inspect = inspect
        self._is_whole = position == 0
        self._calls: dict[InvocationId, tuple[InvocationStatus | None, int]] = {}

    def check(self, row: LinkedFact) -> Iterator[Flaw]:
        position, invocation_id, chained, told = row
        if position != self.position + 1:
            yield Flaw(position=position, what="position", expected=str(self.position + 1), found=str(position))
        expected = link(self._chained, told)
        if chained != expected:
            yield Flaw(position=position, what="hash", expected=expected.hex(), found=chained.hex())
        # From here on what is written counts: a flaw is told once, where it is.
        self.position, self._chained = position, chained
        try:
            fact = recall(told, self._steps)
            if fact.invocation_id != invocation_id:
                named = repr(fact.invocation_id)
                yield Flaw(position=position, what="invocation_id", expected=named, found=repr(invocation_id))
            yield from self._check_story(position, fact)
            if self._inspect is not None:
                yield from self._inspect(position, fact)
        except (StoreError, RecordError) as error:
            yield Flaw(position=position, what="fact", expected="a fact that can be read", found=str(error))

    def _check_story(self, position: int, fact: Fact) -> Iterator[Flaw]:
        call, step = fact.invocation_id, fact.step
        if call is None:
            return
        # A call that began before the anchor is taken up where it is met.
        begun = self._calls.get(call) or (None, fact.sequence if not self._is_whole else 0)
        status, events = begun
        if fact.sequence != events:
            yield Flaw(position=position, what="sequence", expected=str(events), found=str(fact.sequence))
        if status not in step.after:
            yield Flaw(position=position, what="status", expected=f"a step that may follow {status}", found=step.name)
        if step.last is not None and step.last.is_terminal:
            self._calls.pop(call, None)
            if not _has_result(fact):
                yield Flaw(position=position, what="result", expected="the result of the call", found="none")
        else:
            self._calls[call] = (step.last or status, fact.sequence + step.events)


def _has_result(fact: Fact) -> bool:
    data = fact.data
    return (
        data is not None and not isinstance(data, dict) and any(isinstance(r, ToolResult) for r in data.records(fact))
    )
