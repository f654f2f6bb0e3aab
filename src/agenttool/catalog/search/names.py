"""Tools by their exact names; what is written in other capitals is found too, if nothing is written so."""

from collections.abc import Iterator, Sequence

from agenttool.catalog.catalog import Entry
from agenttool.records import ToolId

FOLDED = 3
"""How many letters one may become in other capitals, at most."""

MOST_DOTS = 64
"""At how many dots a name is taken apart; looking further costs as much as the name is long, each time."""


class Names:
    """Bare names and aliases of tools; a qualified name is found by its last part.

    Most names have one owner, so that those who share one are kept apart.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._longest = 0
        self._owner: dict[str, Entry] = {}
        self._sharing: dict[str, dict[ToolId, Entry]] = {}

    def add(self, entry: Entry) -> None:
        """Add a tool."""
        owner = self._owner
        keys = _keys(entry)
        self._longest = max(self._longest, len(entry.qualified_name), *map(len, keys))
        for name in keys:
            if owner.setdefault(name, entry) is not entry:
                self._sharing.setdefault(name, {})[entry.tool_id] = entry

    def remove(self, entry: Entry) -> None:
        """Forget a tool."""
        for name in _keys(entry):
            sharing = self._sharing.get(name, {})
            if self._owner[name] is not entry:
                del sharing[entry.tool_id]
            elif sharing:
                self._owner[name] = sharing.pop(next(iter(sharing)))
            else:
                del self._owner[name]
            if not sharing:
                self._sharing.pop(name, None)

    def find(self, name: str) -> tuple[Entry, ...]:
        """Find those who answer to a name: its owner by qualified name, else all who share it."""
        if len(name) > self._longest * FOLDED:  # a query may be a book, and is looked up as a name, too
            return ()
        folded = name.casefold()
        answering = tuple(self._qualified(folded)) or tuple(self._bare(folded))
        exact = tuple(each for each in answering if name in _spellings(each))
        return exact or answering

    def _bare(self, folded: str) -> Iterator[Entry]:
        if folded in self._owner:
            yield self._owner[folded]
            yield from self._sharing.get(folded, {}).values()

    def _qualified(self, folded: str) -> Iterator[Entry]:
        """Find by namespace and name; either may have dots of its own."""
        rest = folded
        for _ in range(min(rest.count("."), MOST_DOTS)):
            rest = rest.partition(".")[2]
            yield from (each for each in self._bare(rest) if each.qualified_name.casefold() == folded)


def primary(name: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Leave out those who answer to a name as an alias only, if it is the name of another."""
    folded = name.casefold()
    called_so = [each for each in entries if folded in (each.name.casefold(), each.qualified_name.casefold())]
    return called_so or entries


def _keys(entry: Entry) -> tuple[str, ...]:
    """Give the folded names; one that is folded already is not held twice."""
    declaration = entry.tool.declaration
    name, aliases = declaration.name, declaration.aliases
    folded = name.casefold()
    if folded == name:
        folded = name
    return (folded, *({each.casefold() for each in aliases} - {folded})) if aliases else (folded,)


def _spellings(entry: Entry) -> tuple[str, ...]:
    return (entry.qualified_name, entry.name, *(entry.tool.declaration.aliases or ()))
