"""What is where in a text that is too long to show: shapes, columns, files, and lines worth a look."""

import csv
from collections.abc import Iterator

from agenttool.records import Json
from agenttool.results.excerpt import count_lines
from agenttool.results.plain import encode
from agenttool.results.wording import shorten

_MAX_KEYS = 20
_MAX_SHAPE_DEPTH = 3
_LONG_STRING = 80
_SAMPLE = 20
_MAX_KINDS = 3
_LOOKED_THROUGH = 2_000_000
_TROUBLES = ("error", "exception", "fatal", "panic", "failed", "traceback")
_MAX_TROUBLES = 8
_HUNK = "@@"
_OPENINGS = ("diff --git ", "Index: ")
_BARE = "--- "


def shape_of(value: Json, depth: int = _MAX_SHAPE_DEPTH) -> str:
    """Say what a JSON value is made of: names, types, lengths."""
    if isinstance(value, dict):
        return _shape_of_object(value, depth)
    if isinstance(value, list):
        return _shape_of_list(value, depth)
    if isinstance(value, str) and len(value) > _LONG_STRING:
        return f"string of {len(value)} characters"
    return _SCALARS[type(value)]


_SCALARS: dict[type, str] = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}


def _shape_of_list(items: list[Json], depth: int) -> str:
    if not items:
        return "empty array"
    sample = items[:_SAMPLE]
    objects = [each for each in sample if isinstance(each, dict)]
    if len(objects) == len(sample):
        merged = {key: item for each in reversed(objects) for key, item in each.items()}
        kinds = [_shape_of_object(merged, depth - 1)]
    else:
        kinds = list(dict.fromkeys(shape_of(each, depth - 1) for each in sample))
    told = kinds if len(kinds) <= _MAX_KINDS else [*kinds[:_MAX_KINDS], "…"]
    return f"array of {len(items)}, each {' or '.join(told)}"


def _shape_of_object(members: dict[str, Json], depth: int) -> str:
    if depth <= 0 or not members:
        return f"object with {len(members)} members"
    keys = list(members)[:_MAX_KEYS]
    shown = [f"{shorten(encode(key).decode(), 60)}: {shape_of(members[key], depth - 1)}" for key in keys]
    more = [f"… {len(members) - len(keys)} more"] if len(members) > len(keys) else []
    return "{" + ", ".join([*shown, *more]) + "}"


def abbreviated(value: Json, room: int) -> str:
    """Write a JSON value whole if there is room for it, and as its shape if there is not."""
    written = encode(value).decode()
    return written if len(written) <= room else shorten(shape_of(value), room)


def outline_members(value: Json, room: int) -> str:
    """Show the members or items of a JSON value by their JSON pointers, as many as fit; arrays end with their last."""
    if not isinstance(value, dict | list) or not value:
        return abbreviated(value, room)
    each_room = max(room // min(len(value), 8), 60)
    steps: list[tuple[str, Json]] = (
        list(value.items()) if isinstance(value, dict) else [(str(at), item) for at, item in enumerate(value)]
    )
    last = _pointed(*steps[-1], each_room) if isinstance(value, list) and len(steps) > 1 else ""
    shown: list[str] = []
    left = room - len(last) - 40
    for step, item in steps[: len(steps) - bool(last)]:
        line = _pointed(step, item, each_room)
        left -= len(line) + 1
        if left < 0:
            break
        shown.append(line)
    missing = len(steps) - len(shown) - bool(last)
    gap = [f"… {missing} more …"] if missing else []
    return "\n".join([*shown, *gap, *([last] if last else [])])[:room]


def _pointed(step: str, item: Json, room: int) -> str:
    pointer = shorten("/" + step.replace("~", "~0").replace("/", "~1"), 60)
    return f"{pointer}: {abbreviated(item, max(room - len(pointer) - 2, 20))}"


def outline_table(text: str, delimiter: str) -> str:
    """Name the columns of a table and count its rows."""
    first_line = text[:4000].partition("\n")[0].replace("\r", "")
    header = next(csv.reader([first_line], delimiter=delimiter), [""])
    columns = ", ".join(shorten(each.strip(), 40) for each in header)
    return f"{max(count_lines(text) - 1, 0)} rows of {len(header)} columns: {columns}"


def outline_diff(text: str) -> str:
    """List the files of a diff: where each begins, how many hunks, how many lines come and go."""
    return "\n".join(
        f"line {start}: {shorten(name, 120)} ({hunks} hunks, +{added} -{removed})"
        for start, name, hunks, added, removed in _files_of(text)
    )


def _files_of(text: str) -> Iterator[tuple[int, str, int, int, int]]:
    start, name, hunks, added, removed = 1, "", 0, 0, 0
    opening = next((each for each in _OPENINGS if text.startswith(each)), _BARE)
    for number, line in enumerate(text[:_LOOKED_THROUGH].split("\n"), 1):
        if line.startswith(opening) and (name == "" or hunks or opening != _BARE):
            if name:
                yield start, name, hunks, added, removed
            start, name, hunks, added, removed = number, line.split(" b/")[-1], 0, 0, 0
        elif line.startswith("+++ "):
            name = line[4:].removeprefix("b/").partition("\t")[0]
        elif line.startswith(_HUNK):
            hunks += 1
        elif hunks:
            added += line.startswith("+")
            removed += line.startswith("-")
    if name:
        yield start, name, hunks, added, removed


def outline_troubles(text: str) -> str:
    """Point at the first lines that speak of errors; nothing if none does."""
    lowered = text[:_LOOKED_THROUGH].lower()
    found = sorted({line for word in _TROUBLES for line in _first_lines_with(word, lowered)})
    more = ", …" if len(found) > _MAX_TROUBLES else ""
    return f"lines that speak of errors: {', '.join(map(str, found[:_MAX_TROUBLES]))}{more}" if found else ""


def _first_lines_with(word: str, text: str) -> Iterator[int]:
    line, at = 1, 0
    for _ in range(_MAX_TROUBLES + 1):
        hit = text.find(word, at)
        if hit < 0:
            return
        line, at = line + text.count("\n", at, hit), text.find("\n", hit)
        yield line
        if at < 0:
            return
