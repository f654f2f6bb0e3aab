"""A tool as an adapter declares it: its records, and the code behind them."""

import gc
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from agenttool.ports.deferred import DeferredTool
from agenttool.ports.executor import Executor
from agenttool.ports.limits import RateLimit
from agenttool.records import (
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    Json,
    JsonObject,
    Lifecycle,
    PermissionProfile,
    PermissionProfileId,
    ResourceLock,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    replace,
)

FillDefaults = Callable[[Json, list[str]], Json]
"""Returns a value with the defaults that its objects leave out, and adds their pointers to a list."""

Convert = Callable[[JsonObject], dict[str, object]]
"""Returns the arguments that a tool's code gets for an input; raises `ToolFailure` if its types reject the input."""

Check = Callable[[JsonObject], None]
"""Checks an input and raises `ToolFailure` if the tool cannot accept it."""

Normalize = Callable[[JsonObject], JsonObject]
"""Returns the input in its normal form, as a new object."""

Classify = Callable[[Json], bool]
"""Computes one fact of one call from its input, or from the part of it that `classifier_input` names."""

Locks = Callable[[JsonObject], Iterable[ResourceLock]]
"""Returns the resources that a call locks."""


PROCESS_STATE = "process"
"""The state that all code in this process shares: the default of `DeclaredTool.shared_state`."""


class OutputCheck(Protocol):
    """The declared type of an output, such as a number, text, an enum or bytes."""

    @property
    def kinds(self) -> frozenset[type]:
        """The types whose values fit without a further check."""
        ...

    @property
    def declared(self) -> str:
        """The declared type, for messages."""
        ...

    def accepts(self, output: object, value: object) -> bool:
        """Return whether an output fits, as the tool returned it; `value` is its JSON form."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DeclaredTool:
    """A tool that an adapter or an application adds to the catalog.

    The records describe the tool. The callables compute what records cannot express.
    `integer_fields` are members that the code takes as integers: JSON Schema accepts `1.0` for one, and the pipeline
    converts it. `secret_defaults` are defaults of sensitive members, which no record may show; `fill_nested` fills in
    those inside members. A deferred tool has `later`: a run only sends the request, and the result arrives by callback.
    `validated` returns an input with the values that the tool's validators make of it. Unlike `normalize`, it also
    applies to an input that a hook or an approver replaced, and returns its own output unchanged.
    `convert` checks an input by the types of the tool's code; an executor gets what it returned from `Job.converted`.
    An executor gets a copy of the input, unless `copies_input` says that it makes one itself.
    `output_check` checks an output whose type is known, and which has no schema because it is not structured.
    `shared_state` names the state that its calls share with those of other conversations. While an exclusive call runs,
    no other call on the same state runs, and no other call of its conversation. None declares that they share none:
    they run elsewhere, where calls of several conversations may overlap, as those of an HTTP API do.
    `locks` are the resources that each of its calls locks, or a function that returns those of one call. If
    `locks_by_actor`, calls of different actors do not exclude each other.
    `setup` is why a tool with the lifecycle `requires_setup` cannot be used, and the remedy after a semicolon.
    """

    declaration: ToolDeclaration
    interface: ToolInterface
    execution_profile: ExecutionProfile
    permission_profile: PermissionProfile
    executor: Executor
    convert: Convert | None = None
    check_values: Check | None = None
    preflight: Check | None = None
    normalize: Normalize | None = None
    validated: Normalize | None = None
    classifiers: Mapping[str, Classify] = field(default_factory=dict[str, Classify])
    locks: Locks | tuple[ResourceLock, ...] | None = None
    locks_by_actor: bool = False
    map_result: Callable[[object], object] | None = None
    rate_limit: RateLimit | None = None
    integer_fields: frozenset[str] = frozenset()
    secret_defaults: JsonObject = field(default_factory=dict[str, Json])
    fill_nested: FillDefaults | None = None
    is_trusted: bool = False
    later: DeferredTool | None = None
    copies_input: bool = False
    output_check: OutputCheck | None = None
    shared_state: str | None = PROCESS_STATE
    setup: str | None = None

    def __repr__(self) -> str:
        return f"<tool {self.declaration.namespace}.{self.declaration.name}>"

    def with_records(
        self,
        *,
        declaration: ToolDeclaration,
        interface: ToolInterface,
        execution_profile: ExecutionProfile,
        permission_profile: PermissionProfile,
    ) -> "DeclaredTool":
        """Return a copy with other records, in a fifth of the time that `dataclasses.replace` takes."""
        copy = object.__new__(DeclaredTool)
        for put, value in zip(_PUT_OTHERS, _others_of(self), strict=True):
            put(copy, value)
        put = object.__setattr__
        put(copy, "declaration", declaration)
        put(copy, "interface", interface)
        put(copy, "execution_profile", execution_profile)
        put(copy, "permission_profile", permission_profile)
        return copy


_OTHERS = [
    name
    for name in DeclaredTool.__slots__
    if name not in ("declaration", "interface", "execution_profile", "permission_profile")
]
_others_of: Callable[[DeclaredTool], tuple[object, ...]] = attrgetter(*_OTHERS)
_PUT_OTHERS: list[Callable[[DeclaredTool, object], None]] = [getattr(DeclaredTool, name).__set__ for name in _OTHERS]


def own_tool(  # noqa: PLR0913 -- the parts of a declaration
    executor: Executor,
    *,
    namespace: str,
    name: str,
    kind: ToolKind,
    description: str,
    schema: JsonObject,
    lifecycle: Lifecycle = Lifecycle.AVAILABLE,
    interface: Mapping[str, object],
    permission: Mapping[str, object],
) -> DeclaredTool:
    """Declare a tool of this package, which shares no state; the mappings hold further fields of its records."""
    tool_id = ToolId(f"tool_{namespace}.{name}")
    profile_id = PermissionProfileId(f"permission:{tool_id}")
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=tool_id,
            namespace=namespace,
            name=name,
            description=description,
            lifecycle=lifecycle,
            tool_kind=kind,
            input_contract=InputContract(model_input_schema=schema, runtime_input_schema=schema),
        ),
        interface=replace(
            ToolInterface(interface_id=InterfaceId(f"interface:{tool_id}"), tool_id=tool_id), **interface
        ),
        execution_profile=ExecutionProfile(
            execution_profile_id=ExecutionProfileId(f"execution:{tool_id}"),
            execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
        ),
        permission_profile=replace(
            PermissionProfile(permission_profile_id=profile_id, risk_level=RiskLevel.MEDIUM), **permission
        ),
        executor=executor,
        shared_state=None,
    )


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """Pause the garbage collector while many tools are made: it would traverse all of them again and again.

    At the end all objects count as old, so that not even the next collection of young objects traverses them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # what an application has frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()
