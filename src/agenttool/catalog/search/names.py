"""Tools by their exact names; what is written in other capitals is found too, if nothing is written so."""

from collections.abc import Iterator

from agenttool.catalog.catalog import Entry


class Names:
    """Bare names and aliases of tools; a qualified name is found by its last part, an id by itself."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._by_name: dict[str, list[Entry]] = {}
        self._by_id: dict[str, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Add a tool."""
        self._by_id[entry.tool_id] = entry
        for name in _keys(entry):
            self._by_name.setdefault(name, []).append(entry)

    def remove(self, entry: Entry) -> None:
        """Forget a tool."""
        del self._by_id[entry.tool_id]
        for name in _keys(entry):
            self._by_name[name].remove(entry)
            if not self._by_name[name]:
                del self._by_name[name]

    def find(self, name: str) -> tuple[Entry, ...]:
        """Find those who answer to a name: its owner by id or qualified name, else all who share it."""
        if name in self._by_id:
            return (self._by_id[name],)
        folded = name.casefold()
        owners = tuple(self._qualified(folded))
        sharing = owners or tuple(self._by_name.get(folded, ()))
        exact = tuple(each for each in sharing if name in _spellings(each))
        return exact or sharing

    def _qualified(self, folded: str) -> Iterator[Entry]:
        """Find by namespace and name; either may have dots of its own."""
        rest = folded
        while "." in rest:
            rest = rest.partition(".")[2]
            yield from (each for each in self._by_name.get(rest, ()) if each.qualified_name.casefold() == folded)


def _keys(entry: Entry) -> frozenset[str]:
    return frozenset(name.casefold() for name in (entry.name, *(entry.tool.declaration.aliases or ())))


def _spellings(entry: Entry) -> tuple[str, ...]:
    return (entry.qualified_name, entry.name, *(entry.tool.declaration.aliases or ()))
