"""Who is called what, by numbers; kept once for all rosters, since nearly nothing of it ever changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from re import compile as compile_pattern

from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence
from agenttool.records import AbsentTool, ToolId, replace

MOST, MOST_TOLD = 64, 2_000_000
"""How many reasons and lists of patterns are remembered, and of how many tools; a record takes 80 bytes."""

ALL = b"\xff"
"""What stands for a tool in a mask that lets it through; a zero holds it back."""

_ANY = compile_pattern(r"[*?]")


@dataclass(slots=True, eq=False)
class Names:
    """The names of all tools that were ever declared. It mostly grows: whoever shares it looks at its own tools only.

    Before a tool takes another name or alias, whoever shares it is left with the book as it was.

    Attributes:
        qualified: the name that no other tool has, by number.
        numbers: where a tool stands, by its id.
        owners: the tool of each qualified name.
        bearers: the tools that share each bare name.
        aliases: the tools that share each alias.
        namespaces: the tools of each namespace.
    """

    ids: list[ToolId] = field(default_factory=list[ToolId])
    qualified: list[str] = field(default_factory=list[str])
    numbers: dict[ToolId, int] = field(default_factory=dict[ToolId, int])
    owners: dict[str, int] = field(default_factory=dict[str, int])
    bearers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    aliases: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    namespaces: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    _fitting: dict[tuple[str, ...], bytearray] = field(default_factory=dict[tuple[str, ...], bytearray])
    _absent: dict[Absence, list[AbsentTool | None]] = field(default_factory=dict[Absence, list[AbsentTool | None]])

    def add(self, entry: Entry) -> None:
        """Take in a tool under the next number."""
        number, tool_id = len(self.ids), entry.tool_id
        self.ids.append(tool_id)
        self.qualified.append(entry.qualified_name)
        self.numbers[tool_id] = number
        self.owners[entry.qualified_name] = number
        for named, name in self._shared(entry):
            named.setdefault(name, []).append(number)

    def copy(self) -> "Names":
        """Give the same once more, to rename something in it; ids and numbers stay as they are for ever."""
        return Names(
            ids=self.ids,
            qualified=self.qualified.copy(),
            numbers=self.numbers,
            owners=self.owners.copy(),
            bearers=self.bearers.copy(),
            aliases=self.aliases.copy(),
            namespaces=self.namespaces.copy(),
        )

    def rename(self, before: Entry, after: Entry) -> None:
        """Give a tool other names; who shares them is listed anew, for a copy may hold the list that there was."""
        number = self.numbers[after.tool_id]
        del self.owners[before.qualified_name]
        for named, name in self._shared(before):
            named[name] = [each for each in named[name] if each != number]
        self.qualified[number] = after.qualified_name
        self.owners[after.qualified_name] = number
        for named, name in self._shared(after):
            named[name] = sorted([*named.get(name, ()), number])
        self._fitting.clear()
        self._absent.clear()

    def _shared(self, entry: Entry) -> Iterator[tuple[dict[str, list[int]], str]]:
        """Go through the names that a tool may share with others, each with those who have it."""
        declaration = entry.tool.declaration
        yield self.bearers, entry.name
        yield self.namespaces, declaration.namespace
        for alias in dict.fromkeys(declaration.aliases or ()):
            yield self.aliases, alias

    def fitting(self, patterns: tuple[str, ...], size: int) -> bytes:
        """Mask the first so many tools whose qualified names fit a pattern."""
        if not patterns or "*" in patterns:
            return (ALL if patterns else b"\0") * size
        if patterns not in self._fitting and len(self._fitting) >= MOST:
            self._fitting.clear()
        known = self._fitting.setdefault(patterns, bytearray())
        if len(known) < size:
            begin = len(known)
            known.extend(bytes(len(self.qualified) - begin))
            for pattern in patterns:
                for number in self._fitting_from(begin, pattern):
                    known[number] = ALL[0]
        return bytes(known[:size])

    def _fitting_from(self, begin: int, pattern: str) -> Iterator[int]:
        """Find the tools from a number on whose names fit a pattern; a namespace may rule most of them out unseen."""
        said = _ANY.split(pattern.partition("[")[0])
        head, longest = said[0], max(said, key=len)
        fits, names = compile_pattern(translate(pattern)).match, self.qualified
        mine = range(begin, len(names))  # a list that was shared with a copy may name tools that only the copy has
        if not head:
            yield from (each for each in mine if longest in names[each] and fits(names[each]))
            return
        for namespace, members in self.namespaces.items():
            if namespace.startswith(head) or head.startswith(namespace):
                yield from (each for each in members if each in mine and fits(names[each]))

    def absent(self, absence: Absence, numbers: Sequence[int]) -> list[AbsentTool]:
        """Tell of tools why they are absent; what was told of one before is told in the same record."""
        is_new = absence not in self._absent
        known = self._told(absence)
        any_tool = AbsentTool(
            reason=absence.reason,
            message=absence.message,
            policy_refs=absence.policy_refs,
            may_change=absence.change is not None,
            would_change=absence.change,
        )
        ids, names = self.ids, self.qualified
        unknown = numbers if is_new else [each for each in numbers if known[each] is None]
        made = [replace(any_tool, tool_id=ids[each], name=names[each]) for each in unknown]
        for each, told in zip(unknown, made, strict=True):
            known[each] = told
        return made if is_new else [told for each in numbers if (told := known[each])]

    def _told(self, absence: Absence) -> list[AbsentTool | None]:
        """Give what was told of each tool for one reason; of a large catalog, fewer reasons are remembered."""
        if absence not in self._absent and len(self._absent) >= min(MOST, MOST_TOLD // (len(self.ids) + 1)):
            self._absent.clear()
        told = self._absent.setdefault(absence, [])
        told.extend([None] * (len(self.ids) - len(told)))
        return told
