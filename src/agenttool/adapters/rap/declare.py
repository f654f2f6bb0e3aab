"""A server's manifest to declared tools: all of it or nothing, and never more trusted than the deployment says."""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from agenttool.adapters.rap.courier import Courier
from agenttool.adapters.rap.settings import RapSource
from agenttool.adapters.rap.subscriptions import RESERVED
from agenttool.adapters.rap.wire import Manifest, ToolDefinition, read_manifest
from agenttool.errors import RecordError
from agenttool.ports.deferred import DeferredTool
from agenttool.ports.executor import Executor
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    AccessKind,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    Json,
    JsonObject,
    Lifecycle,
    PermissionProfile,
    PermissionProfileId,
    RapMapping,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    WriteEffect,
)

log = logging.getLogger("agenttool.rap")

WELL_KNOWN = "/.well-known/rap-toolset"
_PREFIX = "tool_"
_KNOWS_US_NOT = (401, 403)
_NOBODY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """What a server said that it offers; of a server that could not be heard, why not.

    Attributes:
        is_away: nobody answered, so that it may come by itself.
        withheld: names that another toolset uses as well, or that are reserved, so that it does not offer them.
    """

    source: RapSource
    manifest: Manifest | None = None
    fault: str | None = None
    is_away: bool = False
    withheld: frozenset[str] = frozenset()

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that are its own, offered or not: a reserved name is nobody's."""
        tools = () if self.manifest is None else self.manifest.tools
        return tuple(tool for tool in tools if tool.name not in RESERVED)


async def discover(source: RapSource, courier: Courier) -> Toolset:
    """Ask a server what it offers; whatever is wrong with the answer costs all of its tools."""
    url = source.base + WELL_KNOWN
    reply = await courier.get(url, source.headers("GET", url))
    if not reply.is_accepted:
        told = reply.fault or f"it answered {reply.status}"
        advice = "check its url" if reply.status not in _KNOWS_US_NOT else "check what is shown to it; its log says why"
        fault = f"the manifest of {source.name!r} cannot be had: {told}; {advice}, it is asked again by itself"
        return Toolset(source=source, fault=fault, is_away=reply.is_worth_retrying)
    digest = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
    if source.pin not in (None, digest):
        told = f"the manifest of {source.name!r} is not the one that was pinned; look at it, and pin {digest}"
        return Toolset(source=source, fault=told)
    try:
        manifest = read_manifest(reply.body)
    except RecordError as error:
        told = f"the manifest of {source.name!r} is not valid, so none of its tools is offered: {error}"
        return Toolset(source=source, fault=told)
    if source.credential is not None and not source.is_known_at(manifest.endpoint):
        told = (
            "calls of %r go to another origin, which is not shown the credential; name it in presents_to if it may be"
        )
        log.warning(told, source.name)
    for tool in manifest.tools:
        if tool.odd_hints:
            named = ", ".join(map(repr, tool.odd_hints))
            log.warning("hints of %r of %r are not gone by, for they make no sense: %s", tool.name, source.name, named)
    return Toolset(source=source, manifest=manifest)


def without_clashes(toolsets: Iterable[Toolset], offered: Mapping[str, str] = _NOBODY) -> tuple[Toolset, ...]:
    """Withhold every name that two toolsets use, from both of them, and every reserved one.

    Of servers that come one after the other, the one that offers a name already keeps it for as long as the runtime
    lasts: what is in use must not be taken away by whoever comes later and names a tool of its own like it.

    Args:
        toolsets: all that servers said by now.
        offered: the names that are offered already, and by which source.
    """
    found = tuple(toolsets)
    owners: dict[str, list[str]] = {}
    for each in found:
        for tool in () if each.manifest is None else each.manifest.tools:
            owners.setdefault(tool.name, []).append(each.source.name)
    return tuple(_withholding(each, owners, offered) for each in found)


def _withholding(toolset: Toolset, owners: Mapping[str, list[str]], offered: Mapping[str, str]) -> Toolset:
    own = toolset.source.name
    tools = () if toolset.manifest is None else toolset.manifest.tools
    clashing = [tool.name for tool in tools if len(owners[tool.name]) > 1 or tool.name in RESERVED]
    why = {name: _why_withheld(name, own, owners[name], offered) for name in sorted(clashing)}
    withheld = {name: told for name, told in why.items() if told}
    if not withheld:
        return toolset
    reasons = {told: [name for name in withheld if withheld[name] == told] for told in dict.fromkeys(withheld.values())}
    listed = "; ".join(f"{', '.join(map(repr, names))}, for {told}" for told, names in reasons.items())
    fault = f"tools of {own!r} cannot be offered: {listed}"
    return replace(toolset, withheld=frozenset(withheld), fault=fault)


def _why_withheld(name: str, source: str, owners: Iterable[str], offered: Mapping[str, str]) -> str:
    """Say why a source does not offer a name; nothing if it does."""
    if name in RESERVED:
        return "that name is reserved"
    others = sorted({each for each in owners if each != source})
    holder = offered.get(name)
    if not others or holder == source:
        return ""
    if holder is not None:
        return f"{holder!r} came first and keeps that name until the runtime is opened anew; rename one of them"
    return f"{' and '.join(map(repr, others))} has that name, too, so nobody offers it; rename one of them"


def prefix_of(source: RapSource) -> str:
    """Give what the ids of all tools of a server begin with."""
    return f"{_PREFIX}{source.name}."


def source_name_in(tool_id: ToolId) -> str:
    """Name the server of a tool; a name holds no dot."""
    return tool_id.removeprefix(_PREFIX).partition(".")[0]


def declare(
    toolset: Toolset, manifest: Manifest, tool: ToolDefinition, executor: Executor, later: DeferredTool
) -> DeclaredTool:
    """Declare one tool. What its server says of it can make us more careful, and less only where it is trusted.

    One that is withheld is declared as disabled: nobody can call it, and calls of it that wait come to their ends.
    """
    source, claims = toolset.source, _claims(toolset.source, tool)
    tool_id = ToolId(prefix_of(source) + tool.name)
    mapping = RapMapping(toolset=manifest.name, base_url=source.base, endpoint=manifest.endpoint, operation=tool.name)
    return DeclaredTool(
        declaration=ToolDeclaration(
            tool_id=tool_id,
            namespace=source.name,
            name=tool.name,
            description=tool.description,
            lifecycle=Lifecycle.DISABLED if tool.name in toolset.withheld else Lifecycle.AVAILABLE,
            tool_kind=ToolKind.NATIVE_TOOL,
            input_contract=InputContract(model_input_schema=tool.input_schema, runtime_input_schema=tool.input_schema),
            interface_ref=InterfaceId(f"interface:{tool_id}"),
            execution_profile_ref=ExecutionProfileId(f"execution:{tool_id}"),
            permission_profile_ref=PermissionProfileId(f"permission:{tool_id}"),
            external_mappings=(mapping,),
            annotations=claims.told,
        ),
        interface=_interface(tool_id, claims),
        execution_profile=_execution_profile(tool_id, claims),
        permission_profile=_permission_profile(tool_id, source, claims),
        executor=executor,
        is_trusted=source.trusts_annotations,
        later=later,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    """What a server says of a tool, as far as we go by it; `told` is all that it says, with what is only its word."""

    only_reads: bool
    destroys: bool
    may_repeat: bool
    told: JsonObject | None


def _claims(source: RapSource, tool: ToolDefinition) -> _Claims:
    said = tool.hints
    is_trusted = source.trusts_annotations
    told: JsonObject | None = None
    if said:
        untrusted: list[Json] = [] if is_trusted else [*sorted(said)]
        told = {"rap": said, "untrusted": untrusted}
    return _Claims(
        only_reads=is_trusted and said.get("readOnly") is True,
        destroys=said.get("destructive") not in (None, False),  # also where nobody knows what it means by it
        may_repeat=is_trusted and said.get("idempotent") is True,
        told=told,
    )


def _interface(tool_id: ToolId, claims: _Claims) -> ToolInterface:
    return ToolInterface(
        interface_id=InterfaceId(f"interface:{tool_id}"),
        tool_id=tool_id,
        is_read_only=claims.only_reads,
        is_destructive=True if claims.destroys else False if claims.only_reads else None,
        # What takes its turn here is handing the work over; what the server does then is in its own order.
        is_concurrency_safe=True,
        is_open_world=True,
        interrupt_behavior=InterruptBehavior.CANCEL,
    )


def _execution_profile(tool_id: ToolId, claims: _Claims) -> ExecutionProfile:
    return ExecutionProfile(
        execution_profile_id=ExecutionProfileId(f"execution:{tool_id}"),
        execution_kind=ExecutionKind.HTTP_API,
        supports_cancel=True,
        supports_timeout=True,
        supports_resume=True,
        supports_background=True,
        supports_result_persistence=True,
        supports_artifacts=True,
        retry_semantics={"idempotent": True} if claims.may_repeat else {"idempotent": False},
    )


def _permission_profile(tool_id: ToolId, source: RapSource, claims: _Claims) -> PermissionProfile:
    effect = WriteEffect.IRREVERSIBLE if claims.destroys else WriteEffect.REMOTE_MUTATION
    return PermissionProfile(
        permission_profile_id=PermissionProfileId(f"permission:{tool_id}"),
        risk_level=RiskLevel.HIGH if claims.destroys else RiskLevel.MEDIUM,
        access_kinds=(AccessKind.NETWORK, AccessKind.EXTERNAL_SEND),
        write_effects=(WriteEffect.NONE,) if claims.only_reads else (effect,),
        network_scope=source.base,
        approval_required=True if claims.destroys else None,
        approval_reason="its server says that it destroys things" if claims.destroys else None,
    )
