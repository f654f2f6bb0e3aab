"""Semantic search in large catalogs beside search by words: indexing time, memory, and one search.

The model is a static table with one vector per token; a transformer takes some milliseconds more per search.
"""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import cast

from agenttool.adapters.embedding.embedding_index import EmbeddingIndex
from agenttool.adapters.embedding.model import open_model
from agenttool.catalog.search.index import ToolIndex
from bench.figure import Absent, Figure, compare
from bench.harness import Missing
from bench.models import STATIC, folder_of
from bench.process import memory
from bench.search import THINGS, VERBS, catalog, fill, p99, times

SIZES = (1_000, 10_000, 100_000)
QUERIES = 300
LONGEST_S = 3600.0
_PEER = "ours, by words"


def measure(settings: object) -> list[Figure | Absent]:
    """Measure each size in a process of its own."""
    try:
        folder_of(STATIC)
    except Missing as error:
        return [Absent(name="search by meaning", peer_name=_PEER, reason=str(error))]
    return [figure for size in SIZES for figure in _measure(size)]


def _measure(size: int) -> Iterator[Figure]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.semantic_search", str(size)], capture_output=True, text=True, check=True
    )
    found = cast("dict[str, tuple[float, float]]", json.loads(done.stdout))
    for name, unit in (("reading", "s"), ("memory", "MB"), ("p50", "ms"), ("p99", "ms")):
        title = {"reading": f"{size:,} tools are read", "memory": f"memory of {size:,} tools"}.get(
            name, f"search in {size:,} tools: {name}"
        )
        yield compare(f"by meaning, too: {title}", (found[name][0], found[name][1]), peer_name=_PEER, unit=unit)


def main() -> None:
    """Build an index with a model and one without, and print the cost of both."""
    size = int(sys.argv[1])
    model = open_model(folder_of(STATIC))
    entries, made_up, chance = catalog(size)
    known = {entry.tool_id: entry for entry in entries}
    queries = [f"{chance.choice(VERBS)} the {chance.choice(THINGS)} {chance.choice(made_up)}" for _ in range(QUERIES)]

    def built(meanings: EmbeddingIndex | None) -> tuple[ToolIndex, float, float]:
        gc.collect()
        before, start = memory(), time.perf_counter()
        index = ToolIndex(meanings)
        fill(index, entries)
        if meanings is not None:
            meanings.wait(LONGEST_S)
        return index, time.perf_counter() - start, memory() - before

    words, words_s, words_bytes = built(None)
    both, both_s, both_bytes = built(meanings := EmbeddingIndex(model))
    by_words = times(lambda query: words.find(query, known, 10), queries)
    by_both = times(lambda query: both.find(query, known, 10, encoded=both.encode_query(query)), queries)
    meanings.close()
    found = {
        "reading": (both_s, words_s),
        "memory": (both_bytes, words_bytes),
        "p50": (statistics.median(by_both), statistics.median(by_words)),
        "p99": (p99(by_both), p99(by_words)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
