"""Schemas of a document as JSON Schema 2020-12, with only what a caller of an operation needs.

A schema that several operations refer to is converted once, and all tools share the result. The schema of one tool has
the definitions that it reaches, nearest first, up to a size; a definition beyond that is a short placeholder that
accepts everything that the complete one accepts.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from agenttool.adapters.openapi.document import DocumentError, References
from agenttool.adapters.openapi.operations import SkippedPart
from agenttool.codec import write_own
from agenttool.records import Json, JsonObject

MAX_SCHEMA_BYTES = 12_000
"""How long the input schema of one tool may be, about 3,000 tokens."""

MAX_NOTE = 200
_MAX_DEPTH = 100
_MAX_PLACEHOLDERS = 400
_DEFS = "#/$defs/"
_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_FORMATS = frozenset({"date", "date-time", "uri", "email", "uuid", "byte", "ipv4", "ipv6"})
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_SCHEMA_WORDS = ("items", "not", "contains", "propertyNames", "additionalProperties", "if", "then", "else")
_LIST_WORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAP_WORDS = ("properties", "patternProperties")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"<[^>\n]{1,200}>|[*`_]{2,}|`")
_MARKED = re.compile(r"[<*`_]")
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
FILE_SCHEMA: JsonObject = {
    "type": ["string", "object"],
    "description": 'A file: its text, or {"base64": "…", "filename": "…", "content_type": "…"}.',
}


@lru_cache(maxsize=4096)
def plain_text(text: str, limit: int) -> str:
    """Return the first sentences of a text without markup, up to a number of characters.

    Documents repeat the descriptions of parameters in each operation.
    """
    text = text[: 2 * limit + 100]
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if _MARKED.search(text):
        text = _MARKUP.sub("", text)
    found = " ".join(text.split())
    if len(found) <= limit:
        return found
    cut = found[:limit]
    end = max(cut.rfind(". "), cut.rfind("! "), cut.rfind("? "))
    return cut[: end + 1] if end > limit // 3 else f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…"


@dataclass(slots=True)
class Definition:
    """A converted schema that others refer to: its size as JSON, and the names of those that it refers to."""

    schema: JsonObject = field(default_factory=dict[str, Json])
    size: int = 0
    names: tuple[str, ...] = ()


class SchemaConverter:
    """Converts the schemas of requests, or of responses, of one document.

    Attributes:
        findings: schemas that had to be read more loosely, and why.
    """

    def __init__(self, references: References, *, is_response: bool = False) -> None:
        """Take the document; members that only the other direction has are left out."""
        self._references = references
        self._hidden = "writeOnly" if is_response else "readOnly"
        self._is_response = is_response
        self._definitions: dict[str, Definition] = {}
        self._names: dict[str, str] = {}
        self._targets: dict[str, str] = {}
        self._converted: dict[int, tuple[Json, tuple[str, ...]]] = {}
        self._used: list[str] = []
        self.findings: list[SkippedPart] = []

    def convert(self, schema: Json, pointer: str) -> tuple[Json, tuple[str, ...]]:
        """Return a schema, and the names of the definitions that it refers to."""
        known = self._converted.get(id(schema))  # the document outlives this object, so no id is used twice
        if known is None:
            self._used = []
            found = self._schema(schema, pointer, 0)
            known = self._converted[id(schema)] = found, tuple(dict.fromkeys(self._used))
        return known

    def unwrap(self, schema: Json) -> Json:
        """Return the target of a schema that is only a reference; one that leads nowhere stays as it is."""
        try:
            return schema if isinstance(schema, bool) else self._references.resolve(schema, "")
        except DocumentError:
            return schema

    def definitions(self, names: Iterable[str], size: int = 0, limit: int | None = MAX_SCHEMA_BYTES) -> JsonObject:
        """Return the definitions that are reached from names, nearest first, up to a size with placeholders beyond."""
        found: JsonObject = {}
        waiting = deque(names)
        while waiting:
            name = waiting.popleft()
            if name in found:
                continue
            definition = self._definition(name)
            size += definition.size + len(name)
            if limit is not None and size > limit:
                size -= definition.size
                found[name] = _placeholder(definition.schema, name)
                if len(found) > _MAX_PLACEHOLDERS:
                    break
                continue
            found[name] = definition.schema
            waiting += definition.names
        for name in waiting if limit is not None else ():
            found.setdefault(name, {})
        return found

    def _definition(self, name: str) -> Definition:
        known = self._definitions.get(name)
        if known is not None:
            return known
        known = self._definitions[name] = Definition()
        reference = self._targets[name]
        before, self._used = self._used, []
        try:
            found = self._schema(self._references.target(reference), reference.partition("#")[2], 0)
        except DocumentError as error:
            self.findings.append(SkippedPart(reference, str(error)))
            found = {}
        known.schema = found if isinstance(found, dict) else {"not": {}} if found is False else {}
        known.names = tuple(dict.fromkeys(each for each in self._used if each != name))
        known.size = len(write_own(known.schema))
        self._used = before
        return known

    def _name_of(self, reference: str) -> str:
        known = self._names.get(reference)
        if known is None:
            base = _NOT_NAME.sub("_", reference.rpartition("/")[2]) or "schema"
            known, number = base, 2
            while known in self._targets:
                known, number = f"{base}_{number}", number + 1
            self._names[reference], self._targets[known] = known, reference
        self._used.append(known)
        return known

    def _schema(self, value: Json, pointer: str, depth: int) -> Json:
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            self.findings.append(SkippedPart(pointer, f"a schema is an object, got {type(value).__name__}"))
            return {}
        if depth > _MAX_DEPTH:
            self.findings.append(SkippedPart(pointer, f"a schema is nested more than {_MAX_DEPTH} levels deep"))
            return {}
        reference = value.get("$ref")
        if isinstance(reference, str):
            return self._reference(reference, value, pointer)
        found: JsonObject = {}
        self._add_scalars(value, found)
        for word in _SCHEMA_WORDS:
            if word in value:
                if word == "items" and isinstance(value[word], list):
                    found["prefixItems"] = [self._schema(each, pointer, depth + 1) for each in _list(value[word])]
                else:
                    found[word] = self._schema(value[word], f"{pointer}/{word}", depth + 1)
        for word in _LIST_WORDS:
            branches = _list(value.get(word))
            if branches:
                # Documents use oneOf for branches that overlap, and a service accepts those.
                target = "anyOf" if word == "oneOf" and "anyOf" not in value else word
                found[target] = [self._schema(each, f"{pointer}/{word}", depth + 1) for each in branches]
        self._add_members(value, found, pointer, depth)
        return _nullable(found) if value.get("nullable") is True or value.get("x-nullable") is True else found

    def _reference(self, reference: str, value: JsonObject, pointer: str) -> JsonObject:
        try:
            self._references.target(reference)
        except DocumentError as error:
            self.findings.append(SkippedPart(pointer, str(error)))
            return {}
        found: JsonObject = {"$ref": _DEFS + self._name_of(reference)}
        note = value.get("description")
        if isinstance(note, str):
            found["description"] = plain_text(note, MAX_NOTE)
        return _nullable(found) if value.get("nullable") is True else found

    def _add_scalars(self, value: JsonObject, found: JsonObject) -> None:
        """Add the words whose values are no schemas; values that JSON Schema does not allow are left out."""
        kind = value.get("type")
        if isinstance(kind, str):
            kind = "string" if kind == "file" else kind
            found |= {"type": kind} if kind in _TYPES else {}
        elif isinstance(kind, list) and kind and all(each in _TYPES for each in kind):
            found["type"] = list(dict.fromkeys(kind))
        if isinstance(value.get("enum"), list) and value["enum"]:
            found["enum"] = value["enum"]
        if "const" in value:
            found["const"] = value["const"]
        if not self._is_response:  # services keep their own limits and formats less strictly than callers must
            _add_limits(value, found)
            _add_notes(value, found)

    def _add_members(self, value: JsonObject, found: JsonObject, pointer: str, depth: int) -> None:
        """Add `properties` and `required`, without members that requests, or responses, do not have."""
        hidden: set[str] = set()
        for word in _MAP_WORDS:
            members = value.get(word)
            if not isinstance(members, dict):
                continue
            shown: JsonObject = {}
            for name, each in members.items():
                if isinstance(each, dict) and each.get(self._hidden) is True:
                    hidden.add(name)
                elif word == "properties" or _is_regex(name):
                    shown[name] = self._schema(each, f"{pointer}/{word}/{name}", depth + 1)
            found[word] = shown
        required = [each for each in _list(value.get("required")) if isinstance(each, str) and each not in hidden]
        if required:
            found["required"] = list(dict.fromkeys(required))
        if "properties" in found and "type" not in found and "anyOf" not in found:
            found["type"] = "object"


def _add_notes(value: JsonObject, found: JsonObject) -> None:
    """Add what helps a caller to write a value: pattern, format, description and default."""
    pattern, note, default = value.get("pattern"), value.get("description"), value.get("default")
    if isinstance(pattern, str) and _is_regex(pattern):
        found["pattern"] = pattern
    if value.get("format") in _FORMATS:
        found["format"] = value["format"]
    if value.get("uniqueItems") is True:
        found["uniqueItems"] = True
    if isinstance(note, str) and note:
        found["description"] = plain_text(note, MAX_NOTE)
    if isinstance(default, str | int | float | bool):
        found["default"] = default


def _add_limits(value: JsonObject, found: JsonObject) -> None:
    for word in _NUMBERS:
        limit = value.get(word)
        if isinstance(limit, int | float) and not isinstance(limit, bool) and (word != "multipleOf" or limit > 0):
            found[word] = limit
    for word, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if value.get(exclusive) is True and word in found:
            found[exclusive] = found.pop(word)
    for word in _COUNTS:
        count = value.get(word)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            found[word] = count


def _nullable(schema: JsonObject) -> JsonObject:
    """Return a schema that also accepts null."""
    kind = schema.get("type")
    if isinstance(kind, str) and not {"anyOf", "allOf", "oneOf", "not", "const"} & schema.keys():
        found: JsonObject = {**schema, "type": [kind, "null"] if kind != "null" else kind}
        if isinstance(schema.get("enum"), list) and None not in _list(schema["enum"]):
            found["enum"] = [*_list(schema["enum"]), None]
        return found
    note = schema.get("description")
    inner: JsonObject = {key: each for key, each in schema.items() if key != "description"}
    if not inner:
        return schema
    return {**({} if note is None else {"description": note}), "anyOf": [inner, {"type": "null"}]}


def _placeholder(schema: JsonObject, name: str) -> JsonObject:
    """Return a schema that accepts at least what a definition accepts."""
    note = schema.get("description")
    words = f"{name}: {note}" if isinstance(note, str) and note else name
    kind = schema.get("type")
    return {**({"type": kind} if kind is not None else {}), "description": plain_text(words, 80)}


def loosen(schema: JsonObject) -> JsonObject:
    """Return the schema of a tool that accepts any values of its members, for one that a validator rejects."""
    members = cast("JsonObject", schema.get("properties", {}))
    notes: JsonObject = {
        name: {"description": each["description"]} if isinstance(each, dict) and "description" in each else {}
        for name, each in members.items()
    }
    return {
        "type": "object",
        "properties": notes,
        "required": schema.get("required", []),
        "additionalProperties": schema.get("additionalProperties", False),
    }


def _is_regex(pattern: str) -> bool:
    """Return whether a pattern is written in the syntax that all dialects share."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return "(?" not in pattern.replace("(?:", "").replace("(?=", "").replace("(?!", "")


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
