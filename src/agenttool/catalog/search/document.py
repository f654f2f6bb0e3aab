"""What can be found of one tool: its words, field by field, as search weighs them."""

from dataclasses import dataclass
from enum import IntEnum

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


WEIGHTS = {
    Field.NAME: 3.0,
    Field.ALIAS: 2.0,
    Field.HINT: 2.0,
    Field.DESCRIPTION: 1.0,
    Field.PARAMETER: 0.8,
    Field.NAMESPACE: 1.5,
}


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
        return frozenset(word for field in self.fields for word in field)


def document_of(entry: Entry) -> Document:
    """Read the words of a tool."""
    declaration = entry.tool.declaration
    schema = (declaration.input_contract and declaration.input_contract.model_input_schema) or {}
    properties = schema.get("properties")
    texts = {
        Field.NAME: declaration.name,
        Field.ALIAS: " ".join(declaration.aliases or ()),
        Field.HINT: " ".join(filter(None, (declaration.search_hint, declaration.title))),
        Field.DESCRIPTION: declaration.description,
        Field.PARAMETER: " ".join(properties) if isinstance(properties, dict) else "",
        Field.NAMESPACE: declaration.namespace,
    }
    return Document(tuple(words_of(texts[field]) if texts[field] else () for field in Field))
