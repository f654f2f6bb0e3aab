"""What can be found of one tool: its words, field by field, as search weighs them."""

from dataclasses import dataclass
from enum import IntEnum
from itertools import chain

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.words import words_of


class Field(IntEnum):
    """Where a word stands, in the order in which a reason tells it."""

    NAME = 0
    ALIAS = 1
    HINT = 2
    DESCRIPTION = 3
    PARAMETER = 4
    NAMESPACE = 5


WEIGHTS = (3.0, 2.0, 2.0, 1.0, 0.8, 1.5)
"""How much a word tells by its field, in the order of the fields."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """The words of one tool, one tuple per field."""

    fields: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> tuple[str, ...]:
        """The words of the bare name."""
        return self.fields[Field.NAME]

    def words(self) -> frozenset[str]:
        """Give every word once."""
        return frozenset(chain.from_iterable(self.fields))


def document_of(entry: Entry) -> Document:
    """Read the words of a tool."""
    declaration = entry.tool.declaration
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    properties = schema.get("properties")
    texts = (
        declaration.name,
        " ".join(declaration.aliases or ()),
        " ".join(filter(None, (declaration.search_hint, declaration.title))),
        declaration.description,
        " ".join(properties) if isinstance(properties, dict) else "",
        declaration.namespace,
    )
    return Document(tuple(words_of(text) if text else () for text in texts))
