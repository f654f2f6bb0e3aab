"""A call, as its caller requests it."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from agenttool.records import AbsentTool, FunctionMapping, InvocationId, JsonObject, ToolId


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The part of a surface that a caller was shown, if it is not all of it or uses other names.

    Attributes:
        known_as: the caller's names of the built-in tools, by qualified name; messages to the caller use them.
        unseen: the tools of the surface that the caller was not shown, and why; they do not run.
    """

    known_as: Mapping[str, str] = field(default_factory=dict[str, str])
    unseen: Mapping[ToolId, AbsentTool] = field(default_factory=dict[ToolId, AbsentTool])


ALL_SHOWN = Shown()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call to start, or one of a batch: `ToolCall("files.read", {"path": "a.txt"})`.

    Attributes:
        native_call_id: the id that the caller has for it.
        depends_on: the earlier calls, by their place in the batch, that must end first. If one fails, this call
            runs only under the sibling failure policy `ignore`, which is the default.
        mapping: the provider's ids and names of the call, recorded with it.
        fault: why the request cannot run, such as a reply of the model that was cut off.
        shown: the part of its surface that the caller was shown.
        invocation_id: an id of `rt.calls.new_id`, if the caller must know it before the call runs.
    """

    name: str
    arguments: JsonObject | str | bytes
    _: KW_ONLY
    native_call_id: str | None = None
    depends_on: tuple[int, ...] = ()
    mapping: FunctionMapping | None = None
    fault: str | None = None
    shown: Shown = ALL_SHOWN
    invocation_id: InvocationId | None = None
