"""Everything that was declared, by id and by name; nothing wins silently."""

from collections.abc import Iterator
from dataclasses import dataclass

from agenttool.codec import digest_of, to_json
from agenttool.errors import ConfigError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import Digest, Json, JsonObject, Lifecycle, ToolId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One tool of the catalog. The digest is of what an approver relied on: description, schemas and safety facts."""

    tool: DeclaredTool
    digest: Digest

    @property
    def tool_id(self) -> ToolId:
        """The stable id."""
        return self.tool.declaration.tool_id

    @property
    def name(self) -> str:
        """The bare name, unique only within its namespace."""
        return self.tool.declaration.name

    @property
    def qualified_name(self) -> str:
        """The name that no other tool has."""
        return f"{self.tool.declaration.namespace}.{self.tool.declaration.name}"

    @property
    def lifecycle(self) -> Lifecycle:
        """Where the declaration stands."""
        return self.tool.declaration.lifecycle


class Catalog:
    """The tools of a runtime. Two sources may use the same bare name; a qualified name has one owner."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._entries: dict[ToolId, Entry] = {}
        self._owners: dict[str, ToolId] = {}

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
            ConfigError: another tool already has this namespace and name.
        """
        entry = Entry(tool=tool, digest=identity_digest(tool))
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
        return entry


def identity_digest(tool: DeclaredTool) -> Digest:
    """Take the digest of what someone who approves a tool relies on.

    A server that changes a description, a schema or a safety fact after the approval gets another digest, and old
    approvals and session rules no longer cover it.
    """
    declaration = to_json(tool.declaration)
    interface = to_json(tool.interface)
    permission = to_json(tool.permission_profile)
    relied_on: JsonObject = {
        **{name: declaration.get(name) for name in ("tool_id", "namespace", "name", "description", "tool_kind")},
        "input": declaration.get("input_contract"),
        "output": declaration.get("output_contract"),
        "facts": {name: value for name, value in interface.items() if name.startswith("is_")},
        "schemas": {name: value for name, value in interface.items() if name.endswith("_schema")},
        "access": [permission.get("risk_level"), permission.get("access_kinds"), permission.get("write_effects")],
    }
    return digest_of(_spellable(relied_on))


def _spellable(value: Json) -> Json:
    """Write integers beyond what canonical JSON can spell as strings; schemas from elsewhere have them."""
    if isinstance(value, dict):
        return {name: _spellable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_spellable(each) for each in value]
    is_large = isinstance(value, int) and not -(2**53) < value < 2**53
    return f"integer:{value}" if is_large else value
