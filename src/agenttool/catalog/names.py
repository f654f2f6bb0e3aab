"""The names of all declared tools, by number. All snapshots of a catalog share one table."""

from collections.abc import Iterator, Sequence
from fnmatch import translate
from re import compile as compile_pattern

from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence
from agenttool.records import AbsentTool, ToolId, replace

MAX_CACHED, MAX_CACHED_RECORDS = 64, 2_000_000
"""How many reasons and pattern lists are cached, and for how many tools. A record takes 80 bytes."""

INCLUDED = b"\xff"
"""The byte of an included tool in a mask; an excluded tool has zero."""

_WILDCARD = compile_pattern(r"[*?]")


class NameTable:
    """The names of all tools that were ever declared.

    New tools are appended, so that an older snapshot can share the table and ignore later numbers. Before a tool is
    renamed, the table is copied.

    Attributes:
        qualified: the qualified name of each tool, by number.
        numbers: the number of each tool, by id.
        owners: the number of the tool with each qualified name.
        by_name: the numbers of the tools that share each bare name.
        aliases: the numbers of the tools that share each alias.
        namespaces: the numbers of the tools of each namespace.
    """

    def __init__(self) -> None:
        self.ids: list[ToolId] = []
        self.qualified: list[str] = []
        self.numbers: dict[ToolId, int] = {}
        self.owners: dict[str, int] = {}
        self.by_name: dict[str, list[int]] = {}
        self.aliases: dict[str, list[int]] = {}
        self.namespaces: dict[str, list[int]] = {}
        self._matching: dict[tuple[str, ...], bytearray] = {}
        self._absent: dict[Absence, list[AbsentTool | None]] = {}

    def add(self, entry: Entry) -> int:
        """Add a tool under the next number, and return that number."""
        number, tool_id = len(self.ids), entry.tool_id
        self.ids.append(tool_id)
        self.qualified.append(entry.qualified_name)
        self.numbers[tool_id] = number
        self.owners[entry.qualified_name] = number
        for numbers, name in self._shared_names(entry):
            numbers.setdefault(name, []).append(number)
        return number

    def copy(self) -> "NameTable":
        """Return a copy in which a tool can be renamed; ids and numbers never change and stay shared."""
        table = NameTable()
        table.ids, table.numbers = self.ids, self.numbers
        table.qualified, table.owners = self.qualified.copy(), self.owners.copy()
        table.by_name, table.aliases = self.by_name.copy(), self.aliases.copy()
        table.namespaces = self.namespaces.copy()
        return table

    def rename(self, before: Entry, after: Entry) -> None:
        """Rename a tool; lists of numbers are replaced, since a copy may share the old ones."""
        number = self.numbers[after.tool_id]
        del self.owners[before.qualified_name]
        for numbers, name in self._shared_names(before):
            numbers[name] = [each for each in numbers[name] if each != number]
        self.qualified[number] = after.qualified_name
        self.owners[after.qualified_name] = number
        for numbers, name in self._shared_names(after):
            numbers[name] = sorted([*numbers.get(name, ()), number])
        self._matching.clear()
        self._absent.clear()

    def _shared_names(self, entry: Entry) -> Iterator[tuple[dict[str, list[int]], str]]:
        """Yield the names that a tool may share with others, each with the table that lists them."""
        declaration = entry.tool.declaration
        yield self.by_name, entry.name
        yield self.namespaces, declaration.namespace
        for alias in dict.fromkeys(declaration.aliases or ()):
            yield self.aliases, alias

    def matching(self, patterns: tuple[str, ...], size: int) -> bytes:
        """Return a mask of the first `size` tools whose qualified names match a pattern."""
        if not patterns or "*" in patterns:
            return (INCLUDED if patterns else b"\0") * size
        if patterns not in self._matching and len(self._matching) >= MAX_CACHED:
            self._matching.clear()
        known = self._matching.setdefault(patterns, bytearray())
        if len(known) < size:
            begin = len(known)
            known.extend(bytes(len(self.qualified) - begin))
            for pattern in patterns:
                for number in self._matching_from(begin, pattern):
                    known[number] = INCLUDED[0]
        return bytes(known[:size])

    def _matching_from(self, begin: int, pattern: str) -> Iterator[int]:
        """Yield the tools from a number on that match a pattern; most names lack its longest literal text."""
        longest = max(_WILDCARD.split(pattern.partition("[")[0]), key=len)
        matches, names = compile_pattern(translate(pattern)).match, self.qualified
        yield from (each for each in range(begin, len(names)) if longest in names[each] and matches(names[each]))

    def absent(self, absence: Absence, numbers: Sequence[int]) -> list[AbsentTool]:
        """Return the records of tools that are absent for one reason; records are cached."""
        if absence not in self._absent and len(self._absent) >= min(
            MAX_CACHED, MAX_CACHED_RECORDS // (len(self.ids) + 1)
        ):
            self._absent.clear()  # a large catalog caches fewer reasons
        cached = self._absent.setdefault(absence, [])
        cached.extend([None] * (len(self.ids) - len(cached)))
        template = AbsentTool(
            reason=absence.reason,
            message=absence.message,
            policy_refs=absence.policy_refs,
            may_change=absence.change is not None,
            would_change=absence.change,
        )
        ids, names = self.ids, self.qualified
        for each in numbers:
            if cached[each] is None:
                cached[each] = replace(template, tool_id=ids[each], name=names[each])
        return [record for each in numbers if (record := cached[each])]
