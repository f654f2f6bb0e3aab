"""Everything that was declared, by id and by name; nothing wins silently."""

from collections.abc import Iterator

from agenttool.catalog.complete import completed
from agenttool.catalog.entry import Entry
from agenttool.catalog.register import Register
from agenttool.catalog.roster import Roster
from agenttool.codec import read, write
from agenttool.errors import ConfigError, RecordError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import ToolId


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

    def prepare(self, tool: DeclaredTool) -> Entry:
        """Make the entry of a tool, without adding it yet.

        Raises:
            ConfigError: its records are not what they should be, or another tool already has this namespace and name.
        """
        _whole(tool)
        entry = Entry(tool=completed(tool))
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


def _whole(tool: DeclaredTool) -> None:
    """Hold the records of a tool to their own shapes: a person, or an adapter of others, may have put anything there.

    Raises:
        ConfigError: a value is of another kind than its field; says which and where.
    """
    declaration = tool.declaration
    for record in (declaration, tool.interface, tool.execution_profile, tool.permission_profile):
        try:
            read(write(record), type(record))
        except (RecordError, TypeError, ValueError, RecursionError) as error:
            kind = type(record).__name__
            raise ConfigError(f"the {kind} of {declaration.name!r} cannot be used: {error}") from error
    if not declaration.tool_id or not declaration.name:
        raise ConfigError(
            f"a tool needs an id and a name, got {declaration.tool_id!r} and {declaration.name!r}; add it"
        )
