"""What somebody asks for when they ask for several things at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttool.records import AbsentTool, FunctionMapping, JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What somebody was shown of a surface, where that is not all of it, or is under other names.

    Attributes:
        known_as: what they call the runtime's own tools, by their qualified names, to be told of them in these words.
        unseen: the tools that they were not shown all the same, and why; they do not run.
    """

    known_as: Mapping[str, str] = field(default_factory=dict[str, str])
    unseen: Mapping[ToolId, AbsentTool] = field(default_factory=dict[ToolId, AbsentTool])


AS_IT_IS = Shown()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a batch; `depends_on` names earlier calls by their place in it.

    Attributes:
        native_call_id: the id that whoever asks has for it.
        mapping: the words of a model's provider about it, kept beside our own.
        fault: what was wrong with it before it came here, such as a reply that was cut off; then it will not run.
        shown: what whoever asks was shown of its surface.
    """

    name: str
    arguments: JsonObject | str | bytes
    native_call_id: str | None = None
    depends_on: tuple[int, ...] = ()
    mapping: FunctionMapping | None = None
    fault: str | None = None
    shown: Shown = AS_IT_IS
