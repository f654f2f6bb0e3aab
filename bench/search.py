"""Searching large catalogs: building the index, one search, and one tool more, beside SQLite's own full-text search."""

import dataclasses
import random
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.index import Index
from agenttool.catalog.search.request_words import REQUEST_WORDS
from agenttool.records import ToolId, replace
from agenttool.testing.fakes import scripted_tool
from bench.figure import Figure, below, seconds, told

_DOING = """
create get list update delete search fetch send archive restore export import merge close open assign
"""
_DONE_TO = """
issue pull_request invoice customer calendar_event contact message channel file folder report ticket order shipment
payment refund user role deployment build pipeline secret bucket table dashboard alert incident comment
"""
VERBS, THINGS = _DOING.split(), _DONE_TO.split()
SIZES = (1_000, 10_000, 100_000)
QUERIES = 300
MOST_SECONDS = {"middle": 1e-3, "slowest": 3e-3}
_PEER = "SQLite FTS5"


def measure(settings: object) -> list[Figure]:
    """Measure each size."""
    return [figure for size in SIZES for figure in _measure(size)]


def _measure(size: int) -> list[Figure]:
    chance = random.Random(size)  # noqa: S311 -- the same catalog in every run
    made_up = ["".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3)) for _ in range(4000)]
    entries = [_tool(number, chance, made_up) for number in range(size)]
    known = {entry.tool_id: entry for entry in entries}
    index, table = Index(), sqlite3.connect(":memory:")
    building = seconds(lambda: _fill(index, entries)), seconds(lambda: _fill_table(table, entries))
    queries = [
        f"please {chance.choice(VERBS)} the {chance.choice(THINGS).replace('_', ' ')} {chance.choice(made_up)}"
        for _ in range(QUERIES)
    ]
    ours = _times(lambda query: index.find(query, known, 10), queries)
    theirs = _times(lambda query: _find_in_table(table, query), queries)
    middle = told(
        f"search in {size:,} tools", (statistics.median(ours), statistics.median(theirs)), peer_name=_PEER, unit="ms"
    )
    slowest = told(f"search in {size:,} tools: p99", (_p99(ours), _p99(theirs)), peer_name=_PEER, unit="ms")
    return [
        told(f"index of {size:,} tools", building, peer_name=_PEER, unit="s"),
        below(middle, MOST_SECONDS["middle"]),
        below(slowest, MOST_SECONDS["slowest"]),
        told(f"one tool more in {size:,}", _one_more(index, table, known), peer_name=_PEER, unit="ms"),
    ]


def _tool(number: int, chance: random.Random, made_up: Sequence[str]) -> Entry:
    verb, thing = chance.choice(VERBS), chance.choice(THINGS)
    tool = scripted_tool(f"{verb}_{thing}_{chance.choice(made_up)}", namespace=f"{chance.choice(made_up)}.n{number}")
    words = " ".join(chance.choice(made_up) for _ in range(12))
    description = f"{verb.title()} a {thing.replace('_', ' ')} in the workspace, with {words}."
    return Entry(tool=dataclasses.replace(tool, declaration=replace(tool.declaration, description=description)))


def _fill(index: Index, entries: Sequence[Entry]) -> None:
    for entry in entries:
        index.put(entry)
    while index.catch_up(1000):
        pass
    index.find("anything", {entry.tool_id: entry for entry in entries}, 1)


def _fill_table(table: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    table.execute("CREATE VIRTUAL TABLE tools USING fts5(id UNINDEXED, name, description, tokenize='porter unicode61')")
    table.executemany("INSERT INTO tools VALUES (?, ?, ?)", map(_row, entries))
    table.commit()


def _row(entry: Entry) -> tuple[str, str, str]:
    return entry.tool_id, entry.qualified_name.replace("_", " "), entry.tool.declaration.description


def _find_in_table(table: sqlite3.Connection, query: str) -> object:
    words = " OR ".join(f'"{word}"' for word in query.split() if word not in REQUEST_WORDS)
    sought = "SELECT id FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 0, 3, 1) LIMIT 10"
    return table.execute(sought, (words,)).fetchall()


def _one_more(index: Index, table: sqlite3.Connection, known: dict[ToolId, Entry]) -> tuple[float, float]:
    extra = _tool(-1, random.Random(0), ["zebra"])  # noqa: S311 -- the same tool in every run
    known[extra.tool_id] = extra

    def ours() -> None:
        index.put(extra)
        index.catch_up(1)
        index.find("zebra", known, 1)

    def theirs() -> None:
        table.execute("INSERT INTO tools VALUES (?, ?, ?)", _row(extra))
        table.commit()
        _find_in_table(table, "the zebra")

    return seconds(ours), seconds(theirs)


def _times(find: Callable[[str], object], queries: Sequence[str]) -> list[float]:
    taken: list[float] = []
    for query in queries:
        start = time.perf_counter()
        find(query)
        taken.append(time.perf_counter() - start)
    return taken


def _p99(taken: Sequence[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]
