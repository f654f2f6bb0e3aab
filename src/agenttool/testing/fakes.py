"""Fakes for tests: a clock that is set by hand, sequential ids, and executors that run a script."""

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
    """A clock that changes only by `advance`."""

    def __init__(self, now_ns: int = EPOCH_NS) -> None:
        self.moment_ns = now_ns

    def now_ns(self) -> int:
        """Return the time."""
        return self.moment_ns

    def moment(self) -> Moment:
        """Return the time; there is no monotonic clock."""
        return Moment(self.moment_ns)

    def advance(self, seconds: float) -> None:
        """Add seconds to the time."""
        self.moment_ns += round(seconds * 1e9)


class CountingIds:
    """Ids that count from 1, in 32 digits."""

    def __init__(self) -> None:
        self._count = 0

    def unique(self) -> str:
        """Return the next number."""
        self._count += 1
        return f"{self._count:032x}"

    def secret(self) -> bytes:
        """Return the same bytes every time, so that tests are deterministic."""
        return bytes(32)

    def new(self, kind: IdKind[_Id]) -> _Id:
        """Return the next id of a kind."""
        return kind.compose(self.unique())


class ScriptedExecutor:
    """Runs a script for each job, and records every input."""

    def __init__(self, script: Callable[[Job], Awaitable[object]]) -> None:
        self.inputs: list[JsonObject] = []
        self._script = script

    def start(self, job: Job) -> Coroutine[object, object, object]:
        """Record the input and return the coroutine of the script."""
        self.inputs.append(dict(job.call_input))
        return self._run(job)

    async def _run(self, job: Job) -> object:
        return await self._script(job)


async def _return_done(job: Job) -> object:
    return "done"


def scripted_tool(
    name: str,
    script: Callable[[Job], Awaitable[object]] = _return_done,
    *,
    namespace: str = "test",
    schema: JsonObject | None = None,
    **interface: object,
) -> DeclaredTool:
    """Return a tool that runs a script; keyword arguments set fields of its interface."""
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
