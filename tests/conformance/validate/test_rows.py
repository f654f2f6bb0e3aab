import json

import pytest

from agenttool.conformance.ledger import find_requirement
from agenttool.conformance.validate.rows import CLOSED_LISTS, OUR_MEMBERS, SHAPE_ROWS
from agenttool.records import RECORD_TYPES
from agenttool.schema.record_schemas import SCHEMA_FILES, schema_of

PUBLISHED = list(SCHEMA_FILES)[:15]


def test_every_kind_of_record_has_its_row():
    assert set(SHAPE_ROWS) == set(RECORD_TYPES)


@pytest.mark.parametrize("row", sorted({*SHAPE_ROWS.values(), *CLOSED_LISTS.values()}))
def test_every_row_is_in_the_ledger(row):
    assert find_requirement(row)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_our_members_are_those_that_the_published_schema_does_not_know(standard, kind):
    published = json.loads((standard / "schemas" / SCHEMA_FILES[kind]).read_text())["properties"]
    assert OUR_MEMBERS.get(kind, frozenset()) == schema_of(kind)["properties"].keys() - published.keys() - {
        "record_type"
    }


@pytest.mark.parametrize("kind", PUBLISHED)
def test_every_closed_list_of_a_published_schema_has_its_row(standard, kind):
    published = json.loads((standard / "schemas" / SCHEMA_FILES[kind]).read_text())["properties"]
    closed = {(kind, name) for name, schema in published.items() if "enum" in schema}
    assert closed <= CLOSED_LISTS.keys()
