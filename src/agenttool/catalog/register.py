"""The tools of a catalog, read one by one as they are declared; a roster of them all is then quickly made."""

from agenttool.catalog.deferred import deferred_ref
from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence, withdrawal
from agenttool.catalog.roster import Numbers, Roster
from agenttool.catalog.traits import Traits, tokens_of, traits_of
from agenttool.records import DeferredToolRef, ToolId


class Register:
    """What surfaces need to know of each tool. A replaced tool keeps its place, so that order never changes."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._entries: dict[ToolId, Entry] = {}
        self._numbers: dict[ToolId, int] = {}
        self._names: dict[ToolId, str] = {}
        self._kinds: dict[ToolId, int] = {}
        self._refs: dict[ToolId, DeferredToolRef] = {}
        self._tokens: dict[ToolId, int] = {}
        self._traits: dict[Traits, int] = {}
        self._owners: dict[str, int] = {}
        self._bearers: dict[str, Numbers] = {}
        self._aliases: dict[str, Numbers] = {}
        self._withdrawn: dict[int, Absence] = {}
        self._roster: Roster | None = None

    def put(self, entry: Entry) -> None:
        """Add a tool, or replace the one with the same id."""
        tool, tool_id = entry.tool, entry.tool_id
        before = self._entries.get(tool_id)
        number = self._numbers.setdefault(tool_id, len(self._numbers))
        if before is not None:
            self._forget_names(before, number)
        self._entries[tool_id] = entry
        self._names[tool_id] = entry.qualified_name
        traits = traits_of(tool)
        self._kinds[tool_id] = self._traits.setdefault(traits, len(self._traits))
        self._withdrawn.pop(number, None)
        absence = withdrawal(traits)
        if absence is not None:
            self._withdrawn[number] = absence
        self._refs[tool_id] = deferred_ref(tool)
        self._tokens[tool_id] = tokens_of(tool)
        self._owners[entry.qualified_name] = number
        self._bearers[entry.name] = (*self._bearers.get(entry.name, ()), number)
        for alias in dict.fromkeys(tool.declaration.aliases or ()):
            self._aliases[alias] = (*self._aliases.get(alias, ()), number)
        self._roster = None

    def is_withdrawn(self, tool_id: ToolId) -> bool:
        """Tell whether a tool is there in no situation."""
        return self._numbers[tool_id] in self._withdrawn

    def _forget_names(self, entry: Entry, number: int) -> None:
        del self._owners[entry.qualified_name]
        _take_out(self._bearers, entry.name, number)
        for alias in dict.fromkeys(entry.tool.declaration.aliases or ()):
            _take_out(self._aliases, alias, number)

    def roster(self) -> Roster:
        """Give all tools as they are now; the same until one is put."""
        if self._roster is None:
            self._roster = Roster(
                entries=tuple(self._entries.values()),
                ids=tuple(self._entries),
                names=tuple(self._names.values()),
                kinds=tuple(self._kinds.values()),
                traits=tuple(self._traits),
                refs=tuple(self._refs.values()),
                tokens=tuple(self._tokens.values()),
                numbers=self._numbers.copy(),
                owners=self._owners.copy(),
                bearers=self._bearers.copy(),
                aliases=self._aliases.copy(),
                withdrawn=self._withdrawn,
            )
        return self._roster


def _take_out(named: dict[str, Numbers], name: str, number: int) -> None:
    left = tuple(each for each in named[name] if each != number)
    if left:
        named[name] = left
    else:
        del named[name]
