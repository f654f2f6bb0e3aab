"""Do the lists of a surface agree with one another (AT-SURF-06, G-37)."""

from collections.abc import Iterator

from agenttool.conformance.validate.finding import Flaw
from agenttool.conformance.validate.record import ForeignRecord
from agenttool.records import Json
from agenttool.schema.explain import pointer_of


def check_surface(record: ForeignRecord) -> Iterator[Flaw]:
    """Ask that `tool_refs` has every loaded and deferred tool, and no blocked or excluded one."""
    listed = record.members.get("tool_refs")
    if not isinstance(listed, list):
        return
    refs = {each for each in listed if isinstance(each, str)}
    for member in ("loaded_tools", "deferred_tools"):
        for index, tool_id in _tools(record.members.get(member)):
            if tool_id not in refs:
                yield _flaw((member, index), "the tool is not among tool_refs", "a tool that tool_refs lists")
    for member in ("blocked_tools", "excluded_tools"):
        for index, tool_id in _tools(record.members.get(member)):
            if tool_id in refs:
                yield _flaw((member, index), "the tool is among tool_refs too", "a tool that tool_refs does not list")


def _tools(entries: Json) -> Iterator[tuple[int, str]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        tool_id = entry.get("tool_id") if isinstance(entry, dict) else entry
        if isinstance(tool_id, str):
            yield index, tool_id


def _flaw(steps: tuple[str, int], message: str, expected: str) -> Flaw:
    return Flaw(
        message=message,
        expected=expected,
        advice="make tool_refs the loaded and the deferred tools, and no others",
        pointer=pointer_of(steps),
        requirement="AT-SURF-06",
    )
