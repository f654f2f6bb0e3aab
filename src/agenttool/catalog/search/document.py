"""What can be found of one tool: the signs of its words, field by field, as search weighs them."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NewType

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.alphabet import Alphabet
from agenttool.catalog.search.sentences import statements_of
from agenttool.catalog.search.words import BETWEEN, spaced
from agenttool.records import Json, ToolDeclaration
from agenttool.schema.views import model_view


class Field(IntEnum):
    """Where a word stands, in the order in which a reason tells it."""

    NAME = 0
    ALIAS = 1
    HINT = 2
    DESCRIPTION = 3
    DETAILS = 4
    PARAMETER = 5
    ABOUT_PARAMETER = 6
    NAMESPACE = 7


WEIGHTS = (2.0, 2.0, 2.0, 1.0, 0.6, 0.6, 0.2, 2.0)
"""How much a word tells by its field, in the order of the fields."""

LEAD = 35
"""So many words of a description say what a tool does; what follows are details."""

A_STATEMENT = 4
"""A sentence of so many words says something; `Beta.` does not."""

Document = NewType("Document", str)
"""The signs of a tool's words, `BETWEEN` every two fields."""


def columns_of(entries: Sequence[Entry], alphabet: Alphabet) -> tuple[Sequence[str], ...]:
    """Read the words of tools, one field of all of them after the other."""
    told = [entry.tool.declaration for entry in entries]
    hints = ((each.search_hint, each.title) for each in told)
    parameters = [_parameters(each) for each in told]
    read = alphabet.read_all
    descriptions = read([each.description for each in told])
    return (
        read([each.name for each in told]),
        read([" ".join(each.aliases) if each.aliases else "" for each in told]),
        read([f"{hint or ''} {title or ''}" if hint or title else "" for hint, title in hints]),
        [each[:LEAD] for each in descriptions],
        [each[LEAD:] for each in descriptions],
        read([*map(" ".join, parameters)]),
        read([" ".join(filter(None, each.values())) if each else "" for each in parameters]),
        read([each.namespace for each in told]),
    )


def documents_of(columns: Iterable[Sequence[str]]) -> Iterator[Document]:
    """Put the fields of each tool together."""
    return map(Document, map(BETWEEN.join, zip(*columns, strict=True)))


def _parameters(declaration: ToolDeclaration) -> dict[str, str]:
    """Give the parameters that a model sees, each with what is said about it."""
    contract = declaration.input_contract
    schema = (contract and contract.model_input_schema) or {}
    if contract is not None and contract.internal_only_fields:
        schema = model_view(schema, contract.internal_only_fields)
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: _description(schema) for name, schema in properties.items()}


def _description(schema: Json) -> str:
    told = schema.get("description") if isinstance(schema, dict) else None
    return told if isinstance(told, str) else ""


def told_in_words(entry: Entry) -> str:
    """Say what a tool is in one short text, for those who look at meanings: details would only blur it."""
    declaration = entry.tool.declaration
    name = spaced(f"{declaration.namespace} {declaration.name}")
    return ". ".join(filter(None, (name, declaration.search_hint, _first_said(declaration.description))))


def _first_said(description: str) -> str:
    """Give the first sentence of a description that says something, with those before it."""
    said: list[str] = []
    for sentence in statements_of(description):
        said += sentence.split()
        if len(said) >= A_STATEMENT:
            break
    return " ".join(said[:LEAD])
