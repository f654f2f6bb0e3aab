"""Defaults inside nested objects, so that rules, approvers and records see the values that a tool will use."""

from agenttool.codec import clone
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import Checker
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import members, objects_in

_DEFINITION = "#/$defs/"


class DefaultTree:
    """The defaults of one object, and the trees of the objects inside it. A recursive schema has a cyclic tree."""

    __slots__ = ("defaults", "items", "members", "values")

    def __init__(self) -> None:
        self.defaults: JsonObject = {}
        self.members: dict[str, DefaultTree] = {}
        self.items: DefaultTree | None = None
        self.values: DefaultTree | None = None

    def fill(self, value: Json, filled: list[str], path: tuple[str | int, ...] = ()) -> Json:
        """Return a value with the defaults that it leaves out, and add their pointers to `filled`."""
        if isinstance(value, list) and self.items is not None:
            return [self.items.fill(each, filled, (*path, place)) for place, each in enumerate(value)]
        if not isinstance(value, dict):
            return value
        found: JsonObject = {}
        for name, inner in value.items():
            tree = self.members.get(name, self.values)
            found[name] = inner if tree is None else tree.fill(inner, filled, (*path, name))
        missing = {name: clone(each) for name, each in self.defaults.items() if name not in value}
        filled += [pointer_of((*path, name)) for name in missing]
        return found | missing


def compile_defaults(schema: JsonObject) -> DefaultTree | None:
    """Compile the defaults below the members of a schema; none if there are none.

    A default counts if it fits its own schema, and is neither null nor the placeholder of a write-only value. Null
    says no more than a missing member, and tools distinguish the two. Alternatives other than null are ambiguous.
    """
    compiler = _Compiler(schema)
    tree = compiler.tree(schema)
    return tree if compiler.count else None


class _Compiler:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._targets: dict[str, DefaultTree | None] = {}
        self.count = 0
        """The number of defaults below the members of the root."""

    def tree(self, schema: Json) -> DefaultTree | None:
        """Return the tree of a schema; none if it describes neither an object nor a list."""
        if not isinstance(schema, dict):
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._target(reference)
        choices = [each for each in objects_in(schema.get("anyOf")) if each.get("type") != "null"]
        if len(choices) == 1:
            return self.tree(choices[0])
        tree = DefaultTree()
        self._read(schema, tree)
        return tree if tree.defaults or tree.members or tree.items or tree.values else None

    def _target(self, reference: str) -> DefaultTree | None:
        if reference not in self._targets:
            definition = members(self._root, "$defs").get(reference.removeprefix(_DEFINITION))
            tree = self._targets[reference] = DefaultTree()
            if isinstance(definition, dict):
                self._read(definition, tree)
        return self._targets[reference]

    def _read(self, schema: JsonObject, tree: DefaultTree) -> None:
        for name, inner in members(schema, "properties").items():
            default = None if schema is self._root else self._usable_default(inner)
            if default is not None:
                tree.defaults[name] = default
                self.count += 1
            found = self.tree(inner)
            if found is not None:
                tree.members[name] = found
        tree.items = self.tree(schema.get("items"))
        tree.values = self.tree(schema.get("additionalProperties"))

    def _usable_default(self, schema: Json) -> Json:
        if not isinstance(schema, dict) or schema.get("default") is None or schema.get("writeOnly") is True:
            return None
        is_valid = Checker({"$defs": members(self._root, "$defs"), **schema}).accepts(schema["default"])
        return schema["default"] if is_valid else None
