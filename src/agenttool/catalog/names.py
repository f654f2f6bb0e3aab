"""Who is called what, by numbers; kept once for all rosters, since nearly nothing of it ever changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from re import compile as compile_pattern

from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence
from agenttool.records import AbsentTool, ToolId

MOST = 64
"""How many reasons and lists of patterns are remembered."""

ALL = b"\xff"
"""What stands for a tool in a mask that lets it through; a zero holds it back."""


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
    _absent: dict[Absence, dict[int, AbsentTool]] = field(default_factory=dict[Absence, dict[int, AbsentTool]])

    def add(self, entry: Entry) -> None:
        """Take in a tool under the next number."""
        number = len(self.ids)
        self.ids.append(entry.tool_id)
        self.qualified.append(entry.qualified_name)
        self.numbers[entry.tool_id] = number
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
            fits = compile_pattern("|".join(map(translate, patterns))).match
            known.extend([255 if fits(name) else 0 for name in self.qualified[len(known) :]])
        return bytes(known[:size])

    def absent(self, absence: Absence, numbers: Iterable[int]) -> Iterable[AbsentTool]:
        """Tell of tools why they are absent; what was told of one before is told in the same record."""
        if absence not in self._absent and len(self._absent) >= MOST:
            self._absent.clear()
        known = self._absent.setdefault(absence, {})
        wanted = list(numbers)
        fresh = [each for each in wanted if each not in known] if known else wanted
        ids, names, reason, message = self.ids, self.qualified, absence.reason, absence.message
        policy_refs, change, may_change = absence.policy_refs, absence.change, absence.change is not None
        told = [
            AbsentTool(
                tool_id=ids[number],
                name=names[number],
                reason=reason,
                message=message,
                policy_refs=policy_refs,
                may_change=may_change,
                would_change=change,
            )
            for number in fresh
        ]
        known.update(zip(fresh, told, strict=True))
        return told if fresh is wanted else map(known.__getitem__, wanted)
