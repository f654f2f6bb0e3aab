"""What somebody asks for when they ask for several things at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agenttool.records import FunctionMapping, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a batch; `depends_on` names earlier calls by their place in it.

    Attributes:
        native_call_id: the id that whoever asks has for it.
        mapping: the words of a model's provider about it, kept beside our own.
        fault: what was wrong with it before it came here, such as a reply that was cut off; then it will not run.
        known_as: what whoever asks calls the runtime's own tools, by their qualified names, so that they are told of
            in the same words.
    """

    name: str
    arguments: JsonObject | str | bytes
    native_call_id: str | None = None
    depends_on: tuple[int, ...] = ()
    mapping: FunctionMapping | None = None
    fault: str | None = None
    known_as: Mapping[str, str] = field(default_factory=dict[str, str])
