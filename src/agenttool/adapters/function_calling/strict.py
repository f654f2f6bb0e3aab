"""Schemas for strict modes, made without changing what is accepted; where that cannot be done, why not.

Strict modes let a model write only what fits, and understand a part of JSON Schema. A schema is spelled anew in that
part, or not at all: a limit is never dropped, an open object never closed. Where every property must be required, what
may be left out is written as null, and `restored` takes it out again.
"""

from dataclasses import dataclass, field

from agenttool.adapters.function_calling.branches import (
    are_apart,
    branches_of,
    comes_back,
    definition,
    written_out,
)
from agenttool.adapters.function_calling.dialect import Dialect
from agenttool.adapters.function_calling.keywords import ASSERTIONS, SHAPE
from agenttool.adapters.function_calling.patterns import is_simple
from agenttool.adapters.function_calling.restore import needs_restoring
from agenttool.adapters.function_calling.size import too_large
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.drafts import modern
from agenttool.schema.traverse import members

_NOTES = ("title", "description")
_NULL: JsonObject = {"type": "null"}


@dataclass(frozen=True, slots=True)
class NotStrict:
    """Why a schema has no strict form: what stands in the way, and where."""

    reason: str


class _Unfit(Exception):
    """Part of a schema has no strict form."""


def strict_form(schema: JsonObject, dialect: Dialect) -> JsonObject | NotStrict:
    """Spell a schema for a strict mode, or say why that cannot be done."""
    try:
        strict = _Speller(modern(schema), dialect).spell_root()
    except _Unfit as unfit:
        return NotStrict(str(unfit))
    beyond = too_large(strict, dialect)
    return strict if beyond is None else NotStrict(beyond)


@dataclass(slots=True)
class _Speller:
    """Spells one schema, and the definitions that it comes across on its way."""

    root: JsonObject
    dialect: Dialect
    used: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    inside: list[str] = field(default_factory=list[str])

    def spell_root(self) -> JsonObject:
        """Spell the whole. Arguments are an object whatever the schema says, so that at the root that need not be said.

        Raises:
            _Unfit: it has no strict form.
        """
        node = {**written_out(self.root), "type": "object"}
        if branches_of(node) or "allOf" in node or "$ref" in node:
            raise _Unfit("a union or a combination stands at its root")
        spelled = self.spell({key: value for key, value in node.items() if key not in ("$defs", "definitions")}, "")
        for keyword in ("$defs", "definitions"):
            prefix = f"#/{keyword}/"
            found = {name.removeprefix(prefix): each for name, each in self.used.items() if name.startswith(prefix)}
            if found:
                spelled[keyword] = {name.replace("~1", "/").replace("~0", "~"): each for name, each in found.items()}
        return spelled

    def spell(self, node: Json, at: str) -> JsonObject:
        """Spell one schema.

        Raises:
            _Unfit: it has no strict form.
        """
        if not isinstance(node, dict):
            raise _Unfit(f"{at or '/'} lets any value through, or none")
        notes: JsonObject = {key: node[key] for key in _NOTES if isinstance(node.get(key), str)}
        asserting = {key for key in node if key in ASSERTIONS or key in SHAPE}
        if asserting == {"$ref"}:
            reference = self._reference(node["$ref"], at)
            return {**notes, "anyOf": [reference]} if notes else reference
        if asserting == {"allOf"} and isinstance(node["allOf"], list) and len(node["allOf"]) == 1:
            return {**self.spell(node["allOf"][0], at), **notes}
        if asserting in ({"anyOf"}, {"oneOf"}):
            return {**notes, "anyOf": self._union(branches_of(node), at, is_exclusive="oneOf" in node)}
        foreign = asserting.difference(SHAPE, self.dialect.asserted)
        if foreign:
            raise _Unfit(f"{at or '/'} uses {min(foreign)}")
        return {**notes, **self._plain(node, at)}

    def _plain(self, node: JsonObject, at: str) -> JsonObject:
        spelled: JsonObject = {key: node[key] for key in sorted(self.dialect.asserted & node.keys())}
        least = node.get("minItems")
        if self.dialect.most_min_items is not None and isinstance(least, int) and least > self.dialect.most_min_items:
            raise _Unfit(f"{at or '/'} asks for {least} items")
        if "pattern" in spelled and not is_simple(spelled["pattern"]):
            raise _Unfit(f"{at or '/'} has a pattern that strict modes do not read")
        if node.get("format") in self.dialect.formats:
            spelled["format"] = node["format"]
        choices = _choices(node, at)
        if choices is not None:
            spelled["enum"] = choices
        said = node.get("type")
        kinds: list[Json] = said if isinstance(said, list) else [said] if isinstance(said, str) else _types_of(choices)
        if not kinds:
            raise _Unfit(f"{at or '/'} does not say its type")
        spelled["type"] = kinds if len(kinds) > 1 else kinds[0]
        if "object" in kinds:
            spelled |= self._object(node, at)
        if "array" in kinds:
            if not isinstance(node.get("items"), dict):
                raise _Unfit(f"{at or '/'} does not say what its items are")
            spelled["items"] = self.spell(node["items"], f"{at}/items")
        return spelled

    def _object(self, node: JsonObject, at: str) -> JsonObject:
        properties, listed = members(node, "properties"), node.get("required")
        required = frozenset(map(str, listed)) if isinstance(listed, list) else frozenset[str]()
        if node.get("additionalProperties") is not False:
            raise _Unfit(f"{at or '/'} takes members that it does not name")
        if required - properties.keys():
            raise _Unfit(f"{at or '/'} requires {min(required - properties.keys())!r}, which it does not allow")
        spelled: JsonObject = {}
        for name, inner in properties.items():
            place = f"{at}/properties/{name}"
            whole = self.spell(inner, place)
            if self.dialect.all_required and name not in required and isinstance(inner, dict):
                whole = self._nullable(whole, inner, place)
            spelled[name] = whole
        kept = list(properties) if self.dialect.all_required else [name for name in properties if name in required]
        return {"properties": spelled, "required": [*kept], "additionalProperties": False}

    def _nullable(self, spelled: JsonObject, inner: JsonObject, at: str) -> JsonObject:
        """Let null stand for what is left out; where null has a meaning of its own, nobody could tell the two apart."""
        if self._accepts_null(inner):
            if "default" in inner and inner["default"] is None:
                return spelled
            raise _Unfit(f"{at} may be left out and may be null, and does not say that this is the same")
        notes: JsonObject = {key: spelled[key] for key in _NOTES if key in spelled}
        said = f"{notes.get('description', '')} Null leaves it out{_default_told(inner)}.".strip()
        bare = {key: value for key, value in spelled.items() if key not in _NOTES}
        branches = bare["anyOf"] if set(bare) == {"anyOf"} and isinstance(bare["anyOf"], list) else [bare]
        return {**notes, "description": said, "anyOf": [*branches, _NULL]}

    def _accepts_null(self, inner: JsonObject) -> bool:
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        try:
            return compile_schema({**definitions, **inner}).accepts(None)
        except RecordError as error:
            raise _Unfit("it refers to what is not there") from error

    def _union(self, branches: list[Json], at: str, *, is_exclusive: bool) -> list[Json]:
        spelled = [self.spell(branch, f"{at}/anyOf/{place}") for place, branch in enumerate(branches)]
        changed = self.dialect.all_required and any(needs_restoring(each, self.root) for each in branches)
        if not branches or ((is_exclusive or changed) and not are_apart(branches, self.root)):
            raise _Unfit(f"{at or '/'} is a union whose branches cannot be told apart")
        return [*spelled]

    def _reference(self, target: Json, at: str) -> JsonObject:
        if not isinstance(target, str) or target == "#" or not isinstance(definition(target, self.root), dict):
            raise _Unfit(f"{at or '/'} refers to something other than a definition")
        if comes_back(target, self.root):
            raise _Unfit(f"{at or '/'} refers to something that only refers to itself")
        if target in self.inside and not self.dialect.is_recursive:
            raise _Unfit(f"{at or '/'} refers to itself")
        if target not in self.used:
            self.used[target] = {}
            self.inside.append(target)
            self.used[target] = self.spell(definition(target, self.root), target)
            self.inside.pop()
        return {"$ref": target}


def _choices(node: JsonObject, at: str) -> list[Json] | None:
    """Give what a value can only be; nothing if it may be anything.

    Raises:
        _Unfit: strict modes do not take such choices.
    """
    choices = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(choices, list):
        return None
    if "const" in node and "enum" in node:
        raise _Unfit(f"{at or '/'} has both const and enum")
    if not choices or any(isinstance(each, dict | list) for each in choices):
        raise _Unfit(f"{at or '/'} lists no choices, or some that are no plain values")
    return choices


_TYPE_OF: dict[object, Json] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


def _types_of(choices: list[Json] | None) -> list[Json]:
    return [*dict.fromkeys(_TYPE_OF[type(each)] for each in choices or ())]


def _default_told(inner: JsonObject) -> str:
    default = inner.get("default")
    return f", which means {default!r}" if isinstance(default, str | int | float) else ""
