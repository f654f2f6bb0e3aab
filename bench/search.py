"""Search in large catalogs: index time, memory, one search, and adding a tool, beside peers."""

import dataclasses
import gc
import random
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import tantivy
from tantivy import SchemaBuilder

from agenttool.catalog.entry import Entry
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.lexicon import FILLER_WORDS
from agenttool.records import ToolId, replace
from agenttool.testing.fakes import scripted_tool
from bench.figure import Absent, Figure, compare, seconds, with_max_value
from bench.harness import Missing
from bench.process import memory
from bench.rankers import ask

_DOING = """
create get list update delete search fetch send archive restore export import merge close open assign
"""
_DONE_TO = """
issue pull_request invoice customer calendar_event contact message channel file folder report ticket order shipment
payment refund user role deployment build pipeline secret bucket table dashboard alert incident comment
"""
VERBS, THINGS = _DOING.split(), _DONE_TO.split()
SIZES = (1_000, 10_000, 100_000)
QUERIES, FEW_QUERIES = 300, 6
MOST_BUILDING_S, MOST_BYTES = 2.0, 100e6
MOST_SECONDS = {"middle": 1e-3, "slowest": 3e-3}
_PEER = "SQLite FTS5"


def measure(settings: object) -> list[Figure | Absent]:
    """Measure each size."""
    return [figure for size in SIZES for figure in _measure(size)]


def catalog(size: int) -> tuple[list[Entry], list[str], random.Random]:
    chance = random.Random(size)  # noqa: S311 -- the same catalog in every run
    made_up = ["".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3)) for _ in range(4000)]
    return [_tool(number, chance, made_up) for number in range(size)], made_up, chance


def _measure(size: int) -> Iterator[Figure | Absent]:
    entries, made_up, chance = catalog(size)
    known = {entry.tool_id: entry for entry in entries}
    index, table = ToolIndex(), sqlite3.connect(":memory:")
    building = seconds(lambda: fill(index, entries)), seconds(lambda: _fill_table(table, entries))
    queries = [
        f"please {chance.choice(VERBS)} the {chance.choice(THINGS).replace('_', ' ')} {chance.choice(made_up)}"
        for _ in range(QUERIES)
    ]
    ours = times(lambda query: index.find(query, known, 10), queries)
    theirs = times(lambda query: _find_in_table(table, query), queries)
    middle = compare(
        f"search in {size:,} tools", (statistics.median(ours), statistics.median(theirs)), peer_name=_PEER, unit="ms"
    )
    slowest = compare(f"search in {size:,} tools: p99", (p99(ours), p99(theirs)), peer_name=_PEER, unit="ms")
    yield with_max_value(compare(f"index of {size:,} tools", building, peer_name=_PEER, unit="s"), MOST_BUILDING_S)
    grown = _grown("ours", size), _grown("table", size)
    yield with_max_value(compare(f"memory of {size:,} tools", grown, peer_name=_PEER, unit="MB"), MOST_BYTES)
    yield with_max_value(middle, MOST_SECONDS["middle"])
    yield with_max_value(slowest, MOST_SECONDS["slowest"])
    yield compare(f"one tool more in {size:,}", _one_more(index, table, known), peer_name=_PEER, unit="ms")
    bare = BareTantivy(entries)
    by_it = statistics.median(times(bare.find, queries))
    yield compare(f"search in {size:,} tools", (statistics.median(ours), by_it), peer_name="tantivy, bare", unit="ms")
    yield _beside_fastmcp(size, entries, queries[:FEW_QUERIES], statistics.median(ours))


def _beside_fastmcp(size: int, entries: Sequence[Entry], queries: Sequence[str], ours: float) -> Figure | Absent:
    name, peer = f"search in {size:,} tools", "FastMCP, BM25 search"
    rows = [(each.tool.declaration.namespace, each.name, each.tool.declaration.description, "") for each in entries]
    try:
        answer = cast("dict[str, list[float]]", ask("fastmcp_search", rows, queries, "clock"))
    except Missing as error:
        return Absent(name=name, peer_name=peer, reason=str(error))
    return compare(name, (ours, statistics.median(answer["FastMCP, clock"][1:])), peer_name=peer, unit="ms")


def _grown(engine: str, size: int) -> float:
    """Return the memory growth in bytes of a fresh process that builds an index."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.search", engine, str(size)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


class BareTantivy:
    """The full-text index with its default tokens and ranking."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Index names and descriptions."""
        builder = SchemaBuilder().add_text_field("name", tokenizer_name="en_stem")
        self._index = tantivy.Index(builder.add_text_field("description", tokenizer_name="en_stem").build())
        writer = self._index.writer(60_000_000, 1)
        for _, name, description in map(_row, entries):
            writer.add_document(tantivy.Document(name=name, description=description))
        writer.commit()
        self._index.reload()

    def find(self, query: str) -> object:
        """Search in both fields."""
        searcher = self._index.searcher()
        return searcher.search(self._index.parse_query(query, ["name", "description"]), 10).hits


def _tool(number: int, chance: random.Random, made_up: Sequence[str]) -> Entry:
    verb, thing = chance.choice(VERBS), chance.choice(THINGS)
    tool = scripted_tool(f"{verb}_{thing}_{chance.choice(made_up)}", namespace=f"{chance.choice(made_up)}.n{number}")
    words = " ".join(chance.choice(made_up) for _ in range(12))
    description = f"{verb.title()} a {thing.replace('_', ' ')} in the workspace, with {words}."
    return Entry(tool=dataclasses.replace(tool, declaration=replace(tool.declaration, description=description)))


def fill(index: ToolIndex, entries: Sequence[Entry]) -> None:
    for entry in entries:
        index.put(entry)
    while index.catch_up(1000):
        pass
    index.find("create an issue", {entry.tool_id: entry for entry in entries}, 1)


def _fill_table(table: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    table.execute("CREATE VIRTUAL TABLE tools USING fts5(id UNINDEXED, name, description, tokenize='porter unicode61')")
    table.executemany("INSERT INTO tools VALUES (?, ?, ?)", map(_row, entries))
    table.commit()


def _row(entry: Entry) -> tuple[str, str, str]:
    return entry.tool_id, entry.qualified_name.replace("_", " "), entry.tool.declaration.description


def _find_in_table(table: sqlite3.Connection, query: str) -> object:
    words = " OR ".join(f'"{word}"' for word in query.split() if word not in FILLER_WORDS)
    sought = "SELECT id FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 0, 3, 1) LIMIT 10"
    return table.execute(sought, (words,)).fetchall()


def _one_more(index: ToolIndex, table: sqlite3.Connection, known: dict[ToolId, Entry]) -> tuple[float, float]:
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


def times(find: Callable[[str], object], queries: Sequence[str]) -> list[float]:
    taken: list[float] = []
    for query in queries:
        start = time.perf_counter()
        find(query)
        taken.append(time.perf_counter() - start)
    return taken


def p99(taken: Sequence[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]


def main() -> None:
    """Build one index of one size, and print the memory growth of this process."""
    engine, size = sys.argv[1:]
    entries = catalog(int(size))[0]
    gc.collect()
    before = memory()
    if engine == "ours":
        index: object = ToolIndex()
        fill(index, entries)
    else:
        index = sqlite3.connect(":memory:")
        _fill_table(index, entries)
    gc.collect()
    print(memory() - before)


if __name__ == "__main__":
    main()
