"""Checks of payloads against the types of the providers' SDKs."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def fits():
    """Check a payload against a type of an SDK: every member is known, and every value has its type."""
    from pydantic import TypeAdapter  # noqa: PLC0415 -- costs a second, and only these tests need it

    def spelled_out(value):
        if isinstance(value, dict):
            return {key: spelled_out(inner) for key, inner in value.items()}
        return [*map(spelled_out, value)] if isinstance(value, list | tuple | Iterator) else value

    def check(kind, payload):
        """A typed dict drops unknown members, so the validated value must equal the payload."""
        adapter = TypeAdapter(kind)  # referenced, because SDK lists are validated only when iterated
        assert spelled_out(adapter.validate_python(payload)) == spelled_out(payload)

    return check
