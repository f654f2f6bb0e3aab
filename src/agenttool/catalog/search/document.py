"""What can be found of one tool: the signs of its words, field by field, as search weighs them."""

from enum import IntEnum
from typing import NewType

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.alphabet import BETWEEN, Alphabet
from agenttool.catalog.search.words import spaced


class Field(IntEnum):
    """Where a word stands, in the order in which a reason tells it."""

    NAME = 0
    ALIAS = 1
    HINT = 2
    DESCRIPTION = 3
    DETAILS = 4
    PARAMETER = 5
    NAMESPACE = 6


WEIGHTS = (2.5, 2.0, 2.0, 1.0, 0.6, 0.8, 2.0)
"""How much a word tells by its field, in the order of the fields."""

LEAD = 35
"""So many words of a description say what a tool does; what follows are details."""

Document = NewType("Document", str)
"""The signs of a tool's words, `BETWEEN` every two fields."""


def document_of(entry: Entry, alphabet: Alphabet) -> Document:
    """Read the words of a tool."""
    declaration = entry.tool.declaration
    contract = declaration.input_contract
    schema = (contract and contract.model_input_schema) or {}
    properties = schema.get("properties")
    parameters = " ".join(properties) if isinstance(properties, dict) else ""
    hint, title = declaration.search_hint, declaration.title
    read = alphabet.read
    description = read(declaration.description)
    fields = (
        read(declaration.name),
        read(" ".join(declaration.aliases)) if declaration.aliases else "",
        read(f"{hint or ''} {title or ''}") if hint or title else "",
        description[:LEAD],
        description[LEAD:],
        read(parameters),
        read(declaration.namespace),
    )
    return Document(BETWEEN.join(fields))


def told_in_words(entry: Entry) -> str:
    """Say what a tool is in one short text, for those who look at meanings."""
    declaration = entry.tool.declaration
    name = spaced(f"{declaration.namespace} {declaration.name}")
    return ". ".join(filter(None, (name, declaration.search_hint, declaration.description)))
