"""Values of JSON whose type another program chose: read as an object or a list, and as empty if they are neither."""

from typing import cast

from agenttool.records import Json, JsonObject


def object_of(value: object) -> JsonObject:
    """Return a value that is an object, and an empty object for any other value."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Json]:
    """Return a value that is a list, and an empty list for any other value."""
    return cast("list[Json]", value) if isinstance(value, list) else []


def objects_in(value: object) -> list[JsonObject]:
    """Return the objects in a list; other entries are left out."""
    return [each for each in list_of(value) if isinstance(each, dict)]
