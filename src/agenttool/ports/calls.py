"""The calls of a batch, as a caller requests them."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, Protocol, TypedDict

from agenttool.ports.identity import Principal
from agenttool.records import (
    AbsentTool,
    FunctionMapping,
    InvocationId,
    InvocationStatus,
    JsonObject,
    ToolId,
    ToolProgress,
    ToolResult,
    ToolSurface,
)


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


class CallObserver(Protocol):
    """Follows one started call, in the event loop of its runtime; must return at once."""

    def started(self, invocation_id: InvocationId, /) -> None:
        """Take the id of the call, before it runs."""
        ...

    def progressed(self, update: ToolProgress, /) -> None:
        """Take a progress update that was recorded."""
        ...

    def ended(self, result: ToolResult, /) -> None:
        """Take the result, once it is stored. A call that ends in another process is not reported."""
        ...


class StartOptions(TypedDict, total=False):
    """The options of `Runtime.start` and `Runtime.submit`; the last two are of `submit` alone."""

    surface: ToolSurface | None
    native_call_id: str | None
    actor_ref: str | Principal | None
    invocation_id: InvocationId | None
    idempotency_key: str | None
    observer: CallObserver | None
    ends_with_process: bool
    on_idle: Callable[[], object]


class StartedCall(NamedTuple):
    """A call that was started: it has ended, or it waits. `Runtime.journal` has its records."""

    invocation_id: InvocationId
    tool_id: ToolId
    status: InvocationStatus


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a batch: `ToolCall("files.read", {"path": "a.txt"})`.

    Attributes:
        native_call_id: the id that the caller has for it.
        depends_on: the earlier calls, by their place in the batch, that must end first. If one fails, this call
            runs only under the sibling failure policy `ignore`, which is the default.
        mapping: the provider's ids and names of the call, recorded with it.
        fault: why the request cannot run, such as a reply of the model that was cut off.
        shown: the part of its surface that the caller was shown.
        invocation_id: an id of `Runtime.new_invocation_id`, if the caller must know it before the call runs.
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
