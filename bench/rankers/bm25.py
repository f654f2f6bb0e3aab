"""bm25s, plain and with stemming and identifier splitting, over all texts of a tool."""
# pyright: basic, reportMissingImports=false
# The peer is not installed where types are checked.

import re

import bm25s
import Stemmer

from bench.rankers import Tools, serve

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")


def rank(tools: Tools, queries: list[str], *, stemmed: bool) -> list[list[int]]:
    """Rank with the library's own stop words and constants."""
    stemmer = Stemmer.Stemmer("english") if stemmed else None

    def tokenized(texts: list[str]) -> list[list[str]]:
        split = [_HUMP.sub(" ", text) for text in texts] if stemmed else texts
        return bm25s.tokenize(split, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)

    index = bm25s.BM25()
    index.index(tokenized([" ".join(tool) for tool in tools]), show_progress=False)
    found = []
    for words in tokenized(queries):
        if not words:
            found.append([])
            continue
        places, scores = index.retrieve([words], k=min(10, len(tools)), show_progress=False)
        found.append([int(place) for place, score in zip(places[0], scores[0], strict=True) if score > 0])
    return found


if __name__ == "__main__":
    serve(
        {
            "bm25s, stems and split names": lambda tools, queries: rank(tools, queries, stemmed=True),
            "bm25s, plain": lambda tools, queries: rank(tools, queries, stemmed=False),
        }
    )
