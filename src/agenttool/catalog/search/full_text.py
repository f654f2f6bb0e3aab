"""A full-text index in memory that selects the tools of a large catalog that are worth scoring."""

from collections.abc import Iterable, Mapping

from tantivy import Document, Index, Occur, Query, SchemaBuilder, Searcher, TextAnalyzerBuilder, Tokenizer

from agenttool.catalog.search.tokens import SEPARATOR

HEAP_BYTES = 60_000_000
"""Writer memory before it writes a segment. A search in one large segment is twice as fast as in eight."""

NAME_COPIES, NAMESPACE_COPIES = 3, 2
"""How often the words of these fields are indexed, so that they weigh more. Words of details are indexed once."""


class FullTextIndex:
    """Encoded documents by number. The caller scores what it returns."""

    def __init__(self) -> None:
        # The number is a signed integer: deleting by an unsigned term finds nothing and raises no error.
        builder = SchemaBuilder().add_integer_field("number", indexed=True, fast=True)
        builder.add_text_field("words", tokenizer_name="symbols", index_option="freq")
        self._schema = builder.build()
        self._index = Index(self._schema)
        self._index.register_tokenizer("symbols", TextAnalyzerBuilder(Tokenizer.ngram(1, 1)).build())
        self._writer = self._index.writer(HEAP_BYTES, 1)
        self._needs_commit = self._has_removed = False

    def add(self, documents: Mapping[int, str]) -> None:
        """Add documents with their numbers; the next search finds them."""
        for number, document in documents.items():
            name, alias, hint, summary, details, parameters, about, namespace = document.split(SEPARATOR)
            once = "".join(set(details + parameters + about))
            page = Document()
            page.add_integer("number", number)
            page.add_text("words", name * NAME_COPIES + namespace * NAMESPACE_COPIES + alias + hint + summary + once)
            self._writer.add_document(page)
        self._needs_commit = True

    def remove(self, number: int) -> None:
        """Remove a document; the next search does not find it."""
        self._writer.delete_documents_by_term("number", number)
        self._needs_commit = self._has_removed = True

    def _searcher(self) -> Searcher:
        if self._needs_commit:
            self._writer.commit()
            self._index.reload()
            self._needs_commit = False
        return self._index.searcher()

    def _contains(self, symbol: str) -> Query:
        return Query.term_query(self._schema, "words", symbol, "freq")

    def frequency(self, symbol: str) -> int:
        """Count the documents with a symbol."""
        searcher = self._searcher()
        if not self._has_removed:
            return searcher.doc_freq("words", symbol)
        # The statistics include removed documents until their segment is merged; a search does not.
        return searcher.search(self._contains(symbol), 1).count or 0  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType] -- the stubs leave it out

    def best(self, symbols: Iterable[tuple[str, float]], limit: int) -> list[int]:
        """Return the numbers of the documents that match these weighted symbols best, best first."""
        terms = [(Occur.Should, Query.boost_query(self._contains(symbol), weight)) for symbol, weight in symbols]
        searcher = self._searcher()
        hits = searcher.search(Query.boolean_query(terms), limit, count=False).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        return [int(number) for number in numbers if number is not None]
