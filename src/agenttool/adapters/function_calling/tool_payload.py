"""The tools of a surface as one provider receives them, the tool choice, and the tools that are left out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenttool.adapters.function_calling.function_names import NameCounts, assign_names, count_names
from agenttool.adapters.function_calling.lenient_schema import argument_names, lenient_schema
from agenttool.adapters.function_calling.strict_schema import NotStrictError, StrictBudget, StrictDialect, strict_schema
from agenttool.errors import ConfigError
from agenttool.ports.calls import Shown
from agenttool.ports.offer import OfferedTool
from agenttool.records import AbsenceReason, AbsentTool, DeferredToolRef, Json, JsonObject, ToolId
from agenttool.schema.drafts import implies_draft_4

SEARCH_TOOL = "agenttool.tool_search"
"""The runtime's own search tool; not sent where the provider's native search is used."""

READ_RESULT_TOOL = "agenttool.read_result"
"""The tool that reads stored output; it joins a surface with the first output that is stored."""

BUILT_IN_TOOLS = {
    each: OfferedTool(tool_id=ToolId(f"tool_{each}"), namespace=namespace, name=name, description="", input_schema={})
    for each in (SEARCH_TOOL, READ_RESULT_TOOL)
    for namespace, name in (each.split("."),)
}
"""Tools of the runtime that may join a surface at any time; their names are reserved, so that no tool is renamed."""

_DRAFT_4_NOTE = "its schema is read as draft 4 of JSON Schema, because an exclusive limit in it is true or false"
_CHOICE_WORDS = (None, "auto", "none", "required")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequestOptions:
    """Options of a request about its tools.

    Attributes:
        tool_choice: `auto`, `none`, `required`, or the name of a tool; None for the provider's default.
        strict: use strict schemas where a tool has one.
        native_search: send deferred tools, so that the provider's own tool search finds them, if it has one.
    """

    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    strict: bool = True
    native_search: bool = False

    def for_model(self, model: Mapping[str, Json] | None) -> "ToolRequestOptions":
        """Return the options that the described model supports; without a description, all of them."""
        if model is None:
            return self
        return replace(
            self,
            parallel_tool_calls=self.parallel_tool_calls if model.get("parallel_calls") else False,
            strict=self.strict and bool(model.get("strict_schemas")),
            native_search=self.native_search and bool(model.get("deferred_refs")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """What a provider accepts in one request.

    Attributes:
        dialect: its strict mode, if it has one.
        strict_budget: its limits on all strict schemas of a request together.
        max_deferred: deferred tools for its native search; with more, the native search is not used.
        reserved: function names that are its own.
        search_name: the name of its native tool search; None if it has none.
        property_names: the pattern of argument names.
    """

    dialect: StrictDialect | None = None
    max_tools: int | None = None
    max_description: int | None = None
    strict_budget: StrictBudget = field(default_factory=StrictBudget)
    max_deferred: int | None = None
    reserved: frozenset[str] = frozenset()
    search_name: str | None = None
    property_names: re.Pattern[str] | None = None

    def for_model(self, model: Mapping[str, Json] | None) -> "ProviderLimits":
        """Return these limits with no more tools than the described model takes."""
        most = None if model is None else model.get("max_tools")
        if not isinstance(most, int) or (self.max_tools is not None and self.max_tools <= most):
            return self
        return replace(self, max_tools=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadTool:
    """A tool as it is sent.

    Attributes:
        note: how its schema is read, why the tool is not strict, or why its description is cut.
    """

    name: str
    tool: OfferedTool
    description: str
    schema: JsonObject
    is_strict: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPayload:
    """The tools of a request by their function names, and the tools that are left out.

    Attributes:
        deferred: tools that are not sent because they are not loaded.
        built_in_names: the function names of the runtime's own tools by qualified name, absent ones included.
    """

    tools: Mapping[str, PayloadTool]
    left_out: tuple[AbsentTool, ...]
    options: ToolRequestOptions
    deferred: Sequence[OfferedTool | DeferredToolRef] = ()
    built_in_names: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def shown(self) -> Shown:
        """What a model knows of the surface by this payload."""
        unseen = {each.tool_id: each for each in self.left_out if each.tool_id is not None}
        return Shown(known_as=self.built_in_names, unseen=unseen)

    @property
    def has_deferred(self) -> bool:
        """Whether the provider's native search has tools to find."""
        return any(each.tool.is_deferred for each in self.tools.values())


def build_payload(
    offered: Iterable[OfferedTool],
    limits: ProviderLimits,
    options: ToolRequestOptions,
    *,
    deferred: Sequence[OfferedTool | DeferredToolRef] = (),
    counts: NameCounts | None = None,
) -> ToolPayload:
    """Build what a provider is sent; a tool that it would reject is left out.

    Args:
        offered: the tools of a surface, with all of its deferred tools or none of them.
        limits: what the provider accepts.
        options: the options of the request.
        deferred: the deferred tools, if they are not among `offered`.
        counts: the name counts of all of them; computed if left out.
    """
    chosen = tuple(offered)
    searches = not deferred and _can_search(chosen, limits, options)
    later = deferred if searches or deferred else tuple(tool for tool in chosen if tool.is_deferred)
    sent = [tool for tool in chosen if (tool.qualified_name != SEARCH_TOOL if searches else not tool.is_deferred)]
    counts = count_surface_names((*chosen, *deferred)) if counts is None else counts
    names, built_in_names = _assign(sent, limits, counts)
    if searches and limits.search_name is not None:
        built_in_names[SEARCH_TOOL] = limits.search_name
    budget = replace(limits.strict_budget)
    tools: dict[str, PayloadTool] = {}
    left_out: list[AbsentTool] = []
    reserved = sum(tool.qualified_name == SEARCH_TOOL for tool in sent)  # it finds the tools that do not fit
    # Deferred tools come last and by name, so that loading one does not change the order.
    for name, tool in sorted(names.items(), key=lambda each: each[0] if each[1].is_deferred else ""):
        reserved -= tool.qualified_name == SEARCH_TOOL
        reason = _rejection(tool, limits, len(tools) + reserved)
        if reason is None:
            tools[name] = _payload_tool(name, tool, limits, options, budget)
        else:
            left_out.append(_absent(tool, *reason))
    return ToolPayload(
        tools=tools, left_out=tuple(left_out), options=options, deferred=later, built_in_names=built_in_names
    )


def count_surface_names(tools: Iterable[OfferedTool | DeferredToolRef]) -> NameCounts:
    """Count the names of a surface's tools and of the built-in tools that may join it."""
    others = (each for each in tools if f"{each.namespace}.{each.name}" not in BUILT_IN_TOOLS)
    return count_names((*others, *BUILT_IN_TOOLS.values()))


def fits_native_search(deferred: int, limits: ProviderLimits, options: ToolRequestOptions) -> bool:
    """Return whether the provider's native search takes this many deferred tools."""
    most = limits.max_deferred or limits.max_tools
    return options.native_search and limits.search_name is not None and (most is None or deferred <= most)


def chosen_name(payload: ToolPayload) -> str | None:
    """Return the function name of the tool that must be called; None if the choice names no tool.

    Raises:
        ConfigError: the choice names no tool that is sent, or several.
    """
    choice = payload.options.tool_choice
    if choice in _CHOICE_WORDS:
        return None
    tools = {name: each.tool for name, each in payload.tools.items()}
    spellings = {name: (name, tool.qualified_name, tool.name, tool.tool_id) for name, tool in tools.items()}
    by_rank = ([name for name, each in spellings.items() if each[rank] == choice] for rank in range(4))
    found = next(filter(None, by_rank), list[str]())
    if len(found) > 1:
        owners = ", ".join(sorted(repr(tools[name].qualified_name) for name in found))
        raise ConfigError(f"tool_choice {choice!r} matches {len(found)} tools; use one of {owners}")
    if not found:
        raise ConfigError(f"tool_choice {choice!r} is not sent{_reason_not_sent(payload, choice)}")
    if tools[found[0]].is_deferred:
        raise ConfigError(f"tool_choice {choice!r} is not loaded; load it first, with `tools.load`")
    return found[0]


def _reason_not_sent(payload: ToolPayload, choice: str) -> str:
    left_out = next((each for each in payload.left_out if choice in (each.name, each.tool_id)), None)
    if left_out is not None:
        return f": {left_out.message}; {left_out.would_change}"
    if any(choice in (each.name, f"{each.namespace}.{each.name}", each.tool_id) for each in payload.deferred):
        return ", because it is not loaded; load it first, with `tools.load`"
    return "; name a tool of the surface, or use auto, none or required"


def _can_search(tools: Sequence[OfferedTool], limits: ProviderLimits, options: ToolRequestOptions) -> bool:
    """Return whether the native search takes all deferred tools; a part of them would hide the rest."""
    deferred = sum(tool.is_deferred for tool in tools)
    fits = limits.max_tools is None or len(tools) <= limits.max_tools
    return fits_native_search(deferred, limits, options) and deferred > 0 and fits


def _assign(
    sent: Sequence[OfferedTool], limits: ProviderLimits, counts: NameCounts
) -> tuple[dict[str, OfferedTool], dict[str, str]]:
    """Name the tools that are sent, and all built-in tools."""
    present = {tool.qualified_name: tool for tool in sent}
    absent = (tool for name, tool in BUILT_IN_TOOLS.items() if name not in present)
    names = assign_names((*sent, *absent), limits.reserved, counts=counts)
    built_in = {tool.qualified_name: name for name, tool in names.items() if tool.qualified_name in BUILT_IN_TOOLS}
    return {name: tool for name, tool in names.items() if tool.qualified_name in present}, built_in


def _rejection(tool: OfferedTool, limits: ProviderLimits, before: int) -> tuple[str, str] | None:
    """Return why a tool cannot be sent, and what to change."""
    if limits.max_tools is not None and before >= limits.max_tools:
        return f"a request takes at most {limits.max_tools} tools", "defer some tools, or offer fewer"
    pattern = limits.property_names
    for name in argument_names(tool.input_schema) if pattern else ():
        if pattern and not pattern.fullmatch(name):
            return f"the provider takes no argument named {name!r}", "rename the argument"
    return None


def _payload_tool(
    name: str, tool: OfferedTool, limits: ProviderLimits, options: ToolRequestOptions, budget: StrictBudget
) -> PayloadTool:
    reason = strict = None
    if limits.dialect is not None and options.strict:
        try:
            strict = _strict(tool, limits.dialect, budget)
        except NotStrictError as error:
            reason = f"not strict: {error}"
    schema, remark = lenient_schema(tool.input_schema) if strict is None else (strict, None)
    description = _cut(tool.description, remark, limits)
    cut = None if description.startswith(tool.description) else "its description is cut to the provider's limit"
    draft = _DRAFT_4_NOTE if implies_draft_4(tool.input_schema) else None
    return PayloadTool(
        name=name,
        tool=tool,
        description=description,
        schema=schema,
        is_strict=strict is not None,
        note="; ".join(each for each in (draft, reason, cut) if each) or None,
    )


def _strict(tool: OfferedTool, dialect: StrictDialect, budget: StrictBudget) -> JsonObject:
    if tool.strict is False:
        raise NotStrictError("its author switched strict mode off")
    strict = strict_schema(tool.input_schema, dialect)
    if not budget.take(strict):
        raise NotStrictError("the provider's limit of strict schemas is reached")
    return strict


def _cut(description: str, remark: str | None, limits: ProviderLimits) -> str:
    """Cut a description to the provider's limit; the remark about the schema is cut last."""
    most = limits.max_description
    whole = description if remark is None else f"{description}\n{remark}"
    if most is None or len(whole) <= most:
        return whole
    left = most - 2 - len(remark or "")
    if remark is not None and left > 0:
        return f"{description[:left]}…\n{remark}"
    return f"{whole[: most - 1]}…"


def _absent(tool: OfferedTool, message: str, change: str) -> AbsentTool:
    return AbsentTool(
        tool_id=tool.tool_id,
        name=tool.qualified_name,
        reason=AbsenceReason.MODEL_UNSUPPORTED,
        message=message,
        may_change=True,
        would_change=change,
    )
