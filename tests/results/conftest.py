"""What tests of results share: one way to map, and the schemas that every record must fit."""

import json

import pytest

from agenttool.codec import to_json
from agenttool.results.mapping import map_output
from agenttool.results.plan import PLAIN
from agenttool.schema.compile import Checker, compile_schema
from agenttool.schema.record_schemas import SCHEMA_FILES, schema_of


@pytest.fixture(scope="session")
def mapped():
    """Map an output as the result of one fixed call."""

    def mapped(output, plan=PLAIN, scrubber=None):
        return map_output(output, plan, "inv_1", "res_1", "2026-05-08T00:00:00Z", scrubber)

    return mapped


@pytest.fixture(scope="session")
def misfits():
    """List what in a record does not fit our own schema."""

    def misfits(record):
        document = to_json(record)
        return compile_schema(schema_of(document["record_type"])).misfits(document)

    return misfits


@pytest.fixture(scope="session")
def published_misfits(shared):
    """List what in a record does not fit the published schema."""
    checkers = {}

    def misfits(record):
        document = to_json(record)
        name = document["record_type"]
        if name not in checkers:
            checkers[name] = Checker(json.loads((shared / "schemas" / SCHEMA_FILES[name]).read_text()))
        return checkers[name].misfits(document)

    return misfits
