"""JSON pointers into the arguments of a call (RFC 6901), with `*` for every member of a list or an object."""

from agenttool.records import Json


def steps_of(pointer: str) -> tuple[str, ...]:
    """Split a pointer into its steps.

    Raises:
        ValueError: it is neither empty nor starts with a slash.
    """
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"a JSON pointer starts with '/', got {pointer!r}; write {'/' + pointer!r}")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def values_at(value: Json, steps: tuple[str, ...]) -> list[Json]:
    """Give every value that a pointer reaches; none where there is nothing.

    A member that is really called `*` is reached too, along with its neighbours: whoever must cover all of them covers
    too much, never too little.
    """
    reached = [value]
    for step in steps:
        reached = [inner for outer in reached for inner in _members(outer, step)]
    return reached


def _members(value: Json, step: str) -> list[Json]:
    if isinstance(value, dict):
        if step == "*":
            return list(value.values())
        return [value[step]] if step in value else []
    if isinstance(value, list):
        if step == "*":
            return value
        # `isdecimal` would let other scripts' digits through, which no JSON pointer has.
        is_index = step.isascii() and step.isdigit() and int(step) < len(value)
        return [value[int(step)]] if is_index else []
    return []


def flat(values: list[Json]) -> list[Json]:
    """Open lists up: a list of paths is each of its paths."""
    found: list[Json] = []
    for value in values:
        found += flat(value) if isinstance(value, list) else [value]
    return found


def texts_in(value: Json) -> list[str]:
    """Give every text that stands anywhere in a value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts_in(each)]


def places_in(value: Json) -> list[tuple[str, ...]]:
    """Give the steps to every member of an object, at any depth, that is a text or a list."""
    found: list[tuple[str, ...]] = []
    todo: list[tuple[Json, tuple[str, ...]]] = [(value, ())]
    while todo:
        outer, steps = todo.pop()
        inner = outer.items() if isinstance(outer, dict) else enumerate(outer) if isinstance(outer, list) else ()
        for name, each in inner:
            here = (*steps, str(name))
            if isinstance(outer, dict) and isinstance(each, str | list):
                found.append(here)
            todo.append((each, here))
    return found
