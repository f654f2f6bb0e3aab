"""One tool of the catalog."""

from dataclasses import dataclass

from agenttool.ports.tool import DeclaredTool
from agenttool.records import Lifecycle, ToolId

BUILT_IN = "agenttool"
"""The namespace of tools that a runtime brings itself, and of no others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One tool of the catalog."""

    tool: DeclaredTool

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
