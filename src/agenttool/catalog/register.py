"""The tools of a catalog, read one by one as they are declared; a roster of them all is then at hand."""

from agenttool.catalog.deferred import deferred_ref
from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence, withdrawal
from agenttool.catalog.names import Names
from agenttool.catalog.roster import Columns, Lists, Roster
from agenttool.catalog.traits import Traits, tokens_of, traits_of
from agenttool.records import ToolId


class Register:
    """What surfaces need to know of each tool. A replaced tool keeps its place, so that order never changes."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._names = Names()
        self._columns = Columns()
        self._absences: list[Absence | None] = []  # why tools of each kind are there in no situation
        self._withdrawn: dict[int, Absence] = {}
        self._written: list[Lists] = []
        self._last: Roster | None = None
        self._is_current = False

    def put(self, entry: Entry) -> None:
        """Add a tool, or replace the one with the same id."""
        number, traits = self._names.numbers.get(entry.tool_id), traits_of(entry.tool)
        if number is None:
            number = self._add(entry, traits)
        else:
            self._replace(entry, traits, number)
        kind = self._columns.kinds[number]
        if kind == len(self._absences):
            self._absences.append(withdrawal(traits))
        absence = self._absences[kind]
        if absence is not None:
            self._withdrawn[number] = absence
        else:
            self._withdrawn.pop(number, None)
        self._is_current = False

    def _add(self, entry: Entry, traits: Traits) -> int:
        columns = self._columns
        kind = columns.kind(traits)
        self._names.add(entry)
        columns.entries.append(entry)
        columns.kinds.append(kind)
        columns.refs.append(deferred_ref(entry.tool))
        columns.tokens.append(tokens_of(entry.tool))
        return len(columns.entries) - 1

    def _replace(self, entry: Entry, traits: Traits, number: int) -> None:
        """Change what there is, or a copy of it if a roster was made of it, which must stay as it is."""
        last = self._last
        before = self._columns.entries[number]
        if _names_of(before) != _names_of(entry):
            if last is not None and last.names is self._names:
                self._names = self._names.copy()
            self._names.rename(before, entry)
        if last is not None and last.columns is self._columns:
            self._columns = self._columns.copy()
        columns = self._columns
        kind = columns.kind(traits)
        columns.entries[number] = entry
        columns.kinds[number] = kind
        columns.refs[number] = deferred_ref(entry.tool)
        columns.tokens[number] = tokens_of(entry.tool)

    def is_withdrawn(self, tool_id: ToolId) -> bool:
        """Tell whether a tool is there in no situation."""
        return self._names.numbers[tool_id] in self._withdrawn

    def roster(self) -> Roster:
        """Give all tools as they are now; the same until one is put."""
        if self._last is None or not self._is_current:
            self._last = Roster(
                size=len(self._columns.entries),
                names=self._names,
                columns=self._columns,
                traits=tuple(self._columns.traits),
                withdrawn=self._withdrawn,
                written=self._written,
            )
            self._is_current = True
        return self._last


def _names_of(entry: Entry) -> tuple[str, frozenset[str]]:
    return entry.qualified_name, frozenset(entry.tool.declaration.aliases or ())
