"""JSON Schemas of the records, generated from their types.

Every document that these accept fits the published schemas of the standard, too; these are stricter. Open enums and
objects stay open, and an absent member is left out, not `null`.
"""

from collections.abc import Iterable
from functools import cache
from typing import cast

import msgspec

from agenttool.records import (
    CORE_OBJECTS,
    RECORD_TYPES,
    SCHEMA_VERSION,
    Json,
    JsonObject,
    NativeMapping,
    OpenEnum,
    Part,
)
from agenttool.schema.traverse import DEFINITION

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def schema_of(name: str) -> JsonObject:
    """Return the self-contained schema of one object of the standard. It is shared and must not be changed.

    Raises:
        KeyError: the standard has no object of that name.
    """
    kinds = CORE_OBJECTS[name]
    definitions = definitions_of(kinds)
    root = definitions.pop(kinds[0].__name__ if len(kinds) == 1 else "ExternalMapping")
    if name in RECORD_TYPES:
        root["required"] = ["schema_version", *_listed(root["required"])]
    head: JsonObject = {"$schema": DIALECT, "$id": f"urn:agenttool:{SCHEMA_VERSION}:{name}"}
    return {**head, **root, **({"$defs": {**definitions}} if definitions else {})}


def definitions_of(kinds: Iterable[type[Part]]) -> dict[str, JsonObject]:
    """Return the schemas of records and of all their parts by name; they refer to each other as `#/$defs/NAME`."""
    _, components = msgspec.json.schema_components(kinds, ref_template=DEFINITION + "{name}")
    definitions = {
        title: _loosened(title, _described(cast("JsonObject", each))) for title, each in sorted(components.items())
    }
    return {**definitions, **({"ExternalMapping": _any_mapping()} if NativeMapping.__name__ in definitions else {})}


def _described(schema: JsonObject) -> JsonObject:
    """Return a schema with the first paragraph of the docstring as its description."""
    description = schema.get("description")
    return {**schema, "description": description.split("\n\n")[0]} if isinstance(description, str) else schema


def _loosened(title: str, schema: JsonObject) -> JsonObject:
    """Relax a schema to what the codec accepts: unknown members, unknown values of open enums, absent members."""
    open_list = next((kind for kind in OpenEnum.__subclasses__() if kind.__name__ == title), None)
    if open_list is not None:
        return {
            "title": title,
            "description": f"{schema['description']} Unknown values are preserved and read as the strictest one.",
            "type": "string",
            "examples": [*open_list],
        }
    members = schema.get("properties")
    if not isinstance(members, dict):
        return schema
    is_tag = {"record_type", "source"} if title.endswith("Mapping") else {"record_type"}
    return {
        **schema,
        "properties": {member: _as_written(each) for member, each in members.items()},
        "required": [each for each in _listed(schema["required"]) if each not in is_tag],
        "additionalProperties": True,
    }


def _as_written(schema: Json) -> Json:
    """Remove the `null` that stands for an absent member, but not one that is a value."""
    if not isinstance(schema, dict):
        return schema
    choices = schema.get("anyOf")
    if "default" in schema and isinstance(choices, list):
        choices = [choice for choice in choices if choice != {"type": "null"}]
        schema = cast("JsonObject", choices[0]) if len(choices) == 1 else {"anyOf": choices}
    items, native = schema.get("items"), {"$ref": f"{DEFINITION}{NativeMapping.__name__}"}
    if isinstance(items, dict) and native in _listed(items.get("anyOf")):  # a list of mappings from any source
        return {**schema, "items": {"$ref": f"{DEFINITION}ExternalMapping"}}
    return schema


def _any_mapping() -> JsonObject:
    """Return the schema of a mapping: the shape of its source, or any object for an unknown source."""
    shapes: list[Json] = [
        {
            "if": {"properties": {"source": {"const": kind.__struct_config__.tag}}, "required": ["source"]},
            "then": {"$ref": f"{DEFINITION}{kind.__name__}"},
        }
        for kind in CORE_OBJECTS["tool_external_mapping"]
    ]
    return {
        "title": "ExternalMapping",
        "description": "A native identity; its `source` says which shape it has.",
        "type": "object",
        "properties": {"source": {"type": "string"}},
        "allOf": shapes,
        "additionalProperties": True,
        "required": [],
    }


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
