"""The few tools of a large catalog that are worth scoring, brought by a full-text index in memory."""

from collections.abc import Iterable

from tantivy import Document as Page
from tantivy import Index, Occur, Query, SchemaBuilder, TextAnalyzerBuilder, Tokenizer

from agenttool.catalog.search.document import Document
from agenttool.catalog.search.words import BETWEEN

HEAP_BYTES = 60_000_000
"""What the writer may hold before it makes a segment: a search in one large segment is twice as fast as in eight."""

FRESH = 64
"""So many new documents are looked through one by one, before the full-text index takes them: that costs 30 ms."""

NAME_COUNTS, NAMESPACE_COUNTS = 3, 2
"""How often these words are written down, so that they count for more; those of details count once, however long."""


class Candidates:
    """A full-text index of documents by number. It holds no opinion on rank: whoever asks scores what it brings."""

    def __init__(self) -> None:
        """Begin with nothing."""
        # A signed integer: of an unsigned one, deleting by term finds nothing, and says nothing.
        builder = SchemaBuilder().add_integer_field("number", indexed=True, fast=True)
        builder.add_text_field("words", tokenizer_name="signs", index_option="freq")
        self._schema = builder.build()
        self._index = Index(self._schema)
        self._index.register_tokenizer("signs", TextAnalyzerBuilder(Tokenizer.ngram(1, 1)).build())
        self._writer = self._index.writer(HEAP_BYTES, 1)
        self._fresh: dict[int, Document] = {}
        self._has_news = False
        self._removed = 0

    def add(self, documents: Iterable[tuple[int, Document]]) -> None:
        """Add documents with their numbers; they are found from the next search on."""
        self._fresh.update(documents)
        if len(self._fresh) > FRESH:
            self._write_fresh()

    def _write_fresh(self) -> None:
        for each in self._fresh.items():
            self._write(*each)
        self._fresh.clear()

    def _write(self, number: int, document: Document) -> None:
        name, alias, hint, lead, details, parameters, about, namespace = document.split(BETWEEN)
        words = "".join((name * NAME_COUNTS, namespace * NAMESPACE_COUNTS, alias, hint, lead))
        if rest := details + parameters + about:
            words += "".join(set(rest))
        page = Page()
        page.add_integer("number", number)
        page.add_text("words", words)
        self._writer.add_document(page)
        self._has_news = True

    def remove(self, number: int) -> None:
        """Forget a document; until the index has news besides, it may still be brought, and whoever asks must know."""
        if self._fresh.pop(number, None) is None:
            self._writer.delete_documents_by_term("number", number)
            self._removed += 1
            self._has_news = self._has_news or self._removed > FRESH

    def _settle(self) -> None:
        """Make what was added and removed visible; segments are merged behind our back, and nobody waits for that."""
        if self._has_news:
            self._write_fresh()
            self._writer.commit()
            self._index.reload()
            self._has_news, self._removed = False, 0

    def having(self, sign: str) -> int:
        """Count the documents that have a sign; those removed count as long as their segment is not merged."""
        self._settle()
        fresh = sum(sign in document for document in self._fresh.values())
        return self._index.searcher().doc_freq("words", sign) + fresh

    def fresh(self, signs: Iterable[tuple[str, float]]) -> list[int]:
        """Give the numbers of the new documents that have any of these signs; `best` does not know them yet."""
        any_of = {sign for sign, _ in signs}
        return [number for number, document in self._fresh.items() if not any_of.isdisjoint(document)]

    def best(self, signs: Iterable[tuple[str, float]], limit: int) -> list[int]:
        """Give the numbers of the documents that have these signs, the likely ones first; new ones come by `fresh`."""
        self._settle()
        parts = [
            (Occur.Should, Query.boost_query(Query.term_query(self._schema, "words", sign, "freq"), weight))
            for sign, weight in signs
        ]
        searcher = self._index.searcher()
        hits = searcher.search(Query.boolean_query(parts), limit, count=False).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        return [int(number) for number in numbers if number is not None]
