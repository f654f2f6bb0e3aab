"""Types to JSON Schema: pydantic's generator, stricter about objects and sparing with words."""

from typing import cast

from pydantic import ConfigDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import CoreSchema, PydanticSerializationError, SchemaError, core_schema

from agenttool.codec import canonical_json
from agenttool.errors import RecordError
from agenttool.records import Json


class SparingSchema(GenerateJsonSchema):
    """Closes each input object whose author did not say otherwise, and never repeats a name as a title.

    A model that is told more than it needs pays for it on every turn, and a misspelled member that is silently dropped
    is a wish nobody hears.
    """

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Generate, then drop the titles that say no more than the name of their definition."""
        generated = super().generate(schema, mode)
        for name, definition in generated.get("$defs", {}).items():
            if definition.get("title") == name:
                del definition["title"]
        return generated

    def field_title_should_be_set(self, schema: object) -> bool:
        """Say no: the name is there already."""
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing: what cannot be written as JSON is left out of the schema and still works at the call."""

    def encode_default(self, dft: object) -> Json:
        """Keep the defaults that have a canonical spelling, which not-a-number has not."""
        encoded = super().encode_default(dft)
        try:
            canonical_json(encoded)
        except RecordError as error:
            raise PydanticSerializationError(str(error)) from error
        return encoded

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        """Use the word of JSON Schema for bytes in base64."""
        generated = super().bytes_schema(schema)
        if generated["format"] == "base64url":
            del generated["format"]
            generated["contentEncoding"] = "base64"
        return generated

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        """Refuse: no JSON is a class."""
        return self.handle_invalid_for_json_schema(schema, "a class")

    def named_tuple_schema(self, schema: core_schema.NamedTupleSchema) -> JsonSchemaValue:
        """Name the places of the array; nothing else would tell them apart."""
        generated = super().named_tuple_schema(schema)
        for field, place in zip(schema["fields"], generated.get("prefixItems", ()), strict=False):
            place.setdefault("title", field["name"])
        return generated

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Close it."""
        return self._closed(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Close it."""
        return self._closed(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """Close it."""
        return self._closed(super().typed_dict_schema(schema), schema.get("cls"))

    def _closed(self, generated: JsonSchemaValue, cls: object) -> JsonSchemaValue:
        config: object = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
        if self.mode == "validation" and "properties" in generated and "extra" not in cast("ConfigDict", config):
            generated.setdefault("additionalProperties", False)
        return generated


def reason_of(error: Exception) -> str:
    """Give the line of an error that says why: the last one of a schema error, the first one of any other."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if isinstance(error, SchemaError) else 0].strip()
