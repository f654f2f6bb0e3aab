"""Holding what we send to the types that the providers' own SDKs declare for it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def fits():
    """Check a payload against a type of an SDK: every member known, every value of its kind."""
    from pydantic import TypeAdapter  # noqa: PLC0415 -- costs a second, and only these tests need it

    def spelled_out(value):
        if isinstance(value, dict):
            return {key: spelled_out(inner) for key, inner in value.items()}
        return [*map(spelled_out, value)] if isinstance(value, list | tuple | Iterator) else value

    def check(kind, payload):
        """A typed dict drops members that it does not know, so that what comes back must be what went in."""
        adapter = TypeAdapter(kind)  # held, because lists of an SDK are read only when somebody goes through them
        assert spelled_out(adapter.validate_python(payload)) == spelled_out(payload)

    return check
