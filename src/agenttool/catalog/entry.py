"""One tool of the catalog."""

from dataclasses import dataclass, field

from agenttool.ports.tool import DeclaredTool
from agenttool.records import Lifecycle, ToolId

BUILT_IN = "agenttool"
"""The namespace of tools that a runtime brings itself, and of no others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One tool of the catalog.

    Attributes:
        qualified_name: the name that no other tool has.
    """

    tool: DeclaredTool
    qualified_name: str = field(init=False)

    def __post_init__(self) -> None:
        """Spell the name once for all who ask."""
        declaration = self.tool.declaration
        object.__setattr__(self, "qualified_name", f"{declaration.namespace}.{declaration.name}")

    @property
    def tool_id(self) -> ToolId:
        """The stable id."""
        return self.tool.declaration.tool_id

    @property
    def name(self) -> str:
        """The bare name, unique only within its namespace."""
        return self.tool.declaration.name

    @property
    def lifecycle(self) -> Lifecycle:
        """Where the declaration stands."""
        return self.tool.declaration.lifecycle
