"""The tools that a runtime brings itself: harmless, always shown, and under names that nobody else can have."""

from dataclasses import dataclass

from agenttool.catalog.entry import BUILT_IN
from agenttool.errors import ConfigError
from agenttool.ports.executor import Executor
from agenttool.ports.tool import Check, DeclaredTool
from agenttool.records import (
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
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
    WriteEffect,
)

_ID_PREFIX = f"tool_{BUILT_IN}."


def built_in_id(name: str) -> ToolId:
    """Give the id of the tool of ours that has this name."""
    return ToolId(f"{_ID_PREFIX}{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """What one of our tools has of its own; it reads and changes nothing outside, so that no rule need speak for it.

    Attributes:
        is_self_bounding: its output is never so large that it would have to be stored.
        is_repeatable: a run that failed may be run again.
    """

    name: str
    kind: ToolKind
    description: str
    schema: JsonObject
    is_self_bounding: bool = False
    is_repeatable: bool = False

    def declared(self, executor: Executor, check_values: Check | None = None) -> DeclaredTool:
        """Declare it, with the code behind it; any rule can speak against it."""
        tool_id = built_in_id(self.name)
        interface_id = InterfaceId(f"interface:{tool_id}")
        execution_id = ExecutionProfileId(f"execution:{tool_id}")
        permission_id = PermissionProfileId(f"permission:{tool_id}")
        return DeclaredTool(
            declaration=ToolDeclaration(
                tool_id=tool_id,
                namespace=BUILT_IN,
                name=self.name,
                description=self.description,
                lifecycle=Lifecycle.AVAILABLE,
                tool_kind=self.kind,
                input_contract=InputContract(model_input_schema=self.schema, strict=True),
                interface_ref=interface_id,
                execution_profile_ref=execution_id,
                permission_profile_ref=permission_id,
            ),
            interface=ToolInterface(
                interface_id=interface_id,
                tool_id=tool_id,
                is_read_only=True,
                is_concurrency_safe=True,
                is_destructive=False,
                is_open_world=False,
                always_load=True,
                persistence_policy_ref="self_bounding" if self.is_self_bounding else None,
            ),
            execution_profile=ExecutionProfile(
                execution_profile_id=execution_id,
                execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
                supports_cancel=True,
                supports_timeout=True,
                supports_retries=self.is_repeatable or None,
            ),
            permission_profile=PermissionProfile(
                permission_profile_id=permission_id,
                risk_level=RiskLevel.LOW,
                write_effects=(WriteEffect.NONE,),
                approval_required=False,
            ),
            executor=executor,
            check_values=check_values,
        )


def refuse_our_names(tool: DeclaredTool) -> None:
    """Keep a tool from taking the place of one of ours, by its full name or by its id.

    Raises:
        ConfigError: it would.
    """
    declaration = tool.declaration
    qualified_name = f"{declaration.namespace}.{declaration.name}"
    if qualified_name.startswith(f"{BUILT_IN}.") or str(declaration.tool_id).startswith(_ID_PREFIX):
        raise ConfigError(
            f"{qualified_name!r} cannot be declared: the namespace {BUILT_IN!r} and ids that begin with "
            f"{_ID_PREFIX!r} are the runtime's own; give the tool another namespace and id"
        )
