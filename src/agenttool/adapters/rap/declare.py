"""The conversion of a server's manifest to declared tools: all of it or nothing, trusted only as far as configured."""

from agenttool.adapters.rap.discovery import Toolset
from agenttool.adapters.rap.execute import RapExecutor
from agenttool.adapters.rap.settings import TOOL_PREFIX
from agenttool.adapters.remote_tool import remote_tool
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    ExecutionKind,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    Json,
    Lifecycle,
    RapMapping,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
)

_SUPPORTED = {"supports_progress": False} | dict.fromkeys(
    ("supports_resume", "supports_background", "supports_artifacts"), True
)


def declare(toolset: Toolset, executor: RapExecutor) -> DeclaredTool:
    """Return the declaration of one tool.

    The server's annotations can tighten the declaration, and relax it only if the source is trusted. A withheld tool
    is declared as disabled: it cannot be called, and calls of it that wait can still end.
    """
    source, tool = toolset.source, executor.tool
    hints, is_trusted = tool.hints, source.trusts_annotations
    is_read_only = is_trusted and hints.get("readOnly") is True
    is_destructive = hints.get("destructive") not in (None, False)  # also for a value of an unknown meaning
    tool_id = ToolId(f"{TOOL_PREFIX}{source.name}.{tool.name}")
    manifest = executor.manifest
    mapping = RapMapping(toolset=manifest.name, base_url=source.base, endpoint=manifest.endpoint, operation=tool.name)
    untrusted: list[Json] = [] if is_trusted else [*sorted(hints)]
    return remote_tool(
        ToolDeclaration(
            tool_id=tool_id,
            namespace=source.name,
            name=tool.name,
            description=tool.description,
            lifecycle=Lifecycle.DISABLED if tool.name in toolset.withheld else Lifecycle.AVAILABLE,
            tool_kind=ToolKind.NATIVE_TOOL,
            input_contract=InputContract(model_input_schema=tool.input_schema, runtime_input_schema=tool.input_schema),
            external_mappings=(mapping,),
            annotations={"rap": hints, "untrusted": untrusted} if hints else None,
        ),
        ToolInterface(
            interface_id=InterfaceId(f"interface:{tool_id}"),
            tool_id=tool_id,
            is_read_only=is_read_only,
            is_destructive=True if is_destructive else False if is_read_only else None,
            # Only the dispatch runs here; the server orders the work itself.
            is_concurrency_safe=True,
            is_open_world=True,
            interrupt_behavior=InterruptBehavior.CANCEL,
        ),
        executor,
        kind=ExecutionKind.HTTP_API,
        is_idempotent=is_trusted and hints.get("idempotent") is True,
        network_scope=source.base,
        approval_reason="its server says that it destroys things",
        is_trusted=is_trusted,
        later=executor,
        supports=_SUPPORTED,
    )
