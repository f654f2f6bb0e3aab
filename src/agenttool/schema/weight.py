"""Whether using a schema can take for ever: two references to something with two references, forty times over."""

from agenttool.codec import sorted_json
from agenttool.records import Json, JsonObject

MOST = 20_000
"""How many subschemas may have to be looked at for one value, references followed."""

_DEEPEST = 150


def is_costly(schema: JsonObject) -> bool:
    """Tell whether following all references of a schema leads through more subschemas than a validator should see."""
    spelling = sorted_json(schema)
    if b"$ref" not in spelling and spelling.count(b"{") + spelling.count(b"[") < _DEEPEST:
        return False  # it has no references, and no more subschemas than brackets
    return _Weights(schema).of(schema, 0) > MOST


class _Weights:
    """Counts each target of a reference once, however many references lead to it."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._targets: dict[str, int] = {}

    def of(self, value: Json, depth: int) -> int:
        """Count the subschemas below a value; one that comes back to itself is not entered twice."""
        if depth > _DEEPEST:
            return MOST + 1
        weight = 0
        if isinstance(value, list):
            weight = sum(self.of(each, depth + 1) for each in value)
        elif isinstance(value, dict):
            weight = 1 + sum(self.of(each, depth + 1) for name, each in value.items() if name != "$defs")
            reference = value.get("$ref")
            if isinstance(reference, str):
                weight += self._of_target(reference, depth + 1)
        return min(weight, MOST + 1)

    def _of_target(self, reference: str, depth: int) -> int:
        if reference not in self._targets:
            self._targets[reference] = 0
            self._targets[reference] = self.of(self._found(reference), depth)
        return self._targets[reference]

    def _found(self, reference: str) -> Json:
        """Follow a pointer; an anchor or an address is not followed, and counts as nothing."""
        value: Json = self._root
        if not reference.startswith("#/"):
            return value if reference == "#" else None
        for step in reference.removeprefix("#/").replace("~1", "\0").split("/"):
            name = step.replace("\0", "/").replace("~0", "~")
            value = value.get(name) if isinstance(value, dict) else None
        return value
