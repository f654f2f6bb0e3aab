"""The few tools of a large catalog that are worth scoring, brought by a full-text index in memory."""

from collections.abc import Iterable

from tantivy import Document as Page
from tantivy import Index, Occur, Query, SchemaBuilder

from agenttool.catalog.search.document import Document, Field

HEAP_BYTES = 15_000_000
"""What the writer may hold before it makes a segment; the least that it accepts."""

NAMING = (Field.NAME, Field.ALIAS, Field.HINT, Field.NAMESPACE)
DESCRIBING = (Field.DESCRIPTION, Field.PARAMETER)
NAMING_COUNTS = 2.0


class Candidates:
    """A full-text index of documents by number. It holds no opinion on rank: whoever asks scores what it brings."""

    def __init__(self) -> None:
        """Begin with nothing."""
        # A signed integer: of an unsigned one, deleting by term finds nothing, and says nothing.
        builder = SchemaBuilder().add_integer_field("number", indexed=True, fast=True)
        for name in ("naming", "describing"):
            builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
        self._schema = builder.build()
        self._index = Index(self._schema)
        self._writer = self._index.writer(HEAP_BYTES, 1)
        self._has_news = False

    def add(self, number: int, document: Document) -> None:
        """Add a document; it is found from the next search on."""
        page = Page()
        page.add_integer("number", number)
        page.add_text("naming", " ".join(word for field in NAMING for word in document.fields[field]))
        page.add_text("describing", " ".join(word for field in DESCRIBING for word in document.fields[field]))
        self._writer.add_document(page)
        self._has_news = True

    def remove(self, number: int) -> None:
        """Forget a document from the next search on."""
        self._writer.delete_documents_by_term("number", number)
        self._has_news = True

    def _settle(self) -> None:
        """Make what was added and removed visible; segments are merged behind our back, and nobody waits for that."""
        if self._has_news:
            self._writer.commit()
            self._index.reload()
            self._has_news = False

    def best(self, words: Iterable[tuple[str, float]], limit: int) -> list[int]:
        """Give the numbers of the documents that have these words, the likely ones first."""
        self._settle()
        parts = [
            (Occur.Should, Query.boost_query(Query.term_query(self._schema, field, word, "freq"), weight * likeness))
            for word, likeness in words
            for field, weight in (("naming", NAMING_COUNTS), ("describing", 1.0))
        ]
        searcher = self._index.searcher()
        hits = searcher.search(Query.boolean_query(parts), limit, count=False).hits
        numbers = searcher.fast_field_values("number", [address for _, address in hits])
        return [int(number) for number in numbers if number is not None]
