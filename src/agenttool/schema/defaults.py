"""Defaults inside nested objects, so that rules, approvers and records see the values that a tool will use."""

from operator import is_

from agenttool.codec import clone
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import choices_but_null, definition_at, members


class DefaultTree:
    """The defaults of one object, and the trees of the objects inside it. A recursive schema has a cyclic tree."""

    __slots__ = ("defaults", "items", "members", "values")

    def __init__(self) -> None:
        self.defaults: JsonObject = {}
        self.members: dict[str, DefaultTree] = {}
        self.items: DefaultTree | None = None
        self.values: DefaultTree | None = None

    def fill(self, value: Json, filled: list[str], path: str = "") -> Json:
        """Return a value with the defaults that it leaves out, and add their pointers to `filled`.

        It is the same value if no default is missing; parts without a missing default are shared.
        """
        if isinstance(value, list):
            if self.items is None or all(map(self.items.is_complete_leaf, value)):
                return value
            items = [self.items.fill(each, filled, f"{path}/{place}") for place, each in enumerate(value)]
            return value if all(map(is_, items, value)) else items
        if not isinstance(value, dict):
            return value
        found = value
        for name in self.members if self.values is None else value:
            tree, inner = self.members.get(name, self.values), value.get(name)
            if tree is not None and isinstance(inner, dict | list):
                new = tree.fill(inner, filled, path + pointer_of((name,)))
                if new is not inner:
                    found = {**value} if found is value else found
                    found[name] = new
        if self.defaults.keys() <= value.keys():
            return found
        found = {**found}
        for name, default in self.defaults.items():
            if name not in value:
                found[name] = clone(default)
                filled.append(path + pointer_of((name,)))
        return found

    def inner(self) -> "set[DefaultTree | None]":
        """Return the trees inside this one."""
        return {*self.members.values(), self.items, self.values}

    def prune(self, filling: "set[DefaultTree | None]") -> None:
        """Remove the trees inside this one that fill in nothing; members that `values` must not fill remain."""
        self.items = self.items if self.items in filling else None
        self.values = self.values if self.values in filling else None
        if self.values is None:
            self.members = {name: tree for name, tree in self.members.items() if tree in filling}

    def is_complete_leaf(self, value: Json) -> bool:
        """Return whether a value is an object that leaves out no default, and no part of it can."""
        return type(value) is dict and not self.members and self.values is None and self.defaults.keys() <= value.keys()


def compile_defaults(root: JsonObject) -> DefaultTree | None:
    """Compile the defaults below the members of a schema; none if there are none.

    A default counts if it fits its own schema, and is neither null nor the placeholder of a write-only value. Null
    says no more than a missing member, and tools distinguish the two. Alternatives other than null are ambiguous.
    """
    definitions = members(root, "$defs")
    targets: dict[str, DefaultTree] = {}
    trees: list[DefaultTree] = []

    def tree_of(schema: Json) -> DefaultTree | None:
        """Return the tree of a schema; none if it describes neither an object nor a list."""
        if not isinstance(schema, dict):
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference not in targets:
                targets[reference] = DefaultTree()
                read(definition_at(reference, definitions), targets[reference])
            return targets[reference]
        choices = choices_but_null(schema)
        if len(choices) == 1:
            return tree_of(choices[0])
        tree = DefaultTree()
        read(schema, tree)
        return tree if tree.defaults or tree.members or tree.items or tree.values else None

    def read(schema: JsonObject, tree: DefaultTree) -> None:
        trees.append(tree)
        for name, inner in members(schema, "properties").items():
            default = None if schema is root else _usable_default(inner, definitions)
            if default is not None:
                tree.defaults[name] = default
            found = tree_of(inner)
            if found is not None:
                tree.members[name] = found
        tree.items = tree_of(schema.get("items"))
        tree.values = tree_of(schema.get("additionalProperties"))

    found = tree_of(root)
    _prune(trees)
    return found if found in trees else None


def _prune(trees: list[DefaultTree]) -> None:
    """Remove the trees that fill in nothing, from the list and from the trees around them."""
    filling: set[DefaultTree | None] = set()
    while more := {each for each in trees if each not in filling and (each.defaults or filling & each.inner())}:
        filling |= more
    trees[:] = [each for each in trees if each in filling]
    for each in trees:
        each.prune(filling)


def _usable_default(schema: Json, definitions: JsonObject) -> Json:
    if not isinstance(schema, dict) or schema.get("default") is None or schema.get("writeOnly") is True:
        return None
    is_valid = Checker({"$defs": definitions, **schema}).accepts(schema["default"])
    return schema["default"] if is_valid else None
