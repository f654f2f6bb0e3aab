"""What a replacement changed, member by member."""

from agenttool.records import Json, JsonObject
from agenttool.schema.explain import pointer_of


def changed_fields(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    """List the JSON pointers whose values differ, the deepest that say it; both sides count."""
    return tuple(_differences(before, after, ()))


def _differences(before: Json, after: Json, path: tuple[str, ...]) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[str] = []
        for name in sorted(before.keys() | after.keys()):
            if name in before and name in after:
                found += _differences(before[name], after[name], (*path, name))
            else:
                found.append(pointer_of((*path, name)))
        return found
    return [] if _same(before, after) else [pointer_of(path)]


def _same(before: Json, after: Json) -> bool:
    """Compare as JSON does: true is not 1, while 1 and 1.0 are one number."""
    return before == after and isinstance(before, bool) == isinstance(after, bool)
