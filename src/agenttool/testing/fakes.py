"""Stand-ins for the world: a clock that moves when told, ids that count, executors that do as scripted."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from agenttool.ports.executor import Job
from agenttool.ports.tool import DeclaredTool
from agenttool.ports.world import Moment
from agenttool.records import (
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    IdKind,
    InterfaceId,
    JsonObject,
    Lifecycle,
    PermissionProfile,
    PermissionProfileId,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    replace,
)

_Id = TypeVar("_Id", bound=str)

EPOCH_NS = 1_778_198_400_000_000_000
"""2026-05-08, midnight UTC."""


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self, now_ns: int = EPOCH_NS) -> None:
        """Start at a moment."""
        self.moment_ns = now_ns

    def now_ns(self) -> int:
        """Give the moment."""
        return self.moment_ns

    def moment(self) -> Moment:
        """Give the moment; there is no other clock."""
        return Moment(self.moment_ns)

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.moment_ns += round(seconds * 1e9)


class CountingIds:
    """Counts from 1, in 32 digits."""

    def __init__(self) -> None:
        """Begin before 1."""
        self._count = 0

    def unique(self) -> str:
        """Give the next number."""
        self._count += 1
        return f"{self._count:032x}"

    def secret(self) -> bytes:
        """Give the same bytes every time: nothing is hidden from a test."""
        return bytes(32)

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Give the next id of a kind."""
        return kind.compose(self.unique())


class ScriptedExecutor:
    """Runs whatever it was given, and remembers every input it got."""

    def __init__(self, script: Callable[[Job], Awaitable[object]]) -> None:
        """Take what to do for a job."""
        self.inputs: list[JsonObject] = []
        self._script = script

    def start(self, job: Job) -> Coroutine[object, object, object]:
        """Remember the input and do as scripted."""
        self.inputs.append(dict(job.call_input))
        return self._run(job)

    async def _run(self, job: Job) -> object:
        return await self._script(job)


async def _say_done(job: Job) -> object:
    return "done"


def scripted_tool(
    name: str,
    script: Callable[[Job], Awaitable[object]] = _say_done,
    *,
    namespace: str = "test",
    schema: JsonObject | None = None,
    **interface: object,
) -> DeclaredTool:
    """Make a tool of plain records around a script; any fact of its interface can be given by name."""
    tool_id = ToolId(f"tool_{namespace}.{name}")
    schema = schema if schema is not None else {"type": "object"}
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=tool_id,
            namespace=namespace,
            name=name,
            description=f"The tool {name}, for tests.",
            lifecycle=Lifecycle.AVAILABLE,
            tool_kind=ToolKind.FUNCTION,
        ),
        interface=replace(
            ToolInterface(interface_id=InterfaceId(f"interface:{tool_id}"), tool_id=tool_id, model_input_schema=schema),
            **interface,
        ),
        execution_profile=ExecutionProfile(
            execution_profile_id=ExecutionProfileId(f"execution:{tool_id}"),
            execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
            supports_cancel=True,
        ),
        permission_profile=PermissionProfile(
            permission_profile_id=PermissionProfileId(f"permission:{tool_id}"), risk_level=RiskLevel.LOW
        ),
        executor=ScriptedExecutor(script),
    )
