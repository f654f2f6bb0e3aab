"""The conversion of a server's manifest to declared tools: all of it or nothing, trusted only as far as configured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from agenttool.adapters.rap.execute import RapExecutor
from agenttool.adapters.rap.settings import RapServer
from agenttool.adapters.rap.subscriptions import RESERVED
from agenttool.adapters.rap.wire import Manifest, ToolDefinition
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

_PREFIX = "tool_"
_SUPPORTED = {"supports_progress": False} | dict.fromkeys(
    ("supports_resume", "supports_background", "supports_artifacts"), True
)
_NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The manifest of a server, or why there is none.

    Attributes:
        manifest: of a server that is away, the latest one that it sent.
        document: the manifest as the server sent it.
        is_away: whether the server did not answer, so that a later try may succeed.
        withheld: tool names that are reserved or that another toolset uses; these tools are not offered.
    """

    source: RapServer
    manifest: Manifest | None = None
    document: bytes = field(default=b"", repr=False)
    fault: str | None = None
    is_away: bool = False
    withheld: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools in the manifest."""
        return () if self.manifest is None else tuple(tool.name for tool in self.manifest.tools)

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The server's tools, offered or not, except those with reserved names."""
        tools = () if self.manifest is None else self.manifest.tools
        return tuple(tool for tool in tools if tool.name not in RESERVED)


def withhold_clashes(toolsets: Iterable[Toolset], offered: Mapping[str, str] = _NO_NAMES) -> tuple[Toolset, ...]:
    """Return the toolsets with every reserved name, and every name that two of them use, withheld.

    A source that offers a name already keeps it as long as the runtime is open: a server that answers later cannot
    take away a tool that is in use.

    Args:
        toolsets: the manifests known by now.
        offered: the names that are offered already, and by which source.
    """
    found = tuple(toolsets)
    owners: dict[str, list[str]] = {}
    for each in found:
        for name in each.names:
            owners.setdefault(name, []).append(each.source.name)
    return tuple(_withhold(each, owners, offered) for each in found)


def _withhold(toolset: Toolset, owners: Mapping[str, list[str]], offered: Mapping[str, str]) -> Toolset:
    own = toolset.source.name
    reasons = {name: _withheld_reason(name, own, owners[name], offered.get(name)) for name in sorted(toolset.names)}
    withheld = {name: reason for name, reason in reasons.items() if reason}
    if not withheld:
        return toolset
    listed = "; ".join(f"{name!r}, because {reason}" for name, reason in withheld.items())
    return replace(toolset, withheld=frozenset(withheld), fault=f"tools of {own!r} cannot be offered: {listed}")


def _withheld_reason(name: str, source: str, owners: Iterable[str], holder: str | None) -> str:
    """Return why a source does not offer a name; empty if it does. The holder is the source that offers it already."""
    others = sorted({each for each in owners if each != source})
    if name in RESERVED:
        return "that name is reserved"
    if not others or holder == source:
        return ""
    if holder is not None:
        return f"{holder!r} offers that name already, until the runtime is opened again; rename one of them"
    return f"{' and '.join(map(repr, others))} has that name, too, so no source offers it; rename one of them"


def source_name_in(tool_id: ToolId) -> str:
    """Return the name of a tool's server, which contains no dot."""
    return tool_id.removeprefix(_PREFIX).partition(".")[0]


def is_repeatable(source: RapServer, tool: ToolDefinition) -> bool:
    """Return whether a trusted server says that a tool may run twice: it is idempotent, or only reads."""
    return source.trusts_annotations and any(tool.hints.get(each) is True for each in ("idempotent", "readOnly"))


def declare(toolset: Toolset, tool: ToolDefinition, executor: RapExecutor) -> DeclaredTool:
    """Return the declaration of one tool.

    The server's annotations can tighten the declaration, and relax it only if the source is trusted. A withheld tool
    is declared as disabled: it cannot be called, and calls of it that wait can still end.
    """
    source, hints, is_trusted = toolset.source, tool.hints, toolset.source.trusts_annotations
    is_read_only = is_trusted and hints.get("readOnly") is True
    is_destructive = hints.get("destructive") not in (None, False)  # also for a value of an unknown meaning
    tool_id = ToolId(f"{_PREFIX}{source.name}.{tool.name}")
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
