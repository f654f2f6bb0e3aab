"""Search quality on collections of tools and requests that the user provides: nDCG@10 in percent, beside peers.

Run with `python -m bench.quality.collections FOLDER`. Each folder in it is a collection of two files of JSON lines:
`tools.jsonl` with id, namespace, name, description and parameters (an object of descriptions by name), and
`queries.jsonl` with query and tools (the ids of the tools that fit).
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import tantivy
from tantivy import SchemaBuilder

from agenttool.adapters.embedding.bundled import open_bundled_index
from agenttool.adapters.embedding.embedding_index import EmbeddingIndex
from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import Entry
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.search.tokens import spaced
from agenttool.records import JsonObject, ToolId, replace
from agenttool.testing.fakes import scripted_tool
from bench.harness import Missing
from bench.quality import LONGEST_S, SHOWN, Rankings, gain
from bench.quality.dataset import Request
from bench.rankers import ask

_FIELDS = ("name", "description", "parameters")


class Collection:
    """The tools and requests of one folder."""

    def __init__(self, folder: Path) -> None:
        """Read both files."""
        self.tools = [json.loads(line) for line in (folder / "tools.jsonl").read_text().splitlines()]
        places = {tool["id"]: place for place, tool in enumerate(self.tools)}
        asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
        self.requests = [Request(each["query"], frozenset(places[tool] for tool in each["tools"])) for each in asked]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return namespace, name, description, and the names and descriptions of parameters, of each tool."""
        return [
            (
                tool["namespace"],
                tool["name"],
                tool["description"],
                " ".join([*tool["parameters"], *tool["parameters"].values()]),
            )
            for tool in self.tools
        ]

    def entries(self) -> list[Entry]:
        """Return the tools as a catalog holds them; a name that occurs again gets a namespace of its own."""
        found: list[Entry] = []
        taken: set[tuple[str, str]] = set()
        for place, tool in enumerate(self.tools):
            namespace = tool["namespace"] if (tool["namespace"], tool["name"]) not in taken else f"{place}"
            taken.add((namespace, tool["name"]))
            properties = {name: {"description": text} for name, text in tool["parameters"].items()}
            schema = cast("JsonObject", {"type": "object", "properties": properties})
            made = scripted_tool(tool["name"], namespace=namespace, schema=schema)
            declaration = replace(made.declaration, description=tool["description"])
            found.append(Catalog().prepare(dataclasses.replace(made, declaration=declaration))[0])
        return found


def by_tantivy(rows: Sequence[Sequence[str]], requests: Sequence[Request]) -> Rankings:
    """Rank by the full-text index alone, with its stemming tokenizer and its ranking."""
    builder = SchemaBuilder().add_integer_field("place", stored=True)
    for field in _FIELDS:
        builder.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(60_000_000, 1)
    for place, (namespace, name, description, parameters) in enumerate(rows):
        texts = {"name": spaced(f"{namespace} {name}"), "description": description, "parameters": parameters}
        writer.add_document(tantivy.Document(place=place, **texts))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    found: list[list[int]] = []
    for request in requests:
        words = "".join(each if each.isalnum() else " " for each in request.query)
        hits = (
            searcher.search(index.parse_query_lenient(words.lower(), [*_FIELDS])[0], SHOWN).hits
            if words.strip()
            else []
        )
        found.append([cast("int", searcher.doc(address)["place"][0]) for _, address in hits])
    return found


def by_us(entries: Sequence[Entry], requests: Sequence[Request], model: EmbeddingIndex | None = None) -> Rankings:
    """Rank by words, or by words and a model."""
    index, places = ToolIndex(model), dict[ToolId, int]()
    for place, entry in enumerate(entries):
        index.put(entry)
        places[entry.tool_id] = place
    while index.catch_up(1000):
        pass
    if model is not None:
        model.wait(LONGEST_S)
    found: list[list[int]] = []
    for request in requests:
        hits = index.find(request.query, places, SHOWN, encoded=index.encode_query(request.query))
        found.append([places[each.tool_id] for each in hits])
    return found


def main() -> None:
    """Print one line of a table for each collection."""
    print("| Collection | tools | requests | bm25s | bm25s, stems | tantivy | by words | with the model |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for folder in sorted(each for each in Path(sys.argv[1]).iterdir() if (each / "tools.jsonl").is_file()):
        collection = Collection(folder)
        requests, rows, entries = collection.requests, collection.rows(), collection.entries()
        try:
            peers = cast("dict[str, Rankings]", ask("bm25", rows, [each.query for each in requests]))
        except Missing as error:
            sys.exit(f"bm25s cannot run here: {error}")
        rankings = [peers["bm25s, plain"], peers["bm25s, stems and split names"], by_tantivy(rows, requests)]
        rankings.append(by_us(entries, requests))
        model = open_bundled_index()
        if model is not None:
            rankings.append(by_us(entries, requests, model))
            model.close()
        cells = [f"{100 * gain(each, requests):.1f}" for each in rankings]
        print(f"| {folder.name} | {len(entries):,} | {len(requests)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
