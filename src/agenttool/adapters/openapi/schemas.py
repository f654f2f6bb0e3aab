"""Schemas of a document as JSON Schema 2020-12, with only what a caller of an operation needs.

A schema that several operations refer to is converted once, and all tools share the result. The schema of one tool has
the definitions that it reaches, nearest first, up to a size. Beyond that, a short placeholder replaces a definition; it
accepts every value that the definition accepts.
"""

import re
import reprlib
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from agenttool.adapters.openapi.document import DocumentError, References, UnreadableDocument, string_of
from agenttool.adapters.openapi.shapes import LIST, OBJECT, PART_IGNORED, TEXT, TEXTS, Shape, SkippedPart, escape
from agenttool.codec import list_of, object_of, write_own
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.drafts import EXCLUSIVE_LIMITS, upgrade_limits
from agenttool.schema.traverse import DEFINITION

MAX_SCHEMA_BYTES = 12_000
"""How long the input schema of one tool may be, about 3,000 tokens."""

MAX_NOTE = 200
_LONG_ENUM, _MAX_ENUM_BYTES = 100, MAX_SCHEMA_BYTES // 3
_MAX_DEPTH = 100
_NAMED = re.compile(rb'"\$ref":"#/\$defs/([A-Za-z0-9_.-]+)"')
_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_TYPE = f"one of {', '.join(sorted(_TYPES))}, or a list of them"
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_MARKS = ("nullable", "x-nullable", "readOnly", "writeOnly")
"""Words that are only checked here."""

_FORMATS = frozenset({"date", "date-time", "uri", "email", "uuid", "byte", "ipv4", "ipv6"})
_SCHEMA_WORDS = ("items", "not", "contains", "propertyNames", "additionalProperties", "if", "then", "else")
_LIST_WORDS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAP_WORDS = ("properties", "patternProperties")
_NESTED_WORDS = frozenset({*_SCHEMA_WORDS, *_LIST_WORDS, *_MAP_WORDS, "required"})
_OBJECT_WORDS = frozenset({"type", "properties", "required", "description"})
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"<[^>\n]{1,200}>|\*\*+|__+")
_PATTERN = "a regular expression that all validators understand"
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
warnings.filterwarnings("ignore", category=FutureWarning, module=__name__)  # of patterns whose meaning may change
FILE_SCHEMA: JsonObject = {
    "type": ["string", "object"],
    "description": 'A file: its text, or {"base64": "…", "filename": "…", "content_type": "…"}.',
}


def plain_text(text: str, limit: int) -> str:
    """Return the first sentences of a text without markup, up to a number of characters."""
    text = text[: 2 * limit + 100].replace("`", "")
    if "](" in text:
        text = "".join(_LINK.split(text.replace("![", "[")))
    if "<" in text or "**" in text or "__" in text:
        text = _MARKUP.sub("", text)
    text = text.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    while "  " in text:  # ten times as fast as to split and join the words
        text = text.replace("  ", " ")
    found = text.strip()
    if len(found) <= limit:
        return found
    cut = found[:limit]
    end = max(cut.rfind(". "), cut.rfind("! "), cut.rfind("? "))
    return cut[: end + 1] if end > limit // 3 else f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}…"


class Converted(NamedTuple):
    """A converted schema, its size as JSON, and the names of the definitions that it refers to."""

    schema: JsonObject
    size: int
    names: tuple[str, ...]


def measured(schema: JsonObject) -> Converted:
    """Return a converted schema with its size and names."""
    text = write_own(schema)
    names = dict.fromkeys(map(bytes.decode, _NAMED.findall(text))) if b'"$ref":' in text else ()
    return Converted(schema, len(text), tuple(names))


class SchemaConverter:
    """Converts the schemas of requests, or of responses, of one document.

    Attributes:
        findings: schemas that had to be read more loosely, and why.
    """

    def __init__(self, references: References, *, is_response: bool = False) -> None:
        """Take the document; members that only the other direction has are left out."""
        self._references = references
        self._has_siblings = str(references.root.get("openapi")).startswith(("3.1", "3.2"))
        """Whether words beside `$ref` count; up to OpenAPI 3.0 they are ignored."""
        self._hidden = "writeOnly" if is_response else "readOnly"
        self._rules = _RULES_OF_RESPONSES if is_response else _RULES
        self._definitions: dict[str, Converted] = {}
        self._names: dict[str, str] = {}
        self._targets: dict[str, str] = {}
        self._joined: dict[bytes, JsonObject] = {}
        self.findings: list[SkippedPart] = []

    def convert(self, schema: Json, pointer: str, note: str = "") -> Converted:
        """Return a converted schema; a note replaces its description."""
        converted = self._schema(schema, pointer, 0)
        found: JsonObject = {"not": {}} if converted is False else object_of(converted)
        return measured({**found, "description": plain_text(note, MAX_NOTE)} if note else found)

    def inline(self, schema: JsonObject) -> JsonObject:
        """Return a converted schema with its own reference replaced by the target, whose members can be arguments."""
        for _ in range(_MAX_DEPTH):
            if "$ref" not in schema:
                break
            target = self._definition(str(schema["$ref"]).removeprefix(DEFINITION)).schema
            own: JsonObject = {word: each for word, each in schema.items() if word != "$ref"}
            schema = {**target, **own, **_members_of(target, own)} if own else target
        return schema

    def join(self, schema: JsonObject, depth: int = 0) -> JsonObject:
        """Return an object that `allOf` composes as one object; another converted schema is only inlined."""
        key = write_own(schema)
        if key in self._joined or depth > _MAX_DEPTH:
            return self._joined.get(key, schema)
        found = self._joined[key] = self.inline(schema)  # one that contains itself stays as it is
        branches = [self.join(object_of(each), depth + 1) for each in list_of(found.get("allOf"))]
        if branches and all(each.keys() <= _OBJECT_WORDS for each in branches):
            own: JsonObject = {word: each for word, each in found.items() if word != "allOf"}
            found = self._joined[key] = {**own, "type": "object", **_members_of(*branches, own)}
        return found

    def definitions(self, names: Iterable[str], size: int = 0, limit: int = MAX_SCHEMA_BYTES) -> JsonObject:
        """Return the definitions reached from names, nearest first; placeholders replace those beyond `limit`."""
        found: JsonObject = {}
        waiting = deque(names)
        while waiting:
            name = waiting.popleft()
            if name in found or name not in self._targets:
                continue
            definition = self._definition(name)
            size += definition.size + len(name)
            if size > limit:
                size -= definition.size
                found[name] = _placeholder(definition.schema, name)
            else:
                found[name] = definition.schema
                waiting += definition.names
        return found

    def _definition(self, name: str) -> Converted:
        if name not in self._definitions:
            reference = self._targets[name]
            place = reference.partition("#")[2]
            self._definitions[name] = self.convert(self._references.target(reference), place)
        return self._definitions[name]

    def _name_of(self, reference: str) -> str:
        if reference not in self._names:
            base = _NOT_NAME.sub("_", reference.rpartition("/")[2]) or "schema"
            name, number = base, 2
            while name in self._targets:
                name, number = f"{base}_{number}", number + 1
            self._names[reference], self._targets[name] = name, reference
        return self._names[reference]

    def _schema(self, value: Json, pointer: str, depth: int) -> Json:
        if not isinstance(value, dict):
            if isinstance(value, bool):
                return value
            return self._loosen(pointer, f"a schema is an object, got {type(value).__name__}")
        if depth > _MAX_DEPTH:
            return self._loosen(pointer, f"a schema is nested more than {_MAX_DEPTH} levels deep")
        if "$ref" in value:
            reference = self._fit(TEXT, value["$ref"], f"{pointer}/$ref")
            if isinstance(reference, str):
                return self._reference(reference, value, pointer, depth)
        found = self._words(value, pointer, depth)
        return _nullable(found) if value.get("nullable") is True or value.get("x-nullable") is True else found

    def _loosen(self, pointer: str, reason: str) -> JsonObject:
        """Report a schema, or a word of one, that is ignored; return the schema that accepts all values."""
        self.findings.append(SkippedPart(pointer, reason, PART_IGNORED))
        return {}

    def _fit(self, shape: Shape, value: Json, pointer: str) -> Json:
        """Return a value without the parts that have another shape, which are reported."""
        return shape.fit(value, pointer, self.findings.append)

    def _words(self, value: JsonObject, pointer: str, depth: int) -> JsonObject:
        """Return the words of a schema that JSON Schema has, with values that it allows."""
        found: JsonObject = {}
        for word, each in value.items():  # a schema has few words of the many that are possible
            if word in _NESTED_WORDS:
                self._add_nested(word, value, found, pointer, depth)
            elif word in self._rules and each is not None:
                expected, is_valid = self._rules[word]
                if is_valid(each):
                    found[word] = each
                else:
                    self._loosen(f"{pointer}/{word}", f"it must be {expected}, got {reprlib.repr(each)}")
        return _modern(found)

    def _reference(self, reference: str, value: JsonObject, pointer: str, depth: int) -> JsonObject:
        try:
            self._references.target(reference)
        except UnreadableDocument as error:
            raise UnreadableDocument(str(error), pointer) from error
        except DocumentError as error:
            return self._loosen(pointer, str(error))
        siblings = value if self._has_siblings else {"description": value.get("description")}
        found: JsonObject = {"$ref": DEFINITION + self._name_of(reference), **self._words(siblings, pointer, depth)}
        return _nullable(found) if value.get("nullable") is True else found

    def _add_nested(self, word: str, value: JsonObject, found: JsonObject, pointer: str, depth: int) -> None:
        """Add a word whose value has schemas, or names members of one."""
        each, pointer, depth = value[word], f"{pointer}/{word}", depth + 1
        if word == "required":
            members = object_of(value.get("properties"))
            named = list_of(self._fit(TEXTS, each, pointer))
            required = [each for each in dict.fromkeys(named) if not self._is_hidden(members.get(str(each)))]
            if required:
                found[word] = required
        elif word in _MAP_WORDS:
            members = self._fit(OBJECT, each, pointer)
            if isinstance(members, dict):
                found[word] = self._members(word, members, pointer, depth)
        elif word in _LIST_WORDS or (word == "items" and isinstance(each, list)):
            # Documents use oneOf for branches that overlap, and a service accepts those.
            name = "anyOf" if word == "oneOf" and "anyOf" not in value else "prefixItems" if word == "items" else word
            branches = [
                self._schema(branch, f"{pointer}/{number}", depth)
                for number, branch in enumerate(list_of(self._fit(LIST, each, pointer)))
            ]
            found |= {name: branches} if branches else {}
        else:
            found[word] = self._schema(each, pointer, depth)

    def _members(self, word: str, members: JsonObject, pointer: str, depth: int) -> JsonObject:
        """Return the members of an object, without those that requests, or responses, do not have."""
        if word != "properties":
            for name in [name for name in members if not _is_regex(name)]:
                self._loosen(f"{pointer}/{escape(name)}", f"its name must be {_PATTERN}")
            members = {name: each for name, each in members.items() if _is_regex(name)}
        return {
            name: self._schema(each, f"{pointer}/{escape(name)}", depth)
            for name, each in members.items()
            if not self._is_hidden(each)
        }

    def _is_hidden(self, member: Json) -> bool:
        return isinstance(member, dict) and member.get(self._hidden) is True


def _members_of(*schemas: JsonObject) -> JsonObject:
    """Return the members of several converted schemas, and which of them are required."""
    properties = {name: value for each in schemas for name, value in object_of(each.get("properties")).items()}
    required = dict.fromkeys(name for each in schemas for name in list_of(each.get("required")) if name in properties)
    return {"properties": properties, **({"required": [*required]} if required else {})}


def _modern(words: JsonObject) -> JsonObject:
    """Return words of OpenAPI with the values that JSON Schema 2020-12 has, as short as a model needs them."""
    found: JsonObject = {word: each for word, each in words.items() if word not in _MARKS}
    if found.get("type") == "file":
        found["type"] = "string"
    elif "type" not in found and "properties" in found and "anyOf" not in found:
        found["type"] = "object"
    note = plain_text(string_of(found.pop("description", "")), MAX_NOTE)
    values = list_of(found.get("enum"))
    if len(values) > _LONG_ENUM and len(write_own(values)) > _MAX_ENUM_BYTES:
        del found["enum"]  # the service checks the value
        note = f"{note} One of {len(values):,} values, such as {', '.join(map(str, values[:5]))}.".lstrip()
    if note:
        found["description"] = note
    if "format" in found and found["format"] not in _FORMATS:
        del found["format"]
    upgrade_limits(found)  # OpenAPI 3.0 has them as draft 4
    return found


def _is_regex(pattern: str) -> bool:
    """Return whether a pattern is written in the syntax that all dialects share."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return "(?" not in pattern.replace("(?:", "").replace("(?=", "").replace("(?!", "")


_Rule = tuple[str, Callable[[Json], bool]]


def _rule(expected: str, schema: JsonObject) -> _Rule:
    return expected, Checker(schema).accepts_parsed


_LISTED_TYPES: JsonObject = {"type": "array", "items": {"enum": [*_TYPES]}, "minItems": 1, "uniqueItems": True}
_RULES_OF_RESPONSES: dict[str, _Rule] = {
    "type": _rule(_TYPE, {"anyOf": [{"enum": [*_TYPES, "file"]}, _LISTED_TYPES]}),
    "enum": _rule("a list with a value", {"type": "array", "minItems": 1}),
    "const": _rule("a value", {}),
}
"""Services keep their own limits and formats less strictly than callers must."""

_RULES: dict[str, _Rule] = {
    **_RULES_OF_RESPONSES,
    **dict.fromkeys(EXCLUSIVE_LIMITS, _rule("a number", {"type": "number"})),
    **dict.fromkeys(EXCLUSIVE_LIMITS.values(), _rule("a number", {"type": ["number", "boolean"]})),
    **dict.fromkeys(_COUNTS, _rule("a whole number from 0 on", {"type": "integer", "minimum": 0})),
    **dict.fromkeys(("uniqueItems", *_MARKS), _rule("true or false", {"type": "boolean"})),
    **dict.fromkeys(("format", "description"), _rule("a text", {"type": "string"})),
    "multipleOf": _rule("a number above 0", {"type": "number", "exclusiveMinimum": 0}),
    "pattern": (_PATTERN, lambda value: isinstance(value, str) and _is_regex(value)),
    "default": _rule("a value", {}),
}
"""What the value of each word must be that is no schema."""


def _nullable(schema: JsonObject) -> JsonObject:
    """Return a schema that also accepts null."""
    kind = schema.get("type")
    if isinstance(kind, str) and not {"anyOf", "allOf", "oneOf", "not", "const"} & schema.keys():
        found: JsonObject = {**schema, "type": [kind, "null"] if kind != "null" else kind}
        if isinstance(schema.get("enum"), list) and None not in list_of(schema["enum"]):
            found["enum"] = [*list_of(schema["enum"]), None]
        return found
    note = schema.get("description")
    inner: JsonObject = {key: each for key, each in schema.items() if key != "description"}
    if not inner:
        return schema
    return {**({} if note is None else {"description": note}), "anyOf": [inner, {"type": "null"}]}


def _placeholder(schema: JsonObject, name: str) -> JsonObject:
    """Return a schema that accepts at least what a definition accepts."""
    note = schema.get("description")
    words = plain_text(f"{name}: {note}" if note else name, 80)
    return {**({"type": schema["type"]} if "type" in schema else {}), "description": words}


def pruned(schema: JsonObject, depth: int = 3) -> JsonObject:
    """Return a schema without what is below some levels; it accepts at least the same values."""

    def below(value: Json) -> Json:
        return (pruned(value, depth - 1) if depth else {}) if isinstance(value, dict) else value

    found: JsonObject = {}
    for word, value in schema.items():
        if word in _MAP_WORDS:
            found[word] = {name: below(each) for name, each in object_of(value).items()}
        elif word in ("items", "additionalProperties"):
            found[word] = below(value)
        elif word in ("allOf", "anyOf", "prefixItems"):
            found[word] = [below(each) for each in list_of(value)]
        elif word == "required" or (word not in _NESTED_WORDS and not isinstance(value, dict)):
            found[word] = value
    return found


def file_members(schema: Json, references: References) -> JsonObject:
    """Return the members of a form that are files, or lists of files, each with the schema that a caller sees."""
    found: JsonObject = {}
    for part in _parts(schema, references):
        for name, member in object_of(part.get("properties")).items():
            shown = _file_schema(member, references)
            if shown is not None:
                found[name] = shown
    return found


def _file_schema(member: Json, references: References) -> JsonObject | None:
    parts = _parts(member, references)
    items = [each for part in parts if "items" in part for each in _parts(part["items"], references)]
    if not any(map(is_binary, (*parts, *items))):
        return None
    is_list = not any(map(is_binary, parts))
    shown: JsonObject = {"type": "array", "items": FILE_SCHEMA} if is_list else FILE_SCHEMA
    is_nullable = any(part.get("nullable") is True or "null" in _kinds(part) for part in parts)
    return _nullable(shown) if is_nullable else shown


def _kinds(schema: JsonObject) -> list[Json]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _parts(schema: Json, references: References) -> list[JsonObject]:
    """Return a schema and the branches that it is composed of, each once, with references followed."""
    found: dict[int, JsonObject] = {}
    waiting = deque([schema])
    while waiting:
        each = waiting.popleft()
        if not isinstance(each, dict) or id(each) in found:
            continue
        found[id(each)] = each
        if "$ref" in each:
            with suppress(DocumentError):
                waiting.append(references.resolve(each, ""))
        for word in ("allOf", "anyOf", "oneOf"):
            waiting += list_of(each.get(word))
    return [*found.values()]


def is_binary(schema: Json) -> bool:
    """Return whether a schema is that of a file or other binary data."""
    found = object_of(schema)
    kinds, media = _kinds(found), string_of(found.get("contentMediaType"))
    is_media = media and found.get("contentEncoding") is None and not media.startswith("text/")
    return "file" in kinds or ("string" in kinds and found.get("format") == "binary") or bool(is_media)
