"""Tool schemas for strict modes, equivalent to the original schema, or the reason why there is none.

In strict mode a provider lets a model write only input that fits, and supports a subset of JSON Schema. A schema is
rewritten in that subset without dropping a constraint or closing an open object. Where every property must be required,
null stands for an optional one, and `remove_placeholder_nulls` removes it from the model's input again.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from agenttool.adapters.function_calling.schema_analysis import (
    SHAPE_KEYWORDS,
    are_disjoint,
    constraints_in,
    definition,
    is_infinite_definition,
    is_portable_pattern,
    json_type_of,
    listed_values,
    matches_branch,
    required_members,
    resolve,
    resolve_root,
    union_branches,
)
from agenttool.codec import json_bytes
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import compile_schema
from agenttool.schema.drafts import upgrade_schema
from agenttool.schema.traverse import members, steps_of, subschemas

_FORMATS = frozenset(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])
_ANNOTATIONS = ("title", "description")
_NULL: JsonObject = {"type": "null"}
_NAMED_BY = ("properties", "$defs", "definitions")
_MANY_CHOICES = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictDialect:
    """The subset of JSON Schema that a provider's strict mode documents.

    Attributes:
        constraints: supported keywords besides those of the shape.
        formats: supported values of `format`.
        all_required: every property must be required, so that an optional one is sent as null.
        is_recursive: a schema may refer to itself.
        max_min_items: the highest supported `minItems`; None for any.
    """

    constraints: frozenset[str]
    formats: frozenset[str]
    all_required: bool
    is_recursive: bool
    max_min_items: int | None = None


OPENAI = StrictDialect(
    constraints=frozenset(
        ["pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"]
    ),
    formats=_FORMATS,
    all_required=True,
    is_recursive=True,
)

ANTHROPIC = StrictDialect(
    constraints=frozenset({"minItems"}),
    formats=_FORMATS | {"uri"},
    all_required=False,
    is_recursive=False,
    max_min_items=1,
)


class NotStrictError(Exception):
    """A schema has no strict form; the text is the reason."""


@dataclass(slots=True)
class StrictBudget:
    """What one request has left of a provider's limits on all its strict schemas together; None for no limit."""

    tools: int | None = None
    optionals: int | None = None
    unions: int | None = None
    size: int | None = None

    def take(self, schema: JsonObject) -> bool:
        """Subtract the cost of a strict schema, unless a limit would be exceeded; return whether it was subtracted."""
        parts = list(subschemas(schema))
        optionals = sum(len(_optional_members(each)) for each in parts)
        unions = sum("anyOf" in each or isinstance(each.get("type"), list) for each in parts)
        limits, size = (self.tools, self.optionals, self.unions, self.size), len(json_bytes(schema))
        costs = zip(limits, (1, optionals, unions, size), strict=True)
        left = [None if limit is None else limit - cost for limit, cost in costs]
        if any(each is not None and each < 0 for each in left):
            return False
        self.tools, self.optionals, self.unions, self.size = left
        return True


def strict_schema(schema: JsonObject, dialect: StrictDialect) -> JsonObject:
    """Return an equivalent schema for a strict mode.

    Raises:
        NotStrictError: there is none.
    """
    strict = _StrictRewriter(upgrade_schema(schema), dialect).rewrite_root()
    exceeded = exceeded_limit(strict)
    if exceeded is not None:
        raise NotStrictError(exceeded)
    return strict


def exceeded_limit(schema: JsonObject) -> str | None:
    """Return which size limit of strict modes a schema exceeds, as far as providers document them; None if none."""
    parts = list(subschemas(schema))
    properties = sum(len(members(each, "properties")) for each in parts)
    choices = [listed for each in parts if isinstance(listed := each.get("enum"), list)]
    names = [name for each in parts for keyword in _NAMED_BY for name in members(each, keyword)]
    longest = max((_length(each) for each in choices if len(each) > _MANY_CHOICES), default=0)
    counts = (
        (properties, 5000, "it has more than {} properties"),
        (sum(map(len, choices)), 1000, "it has more than {} choices"),
        (_length(names) + sum(map(_length, choices)), 120_000, "its names and choices are longer than {}"),
        (longest, 15_000, f"{_MANY_CHOICES} choices and more are longer than {{}}"),
        (_depth(schema), 10, "it is nested more than {} levels deep"),
    )
    return next((message.format(limit) for count, limit, message in counts if count > limit), None)


def remove_placeholder_nulls(value: Json, schema: Json, root: JsonObject) -> Json:
    """Remove the nulls that stand for absent optional members; return the same object if there are none."""
    node = resolve(schema, root)
    branches = union_branches(node)
    if branches:
        branch = next((each for each in branches if matches_branch(value, each, root)), None)
        return value if branch is None else remove_placeholder_nulls(value, branch, root)
    if isinstance(value, dict):
        optional, properties = _optional_members(node), members(node, "properties")
        present = {name: inner for name, inner in value.items() if inner is not None or name not in optional}
        whole = {name: remove_placeholder_nulls(inner, properties.get(name), root) for name, inner in present.items()}
        is_same = len(whole) == len(value) and all(whole[name] is value[name] for name in whole)
        return value if is_same else whole
    if isinstance(value, list):
        items = [remove_placeholder_nulls(each, node.get("items"), root) for each in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


@dataclass(slots=True)
class _StrictRewriter:
    """Rewrites one schema and the definitions that it uses."""

    root: JsonObject
    dialect: StrictDialect
    used: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    inside: list[str] = field(default_factory=list[str])

    def rewrite_root(self) -> JsonObject:
        """Rewrite the whole schema. Its type is `object`, because arguments always are an object.

        Raises:
            NotStrictError: it has no strict form.
        """
        node = {**resolve_root(self.root), "type": "object"}
        if union_branches(node) or "allOf" in node or "$ref" in node:
            raise NotStrictError("a union or a combination stands at its root")
        strict = self.rewrite({key: value for key, value in node.items() if key not in ("$defs", "definitions")}, "")
        definitions: dict[str, JsonObject] = {}
        for reference, each in self.used.items():
            keyword, name = steps_of(reference)
            definitions.setdefault(keyword, {})[name] = each
        return {**strict, **definitions}

    def rewrite(self, node: Json, at: str) -> JsonObject:
        """Rewrite the schema at a JSON Pointer.

        Raises:
            NotStrictError: it has no strict form.
        """
        if not isinstance(node, dict):
            raise NotStrictError(f"{at or '/'} accepts any value, or none")
        annotations: JsonObject = {key: node[key] for key in _ANNOTATIONS if isinstance(node.get(key), str)}
        constraints = constraints_in(node)
        if constraints == {"$ref"}:
            reference = self._reference(node["$ref"], at)
            return {**annotations, "anyOf": [reference]} if annotations else reference
        if constraints == {"allOf"} and isinstance(node["allOf"], list) and len(node["allOf"]) == 1:
            return {**self.rewrite(node["allOf"][0], at), **annotations}
        if constraints in ({"anyOf"}, {"oneOf"}):
            return {**annotations, "anyOf": self._union(union_branches(node), at, is_exclusive="oneOf" in node)}
        unsupported = constraints.difference(SHAPE_KEYWORDS, self.dialect.constraints)
        if unsupported:
            raise NotStrictError(f"{at or '/'} uses {min(unsupported)}")
        return {**annotations, **self._simple(node, at)}

    def _simple(self, node: JsonObject, at: str) -> JsonObject:
        strict: JsonObject = {key: node[key] for key in sorted(self.dialect.constraints & node.keys())}
        least = node.get("minItems")
        if self.dialect.max_min_items is not None and isinstance(least, int) and least > self.dialect.max_min_items:
            raise NotStrictError(f"{at or '/'} requires {least} items")
        if "pattern" in strict and not is_portable_pattern(strict["pattern"]):
            raise NotStrictError(f"{at or '/'} has a pattern that strict modes do not read")
        if node.get("format") in self.dialect.formats:
            strict["format"] = node["format"]
        choices = _choices(node, at)
        if choices is not None:
            strict["enum"] = choices
        declared = node.get("type")
        types: list[Json] = declared if isinstance(declared, list) else [declared]
        if not isinstance(declared, str | list):
            types = [*dict.fromkeys("integer" if type(each) is int else json_type_of(each) for each in choices or ())]
        if not types:
            raise NotStrictError(f"{at or '/'} has no type")
        strict["type"] = types if len(types) > 1 else types[0]
        if "object" in types:
            strict |= self._object(node, at)
        if "array" in types:
            items = node.get("items")
            if not isinstance(items, dict):
                raise NotStrictError(f"{at or '/'} has no schema for its items")
            strict["items"] = self.rewrite(items, f"{at}/items")
        return strict

    def _object(self, node: JsonObject, at: str) -> JsonObject:
        properties, required = members(node, "properties"), required_members(node)
        if node.get("additionalProperties") is not False:
            raise NotStrictError(f"{at or '/'} accepts members that it does not name")
        for undefined in sorted(required - properties.keys()):
            raise NotStrictError(f"{at or '/'} requires {undefined!r}, which it does not allow")
        strict: JsonObject = {}
        for name, inner in properties.items():
            place = f"{at}/properties/{name}"
            whole = self.rewrite(inner, place)
            if self.dialect.all_required and name not in required and isinstance(inner, dict):
                whole = self._nullable(whole, inner, place)
            strict[name] = whole
        named: list[Json] = [each for each in properties if self.dialect.all_required or each in required]
        return {"properties": strict, "required": named, "additionalProperties": False}

    def _nullable(self, strict: JsonObject, inner: JsonObject, at: str) -> JsonObject:
        """Allow null for an absent member; impossible where null has a meaning of its own."""
        if self._accepts_null(inner):
            if "default" in inner and inner["default"] is None:
                return strict
            raise NotStrictError(f"{at} may be absent and may be null, and null is not its default")
        annotations: JsonObject = {key: strict[key] for key in _ANNOTATIONS if key in strict}
        default = inner.get("default")
        meaning = f", which means {default!r}" if isinstance(default, str | int | float) else ""
        description = f"{annotations.get('description', '')} Null leaves it out{meaning}.".strip()
        bare = {key: value for key, value in strict.items() if key not in _ANNOTATIONS}
        branches = bare["anyOf"] if set(bare) == {"anyOf"} and isinstance(bare["anyOf"], list) else [bare]
        return {**annotations, "description": description, "anyOf": [*branches, _NULL]}

    def _accepts_null(self, inner: JsonObject) -> bool:
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        try:
            return compile_schema({**definitions, **inner}).accepts(None)
        except RecordError as error:
            raise NotStrictError("it has a reference to a missing definition") from error

    def _union(self, branches: list[Json], at: str, *, is_exclusive: bool) -> list[Json]:
        strict = [self.rewrite(branch, f"{at}/anyOf/{place}") for place, branch in enumerate(branches)]
        has_nulls = self.dialect.all_required and any(_has_optional_members(each, self.root) for each in branches)
        if not branches or ((is_exclusive or has_nulls) and not are_disjoint(branches, self.root)):
            raise NotStrictError(f"{at or '/'} is a union whose branches overlap")
        return [*strict]

    def _reference(self, target: Json, at: str) -> JsonObject:
        if not isinstance(target, str) or target == "#" or not isinstance(definition(target, self.root), dict):
            raise NotStrictError(f"{at or '/'} refers to something other than a definition")
        if is_infinite_definition(target, self.root):
            raise NotStrictError(f"{at or '/'} refers to something that only refers to itself")
        if target in self.inside and not self.dialect.is_recursive:
            raise NotStrictError(f"{at or '/'} refers to itself")
        if target not in self.used:
            self.used[target] = {}
            self.inside.append(target)
            self.used[target] = self.rewrite(definition(target, self.root), target)
            self.inside.pop()
        return {"$ref": target}


def _choices(node: JsonObject, at: str) -> list[Json] | None:
    """Return the listed values of a schema; None if it lists none.

    Raises:
        NotStrictError: strict modes do not take such values.
    """
    choices = listed_values(node)
    if choices is None:
        return None
    if "const" in node and "enum" in node:
        raise NotStrictError(f"{at or '/'} has both const and enum")
    if not choices or any(isinstance(each, dict | list) for each in choices):
        raise NotStrictError(f"{at or '/'} has an empty list of choices, or one with objects or arrays")
    return choices


def _optional_members(node: JsonObject) -> AbstractSet[str]:
    return members(node, "properties").keys() - required_members(node)


def _has_optional_members(schema: Json, root: JsonObject, seen: set[int] | None = None) -> bool:
    """Return whether any object in a schema has an optional member."""
    node, seen = resolve(schema, root), set[int]() if seen is None else seen
    if id(node) in seen:
        return False
    seen.add(id(node))
    if _optional_members(node):
        return True
    inner = [*members(node, "properties").values(), node.get("items"), *union_branches(node)]
    return any(_has_optional_members(each, root, seen) for each in inner if isinstance(each, dict))


def _length(texts: Iterable[Json]) -> int:
    return sum(len(each) for each in texts if isinstance(each, str))


def _depth(node: Json) -> int:
    """Return how deep objects are nested."""
    if isinstance(node, list):
        return max(map(_depth, node), default=0)
    if not isinstance(node, dict):
        return 0
    return max(map(_depth, node.values()), default=0) + (1 if "additionalProperties" in node else 0)
