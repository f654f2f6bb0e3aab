"""The declaration of a tool that runs on a server: its profiles follow from the facts of its interface."""

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from agenttool.ports.deferred import DeferredTool
from agenttool.ports.executor import Executor
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    AccessKind,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    PermissionProfile,
    PermissionProfileId,
    ResourceLock,
    RiskLevel,
    ToolDeclaration,
    ToolInterface,
    WriteEffect,
)
from agenttool.records import replace as replace_record

_NOTHING: Mapping[str, bool] = MappingProxyType({})


def remote_tool(  # noqa: PLR0913 -- the parts of a declaration
    declaration: ToolDeclaration,
    interface: ToolInterface,
    executor: Executor,
    *,
    kind: ExecutionKind,
    is_idempotent: bool,
    network_scope: str | None,
    approval_reason: str,
    is_trusted: bool,
    later: DeferredTool | None = None,
    locks: tuple[ResourceLock, ...] | None = None,
    locks_by_actor: bool = False,
    supports: Mapping[str, bool] = _NOTHING,
) -> DeclaredTool:
    """Return a tool that reports progress, can be canceled, and shares no state with other conversations.

    Args:
        declaration: what the server describes.
        interface: the facts about its effects, as far as they are trusted.
        executor: sends its calls.
        kind: how calls reach the server.
        is_idempotent: whether a call may run twice.
        network_scope: the origin of the server; None if it is a process on this machine.
        approval_reason: why calls need an approval, if the interface states that the tool is destructive.
        is_trusted: whether the owner trusts what the server states.
        later: follows its deferred results.
        locks: what each of its calls locks.
        locks_by_actor: whether a call excludes only calls of the same actor.
        supports: members of the execution profile that differ from those of other tools.
    """
    tool_id = declaration.tool_id
    is_read_only, is_destructive = interface.is_read_only is True, interface.is_destructive is True
    effect = WriteEffect.LOCAL_PERSISTENT if network_scope is None else WriteEffect.REMOTE_MUTATION
    effect = WriteEffect.IRREVERSIBLE if is_destructive else effect
    profile = ExecutionProfile(
        execution_profile_id=ExecutionProfileId(f"execution:{tool_id}"),
        execution_kind=kind,
        supports_progress=True,
        supports_cancel=True,
        supports_timeout=True,
        supports_result_persistence=True,
        retry_semantics={"idempotent": is_idempotent},
    )
    return DeclaredTool(
        declaration=declaration,
        interface=interface,
        execution_profile=replace_record(profile, **supports) if supports else profile,
        permission_profile=PermissionProfile(
            permission_profile_id=PermissionProfileId(f"permission:{tool_id}"),
            risk_level=RiskLevel.HIGH if is_destructive else RiskLevel.LOW if is_read_only else RiskLevel.MEDIUM,
            access_kinds=None if network_scope is None else (AccessKind.NETWORK, AccessKind.EXTERNAL_SEND),
            write_effects=(WriteEffect.NONE if is_read_only else effect,),
            network_scope=network_scope,
            approval_required=True if is_destructive else False if is_read_only and network_scope is None else None,
            approval_reason=approval_reason if is_destructive else None,
        ),
        executor=executor,
        shared_state=None,
        is_trusted=is_trusted,
        later=later,
        locks=locks,
        locks_by_actor=locks_by_actor,
    )


def network_scope(url: str) -> str:
    """Return the scheme, host and port of a URL, without its user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
