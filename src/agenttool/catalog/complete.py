"""The records of a tool, made to name each other: what one of them says, the others need not repeat, nor contradict."""

import dataclasses
from typing import NamedTuple

from agenttool.errors import ConfigError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    UNSET,
    AccessKind,
    ExecutionProfile,
    InputContract,
    PermissionProfile,
    ToolDeclaration,
    ToolInterface,
    ToolKind,
    replace,
)

_ALWAYS_JUDGED = (ToolKind.SHELL_COMMAND, ToolKind.CODE_EXECUTION)
_JUDGED_IF_WRITING = (ToolKind.FILE_OPERATION,)


class Told(NamedTuple):
    """The records of a tool."""

    declaration: ToolDeclaration
    interface: ToolInterface
    execution_profile: ExecutionProfile
    permission_profile: PermissionProfile


def completed(tool: DeclaredTool, told: Told) -> DeclaredTool:
    """Give a tool these records, and fill in what follows from the others: its identity, its contract, its refs.

    Raises:
        ConfigError: they contradict each other, or a tool that needs judging does not say what is to be judged.
    """
    declaration, interface, execution, permission = told
    _refuse_other_identity(declaration, interface)
    _refuse_unjudged(told)
    return dataclasses.replace(
        tool,
        declaration=replace(
            declaration,
            input_contract=_contract(declaration, interface),
            interface_ref=declaration.interface_ref or interface.interface_id,
            execution_profile_ref=declaration.execution_profile_ref or execution.execution_profile_id,
            permission_profile_ref=declaration.permission_profile_ref or permission.permission_profile_id,
        ),
        interface=replace(
            interface,
            name=declaration.name,
            aliases=declaration.aliases,
            namespace=declaration.namespace,
            user_facing_name=interface.user_facing_name or declaration.title,
        ),
        execution_profile=execution,
        permission_profile=permission,
    )


def _contract(declaration: ToolDeclaration, interface: ToolInterface) -> InputContract | None:
    """Give the contract of a tool that has a schema, wherever it was said (AT-DECL-21)."""
    contract = declaration.input_contract or InputContract()
    if interface.model_input_schema is None or contract.model_input_schema is not None:
        return declaration.input_contract
    runtime = contract.runtime_input_schema
    return replace(
        contract,
        model_input_schema=interface.model_input_schema,
        runtime_input_schema=interface.runtime_input_schema if runtime is None else runtime,
    )


def _refuse_other_identity(declaration: ToolDeclaration, interface: ToolInterface) -> None:
    for member in ("tool_id", "name", "namespace"):
        said, other = getattr(declaration, member), getattr(interface, member)
        if other is not None and other != said:
            raise ConfigError(
                f"the interface of {declaration.name!r} says that its {member} is {other!r}, and its declaration "
                f"{said!r}; correct one of them"
            )


def _refuse_unjudged(told: Told) -> None:
    """Ask a tool that runs commands or code, or writes files, what of its input is to be judged (AT-IFACE-25)."""
    declaration = told.declaration
    writes = AccessKind.FILE_WRITE in (told.permission_profile.access_kinds or ())
    is_judged = declaration.tool_kind in _ALWAYS_JUDGED or (writes and declaration.tool_kind in _JUDGED_IF_WRITING)
    if is_judged and told.interface.classifier_input in (UNSET, None, ""):
        raise ConfigError(
            f"{declaration.name!r} is a {declaration.tool_kind} and does not say what of its input is to be judged; "
            "give its interface a classifier_input, such as 'input.command', or 'input' for all of it"
        )
