"""What tests of results share: one way to map, and the schemas that every record must fit."""

import pytest

from agenttool.codec import to_json
from agenttool.results.mapping import map_output
from agenttool.results.mapping_plan import PLAIN
from agenttool.schema.compile import compile_schema
from agenttool.schema.record_schemas import schema_of


@pytest.fixture(scope="session")
def mapped():
    """Map an output as the result of one fixed call."""

    def mapped(output, plan=PLAIN, scrubber=None):
        return map_output(output, plan, "inv_1", "2026-05-08T00:00:00Z", scrubber)

    return mapped


@pytest.fixture(scope="session")
def misfits():
    """List what in a record does not fit our own schema."""

    def misfits(record):
        document = to_json(record)
        return compile_schema(schema_of(document["record_type"])).misfits(document)

    return misfits


@pytest.fixture(scope="session")
def published_misfits(published_schemas):
    """List what in a record does not fit the published schema."""

    def misfits(record):
        document = to_json(record)
        return published_schemas[document["record_type"]].misfits(document)

    return misfits
