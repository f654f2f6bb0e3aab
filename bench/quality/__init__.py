"""Search quality: nDCG@10 and recall@5 on a labelled set, beside peers in one run."""

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from math import log2
from typing import cast

from agenttool.adapters.embedding.embedding_index import EmbeddingIndex
from agenttool.adapters.embedding.model import open_model
from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import ToolIndex
from agenttool.records import JsonObject, ToolId, replace
from agenttool.testing.fakes import scripted_tool
from bench.figure import Absent, Figure, compare
from bench.harness import Missing
from bench.models import STATIC, TRANSFORMER, folder_of
from bench.quality import dataset
from bench.quality.dataset import Request, Tool
from bench.rankers import ask

RANKERS = {"bm25": "bm25s", "fastmcp_search": "FastMCP"}
SHOWN = 10
LONGEST_S = 3600.0
"""Timeout for embedding the tools of a set."""

Rankings = Sequence[Sequence[int]]


def measure(settings: object) -> list[Figure | Absent]:
    """Measure the set and its variants."""
    return list(_figures())


def _figures() -> Iterator[Figure | Absent]:
    catalog = dataset.tools()
    requests = dataset.requests(catalog)
    for name, tools, asked in (
        ("as written", catalog, requests),
        ("long descriptions", dataset.wordy(catalog), requests),
        ("bare names", dataset.bare(catalog), requests),
        ("long requests", catalog, dataset.talkative(requests)),
        ("several requests", catalog, dataset.several(requests)),
        ("misspelled", catalog, dataset.misspelt(requests)),
    ):
        ours = _ours(tools, asked)
        yield from _with_models(name, tools, asked, ours)
        for ranker, peer in RANKERS.items():
            try:
                rankings = _theirs(ranker, tools, asked)
            except Missing as error:
                yield Absent(name=f"nDCG@10, {name}", peer_name=peer, reason=str(error))
                continue
            for peer_name, theirs in rankings.items():
                for measured, mean in (("nDCG@10", gain), ("recall@5", recall)):
                    pair = mean(ours, asked), mean(theirs, asked)
                    yield compare(f"{measured}, {name}", pair, peer_name=peer_name, unit="%")


def _with_models(
    name: str, tools: Sequence[Tool], requests: Sequence[Request], by_words: Rankings
) -> Iterator[Figure | Absent]:
    """Compare semantic search with search by words, with a static model and with a transformer."""
    for model in (STATIC, TRANSFORMER):
        title = f"{name}, with {model}"
        try:
            folder = folder_of(model)
        except Missing as error:
            yield Absent(name=f"nDCG@10, {title}", peer_name="ours, by words", reason=str(error))
            continue
        meanings = EmbeddingIndex(open_model(folder), folder)
        found = _ours(tools, requests, meanings)
        meanings.close()
        for measured, mean in (("nDCG@10", gain), ("recall@5", recall)):
            pair = mean(found, requests), mean(by_words, requests)
            yield compare(f"{measured}, {title}", pair, peer_name="ours, by words", unit="%")


def gain(rankings: Rankings, requests: Sequence[Request]) -> float:
    """Return the mean nDCG of the first ten results."""
    return statistics.fmean(
        sum(1 / log2(at + 2) for at, place in enumerate(ranking[:SHOWN]) if place in request.wanted)
        / sum(1 / log2(at + 2) for at in range(min(SHOWN, len(request.wanted))))
        for ranking, request in zip(rankings, requests, strict=True)
    )


def recall(rankings: Rankings, requests: Sequence[Request]) -> float:
    """Return the mean recall of the first five results."""
    return statistics.fmean(
        len(request.wanted.intersection(ranking[:5])) / min(5, len(request.wanted))
        for ranking, request in zip(rankings, requests, strict=True)
    )


def _ours(tools: Sequence[Tool], requests: Sequence[Request], meanings: EmbeddingIndex | None = None) -> Rankings:
    index, places = ToolIndex(meanings), dict[ToolId, int]()
    for place, tool in enumerate(tools):
        schema: JsonObject = {"type": "object", "properties": {each: {} for each in tool.parameters}}
        declared = scripted_tool(tool.name, namespace=tool.namespace, schema=schema)
        declaration = replace(declared.declaration, description=tool.description)
        entry = Catalog().prepare(dataclasses.replace(declared, declaration=declaration))[0]
        index.put(entry)
        places[entry.tool_id] = place
    while index.catch_up(1000):
        pass
    if meanings is not None:
        meanings.wait(LONGEST_S)
    encoded = [index.encode_query(asked.query) for asked in requests]
    return [
        [places[each.tool_id] for each in index.find(asked.query, places, SHOWN, encoded=sentences)]
        for asked, sentences in zip(requests, encoded, strict=True)
    ]


def _theirs(ranker: str, tools: Sequence[Tool], requests: Sequence[Request]) -> dict[str, Rankings]:
    rows = [(tool.namespace, tool.name, tool.description, " ".join(tool.parameters)) for tool in tools]
    return cast("dict[str, Rankings]", ask(ranker, rows, [each.query for each in requests]))
