"""A tool as it is shown to a model."""

from dataclasses import dataclass, field

from agenttool.ports.tool import DeclaredTool
from agenttool.records import JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool of one surface, without anything that is hidden from a model.

    Attributes:
        input_schema: the schema that the model's input is validated against.
        strict: whether its author requests strict schemas; none if not declared.
        is_deferred: a search finds it, but it must be loaded before it can be called.
        declared: its records, for formats that also show its output schema and facts; none for a reserved name.
    """

    tool_id: ToolId
    namespace: str
    name: str
    description: str
    input_schema: JsonObject
    strict: bool | None = None
    is_deferred: bool = False
    declared: DeclaredTool | None = field(default=None, repr=False, compare=False)

    @property
    def qualified_name(self) -> str:
        """The unique name of the tool."""
        return f"{self.namespace}.{self.name}"
