"""Questions to the table of facts: its rows hold several, and who asks wants single ones."""

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice

from agenttool.ports.facts import Fact, Step
from agenttool.records import InvocationId
from agenttool.stores.fact_codec import call_of, decode_fact
from agenttool.stores.sqlite.chain import unfold, unfold_about
from agenttool.stores.sqlite.loose import IS_LOOSE

# Whoever edits the file may leave text or numbers where bytes were.
_ONWARD = "SELECT last, CAST(told AS BLOB) FROM facts WHERE last > ? ORDER BY last"
_BACK = (
    "SELECT last, CAST(told AS BLOB) FROM facts"
    " WHERE last <= coalesce((SELECT min(last) FROM facts WHERE last >= :upto), :upto) ORDER BY last DESC"
)
_OF_CALL = (
    "SELECT last, CAST(told AS BLOB) FROM facts_of_call CROSS JOIN facts USING (last) WHERE invocation_id = :call"  # noqa: S608 -- constants
    f" UNION ALL SELECT last, CAST(told AS BLOB) FROM facts WHERE {IS_LOOSE} AND instr(told, CAST(:call AS BLOB)) > 0"
    " AND NOT EXISTS (SELECT 1 FROM facts_of_call AS one WHERE one.invocation_id = :call AND one.last = facts.last)"
    " ORDER BY last"
)


def read_on(
    connection: sqlite3.Connection, steps: Mapping[str, Step], after: int, limit: int
) -> list[tuple[int, Fact]]:
    """Give facts after a position, the oldest first."""
    wanted = ((place, line) for place, line in unfold(connection.execute(_ONWARD, (after,))) if place > after)
    return [(place, decode_fact(line, steps)) for place, line in islice(wanted, limit)]


def weigh(
    connection: sqlite3.Connection, steps: Mapping[str, Step], after: int, limit: int
) -> list[tuple[int, Fact, int]]:
    """Give facts after a position, the oldest first, each with how many bytes tell it; what they share counts once."""
    rows = connection.execute(f"{_ONWARD} LIMIT ?", (after, limit))
    found: list[tuple[int, Fact, int]] = []
    for last, told in rows:
        sizes = map(len, told.split(b"\n"))
        found += [(place, decode_fact(line, steps), next(sizes) + 1) for place, line in unfold([(last, told)])]
    return [each for each in found if each[0] > after]


def read_back(
    connection: sqlite3.Connection, steps: Mapping[str, Step], before: int, limit: int
) -> list[tuple[int, Fact]]:
    """Give facts before a position, the newest first."""
    rows = connection.execute(_BACK, {"upto": before - 1})
    wanted = (each for row in rows for each in reversed(list(unfold([row]))) if each[0] < before)
    return [(place, decode_fact(line, steps)) for place, line in islice(wanted, limit)]


def lines_of(connection: sqlite3.Connection, invocation_id: InvocationId) -> Iterator[tuple[int, bytes]]:
    """Give what is told of one call, oldest first."""
    lines = unfold_about(connection.execute(_OF_CALL, {"call": invocation_id}), invocation_id)
    return ((place, line) for place, line in lines if call_of(line) == invocation_id)
