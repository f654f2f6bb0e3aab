"""Everything that was declared, by id and by name; nothing wins silently."""

from collections.abc import Iterator
from typing import TypeVar

from agenttool.catalog.complete import Told, completed
from agenttool.catalog.entry import Entry
from agenttool.catalog.register import Register
from agenttool.catalog.roster import Roster
from agenttool.codec import read, write
from agenttool.errors import ConfigError, RecordError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Record, ToolId

_R = TypeVar("_R", bound=Record)


class Catalog:
    """The tools of a runtime. Two sources may use the same bare name; a qualified name has one owner."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._entries: dict[ToolId, Entry] = {}
        self._owners: dict[str, ToolId] = {}
        self._register = Register()

    def __iter__(self) -> Iterator[Entry]:
        """Go through the tools in the order they were declared."""
        return iter(self._entries.values())

    def __len__(self) -> int:
        """Count the tools."""
        return len(self._entries)

    def find(self, tool_id: ToolId) -> Entry | None:
        """Find a tool by its id, retired ones included."""
        return self._entries.get(tool_id)

    def owner(self, qualified_name: str) -> Entry | None:
        """Find a tool by the name that no other has."""
        tool_id = self._owners.get(qualified_name)
        return None if tool_id is None else self._entries[tool_id]

    def is_withdrawn(self, tool_id: ToolId) -> bool:
        """Tell whether a tool that was declared is one that nobody may call."""
        return self._register.is_withdrawn(tool_id)

    def prepare(self, tool: DeclaredTool) -> Entry:
        """Make the entry of a tool, without adding it yet.

        Raises:
            ConfigError: its records are not what they should be, or another tool already has this namespace and name.
        """
        entry = Entry(tool=completed(tool, _whole(tool)))
        owner = self._owners.get(entry.qualified_name)
        if owner not in (None, entry.tool_id):
            raise ConfigError(
                f"two tools are named {entry.qualified_name!r}: {owner!r} and {entry.tool_id!r}; "
                "give one of them another namespace or name"
            )
        return entry

    def declare(self, tool: DeclaredTool) -> Entry:
        """Add a tool, or replace the one with the same id.

        Raises:
            ConfigError: another tool already has this namespace and name.
        """
        return self.add(self.prepare(tool))

    def add(self, entry: Entry) -> Entry:
        """Add an entry that was prepared; it replaces the one with the same id."""
        before = self._entries.get(entry.tool_id)
        if before is not None:
            del self._owners[before.qualified_name]
        self._owners[entry.qualified_name] = entry.tool_id
        self._entries[entry.tool_id] = entry
        self._register.put(entry)
        return entry

    def roster(self) -> Roster:
        """Give all tools as they are now, for surfaces."""
        return self._register.roster()


def _whole(tool: DeclaredTool) -> Told:
    """Hold the records of a tool to their own shapes: a person, or an adapter of others, may have put anything there.

    What counts is what a reader of the records would read: a tool whose lifecycle is the text `"retired"` is retired,
    and nobody can change a schema in it any more.

    Raises:
        ConfigError: a value is of another kind than its field; says which and where.
    """
    name = tool.declaration.name
    declaration = _as_read(tool.declaration, name)
    if not declaration.tool_id or not name:
        raise ConfigError(f"a tool needs an id and a name, got {declaration.tool_id!r} and {name!r}; add it")
    return Told(
        declaration=declaration,
        interface=_as_read(tool.interface, name),
        execution_profile=_as_read(tool.execution_profile, name),
        permission_profile=_as_read(tool.permission_profile, name),
    )


def _as_read(record: _R, name: str) -> _R:
    try:
        return read(write(record), type(record))
    except (RecordError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the {type(record).__name__} of {name!r} cannot be used: {error}") from error
