"""The indexed text of each tool by number, and statistics over all of them."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, NewType

from agenttool.catalog.entry import Entry
from agenttool.catalog.search.tokens import SEPARATOR, spaced, split_statements
from agenttool.catalog.search.vocabulary import Vocabulary
from agenttool.records import Json, ToolDeclaration
from agenttool.schema.views import model_view

if TYPE_CHECKING:
    from agenttool.catalog.search.full_text import FullTextIndex

SUMMARY_WORDS = 35
"""The first words of a description, which describe what a tool does; the rest are details."""

STATEMENT_WORDS = 4
"""A sentence with fewer words, such as `Beta.`, does not describe a tool."""


class DocumentField(IntEnum):
    """The field that contains a word, in the order in which reasons list it."""

    NAME = 0
    ALIAS = 1
    HINT = 2
    DESCRIPTION = 3
    DETAILS = 4
    PARAMETER = 5
    ABOUT_PARAMETER = 6
    NAMESPACE = 7


FIELD_WEIGHTS = (2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0)
"""The weight of a word in each field, in the order of the fields."""

FIELD_TITLES = (
    *("its name", "an alias", "its hint", "its description", "its description"),
    *("a parameter", "a parameter's description", "its namespace"),
)
"""What each field is called in a reason, in the order of the fields."""

EncodedDocument = NewType("EncodedDocument", str)
"""The symbols of a tool's words, field by field, with `SEPARATOR` between the fields."""


def encode_fields(entries: Sequence[Entry], vocabulary: Vocabulary) -> tuple[Sequence[str], ...]:
    """Return the symbols of tools by field, in the order of `DocumentField`."""
    declarations = [entry.tool.declaration for entry in entries]
    hints = ((each.search_hint, each.title) for each in declarations)
    parameters = [_parameters(each) for each in declarations]
    encode = vocabulary.encode_all
    descriptions = encode([each.description for each in declarations])
    return (
        encode([each.name for each in declarations]),
        encode([" ".join(each.aliases) if each.aliases else "" for each in declarations]),
        encode([f"{hint or ''} {title or ''}" if hint or title else "" for hint, title in hints]),
        [each[:SUMMARY_WORDS] for each in descriptions],
        [each[SUMMARY_WORDS:] for each in descriptions],
        encode([*map(" ".join, parameters)]),
        encode([" ".join(filter(None, each.values())) if each else "" for each in parameters]),
        encode([each.namespace for each in declarations]),
    )


def _parameters(declaration: ToolDeclaration) -> dict[str, str]:
    """Return the parameters that a model sees, with their descriptions."""
    contract = declaration.input_contract
    schema = (contract and contract.model_input_schema) or {}
    if contract is not None and contract.internal_only_fields:
        schema = model_view(schema, contract.internal_only_fields)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: _description(schema) for name, schema in properties.items()}


def _description(schema: Json) -> str:
    text = schema.get("description") if isinstance(schema, dict) else None
    return text if isinstance(text, str) else ""


def text_for_embedding(entry: Entry) -> str:
    """Return the name, hint and first sentence of a tool, which an embedding model encodes."""
    declaration = entry.tool.declaration
    name = spaced(f"{declaration.namespace} {declaration.name}")
    return ". ".join(filter(None, (name, declaration.search_hint, _first_statement(declaration.description))))


def _first_statement(description: str) -> str:
    words: list[str] = []
    for sentence in split_statements(description):
        words += sentence.split()
        if len(words) >= STATEMENT_WORDS:
            break
    return " ".join(words[:SUMMARY_WORDS])


class ToolDocuments:
    """Documents by number. Adding or removing one costs only that one."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.documents: dict[int, EncodedDocument] = {}
        self._field_lengths = [0] * len(DocumentField)
        self._frequencies: dict[str, int] = {}

    @cached_property
    def full_text(self) -> "FullTextIndex":
        """Return the index that selects candidates; the first tool that is indexed creates it."""
        from agenttool.catalog.search.full_text import FullTextIndex  # noqa: PLC0415 -- loaded by the first search

        return FullTextIndex()

    def put(self, entries: Mapping[int, Entry]) -> None:
        """Encode tools and add them under numbers that are free; many at once take less time each."""
        fields = encode_fields([*entries.values()], self.vocabulary)
        for field, texts in enumerate(fields):
            self._field_lengths[field] += sum(map(len, texts))
        documents = map(EncodedDocument, map(SEPARATOR.join, zip(*fields, strict=True)))
        new = dict(zip(entries, documents, strict=True))
        self.documents |= new
        self.full_text.add(new)
        self._frequencies.clear()

    def remove(self, number: int) -> None:
        """Remove a document, if there is one with this number."""
        document = self.documents.pop(number, None)
        if document is not None:
            for field, symbols in enumerate(document.split(SEPARATOR)):
                self._field_lengths[field] -= len(symbols)
            self.full_text.remove(number)
            self._frequencies.clear()

    def frequency(self, symbol: str) -> int:
        """Count the documents that contain a word."""
        count = self._frequencies.get(symbol)
        if count is None:
            count = self._frequencies[symbol] = self.full_text.frequency(symbol)
        return count

    def rarity(self, symbol: str | None) -> float:
        """Return the inverse document frequency of a word; None stands for a word that no document contains."""
        frequency = self.frequency(symbol) if symbol else 0
        return log(1 + (len(self.documents) - frequency + 0.5) / (frequency + 0.5))

    def average_length(self, field: DocumentField) -> float:
        """Return how many words a field has on average."""
        return max(1.0, self._field_lengths[field] / max(1, len(self.documents)))
