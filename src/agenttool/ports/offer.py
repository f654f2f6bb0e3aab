"""A tool as a model may be shown it."""

from dataclasses import dataclass

from agenttool.records import JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool of one surface, with nothing in it that a model may not know.

    Attributes:
        input_schema: the very schema that a model's input is held to.
        strict: what its author said about strict schemas; none if nothing.
        is_deferred: it can be found, and must be loaded before it can be called.
    """

    tool_id: ToolId
    namespace: str
    name: str
    description: str
    input_schema: JsonObject
    strict: bool | None = None
    is_deferred: bool = False

    @property
    def qualified_name(self) -> str:
        """The name that no other tool has."""
        return f"{self.namespace}.{self.name}"
