"""The tools of a surface as one provider will be shown them, each with its name, its schema and its reasons."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agenttool.adapters.function_calling.budget import StrictBudget
from agenttool.adapters.function_calling.dialect import Dialect
from agenttool.adapters.function_calling.loose import argument_names, loose_form
from agenttool.adapters.function_calling.names import Claims, claims_of, named
from agenttool.adapters.function_calling.strict import NotStrict, strict_form
from agenttool.ports.calls import Shown
from agenttool.ports.offer import OfferedTool
from agenttool.records import AbsenceReason, AbsentTool, DeferredToolRef, Json, JsonObject, ToolId

OUR_SEARCH = "agenttool.tool_search"
"""The tool by which a model searches here; where the provider has a search of its own, one is enough."""

OUR_READER = "agenttool.read_result"
"""The tool that reads stored output back; it comes with the first output that is stored."""

OUR_OWN = tuple(
    OfferedTool(tool_id=ToolId(f"tool_{each}"), namespace=namespace, name=name, description="", input_schema={})
    for each in (OUR_SEARCH, OUR_READER)
    for namespace, name in (each.split("."),)
)
"""Tools of the runtime that may come to a surface at any time: their names are kept free, so that none is renamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a request says about its tools.

    Attributes:
        tool_choice: `auto`, `none`, `required`, or the name of a tool; none leaves it to the provider.
        strict: strict schemas where they can be had.
        native_search: let the provider's own tool search find deferred tools, if it has one.
    """

    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    strict: bool = True
    native_search: bool = True

    def within(self, model: Mapping[str, Json] | None) -> "Wishes":
        """Give what is left of these for the model that a surface describes; of any other, nothing is assumed."""
        if model is None:
            return self
        return replace(
            self,
            parallel_tool_calls=self.parallel_tool_calls if model.get("parallel_calls") else False,
            strict=self.strict and bool(model.get("strict_schemas")),
            native_search=self.native_search and bool(model.get("deferred_refs")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a provider takes.

    Attributes:
        dialect: its strict mode, if it has one.
        max_deferred: how many deferred tools it is sent at most; if more wait, its own search is not used.
        reserved: names that are its own.
        search_name: what its own tool search is called.
        property_names: what the names of arguments must look like.
    """

    dialect: Dialect | None = None
    max_tools: int | None = None
    max_description: int | None = None
    max_strict_tools: int | None = None
    max_optionals: int | None = None
    max_unions: int | None = None
    has_search: bool = False
    max_deferred: int | None = None
    reserved: frozenset[str] = frozenset()
    search_name: str | None = None
    property_names: re.Pattern[str] | None = None

    def within(self, model: Mapping[str, Json] | None) -> "Limits":
        """Give what is taken for the model that a surface describes: no more tools than it says."""
        most = None if model is None else model.get("max_tools")
        if not isinstance(most, int) or (self.max_tools is not None and self.max_tools <= most):
            return self
        return replace(self, max_tools=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTool:
    """A tool as it is sent.

    Attributes:
        null_is_absent: a null may stand for a member that is left out.
        note: what could not be had, and why.
    """

    name: str
    tool: OfferedTool
    description: str
    schema: JsonObject
    is_strict: bool = False
    null_is_absent: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """What is sent, by the names that the provider knows, and what is not, and why.

    Attributes:
        waiting: what is not sent because it is not loaded.
        known_as: what the model is shown our own tools as, by their qualified names, also those that may come yet.
    """

    shown: Mapping[str, ShownTool]
    left_out: tuple[AbsentTool, ...]
    wishes: Wishes
    waiting: Sequence[OfferedTool | DeferredToolRef] = ()
    known_as: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def told(self) -> Shown:
        """What a model knows of the surface by this."""
        unseen = {each.tool_id: each for each in self.left_out if each.tool_id is not None}
        return Shown(known_as=self.known_as, unseen=unseen)

    @property
    def has_deferred(self) -> bool:
        """Tell whether something on it is found by the provider's own search."""
        return any(each.tool.is_deferred for each in self.shown.values())


def make_menu(
    offered: Iterable[OfferedTool],
    limits: Limits,
    wishes: Wishes,
    *,
    waiting: Sequence[OfferedTool | DeferredToolRef] = (),
    claims: Claims | None = None,
) -> Menu:
    """Put together what a provider is sent; a tool that it would refuse is left out, and costs none of the others.

    Args:
        offered: the tools of a surface; of those that wait, all or none.
        limits: what the provider takes.
        wishes: what the request says about its tools.
        waiting: those that wait, if they are not among the others.
        claims: the names that all of them want; they are found out if left out.
    """
    chosen = tuple(offered)
    searches = not waiting and _can_search(chosen, limits, wishes)
    later = waiting if searches or waiting else tuple(tool for tool in chosen if tool.is_deferred)
    sent = [tool for tool in chosen if _is_sent(tool, searches=searches)]
    names, known_as = _names(sent, limits, claims_on((*chosen, *waiting)) if claims is None else claims)
    if searches and limits.search_name is not None:
        known_as[OUR_SEARCH] = limits.search_name
    budget = StrictBudget(limits.max_strict_tools, limits.max_optionals, limits.max_unions)
    shown: dict[str, ShownTool] = {}
    left_out: list[AbsentTool] = []
    kept_free = sum(tool.qualified_name == OUR_SEARCH for tool in sent)  # what does not fit is found by it
    for name, tool in sorted(names.items(), key=_place):
        kept_free -= tool.qualified_name == OUR_SEARCH
        reason = _why_not(tool, limits, len(shown) + kept_free)
        if reason is None:
            shown[name] = _shown(name, tool, limits, wishes, budget)
        else:
            left_out.append(_absent(tool, *reason))
    return Menu(shown=shown, left_out=tuple(left_out), wishes=wishes, waiting=later, known_as=known_as)


def claims_on(tools: Iterable[OfferedTool | DeferredToolRef]) -> Claims:
    """Count the names that the tools of a surface want, and those of ours that may come to it."""
    ours = frozenset((each.namespace, each.name) for each in OUR_OWN)
    return claims_of((*(each for each in tools if (each.namespace, each.name) not in ours), *OUR_OWN))


def may_search(waiting: int, limits: Limits, wishes: Wishes) -> bool:
    """Tell whether a provider's own search could be left so many tools; if not, nobody need describe them."""
    most = limits.max_deferred or limits.max_tools
    return wishes.native_search and limits.has_search and (most is None or waiting <= most)


def _can_search(tools: Sequence[OfferedTool], limits: Limits, wishes: Wishes) -> bool:
    """Tell whether all that waits can be left to the provider's own search; some of it would be worse than none."""
    waiting = sum(tool.is_deferred for tool in tools)
    fits = limits.max_tools is None or len(tools) <= limits.max_tools
    return may_search(waiting, limits, wishes) and waiting > 0 and fits


def _names(
    sent: Sequence[OfferedTool], limits: Limits, claims: Claims
) -> tuple[dict[str, OfferedTool], dict[str, str]]:
    """Name what is sent, and say what our own tools are called, also those that are not there yet."""
    there = frozenset(tool.qualified_name for tool in sent)
    absent = [tool for tool in OUR_OWN if tool.qualified_name not in there]
    names = named((*sent, *absent), limits.reserved, claims=claims)
    ours = frozenset(tool.qualified_name for tool in OUR_OWN)
    known_as = {tool.qualified_name: name for name, tool in names.items() if tool.qualified_name in ours}
    return {name: tool for name, tool in names.items() if tool.qualified_name in there}, known_as


def _is_sent(tool: OfferedTool, *, searches: bool) -> bool:
    return tool.qualified_name != OUR_SEARCH if searches else not tool.is_deferred


def _place(named_tool: tuple[str, OfferedTool]) -> tuple[bool, str]:
    """Put what waits behind the rest, in an order of its own, so that finding some does not change a request."""
    name, tool = named_tool
    return (True, name) if tool.is_deferred else (False, "")


def _why_not(tool: OfferedTool, limits: Limits, before: int) -> tuple[str, str] | None:
    """Say why a tool cannot be sent, and what would change that."""
    if limits.max_tools is not None and before >= limits.max_tools:
        return f"a request takes at most {limits.max_tools} tools", "defer some tools, or ask for fewer"
    pattern = limits.property_names
    names = () if pattern is None else argument_names(tool.input_schema)
    strange = [name for name in names if pattern and not pattern.fullmatch(name)]
    if strange:
        return f"the provider takes no argument named {strange[0]!r}", "rename the argument"
    return None


def _shown(name: str, tool: OfferedTool, limits: Limits, wishes: Wishes, budget: StrictBudget) -> ShownTool:
    strict = _strict(tool, limits, wishes, budget)
    if isinstance(strict, dict):
        description = _cut(tool.description, None, limits)
        return ShownTool(
            name=name,
            tool=tool,
            description=description,
            schema=strict,
            is_strict=True,
            null_is_absent=limits.dialect is not None and limits.dialect.all_required,
            note=_notes(tool, description),
        )
    loose = loose_form(tool.input_schema)
    description = _cut(tool.description, loose.remark, limits)
    reason = None if strict is None else f"not strict: {strict.reason}"
    return ShownTool(
        name=name, tool=tool, description=description, schema=loose.schema, note=_notes(tool, description, reason)
    )


def _strict(tool: OfferedTool, limits: Limits, wishes: Wishes, budget: StrictBudget) -> JsonObject | NotStrict | None:
    if limits.dialect is None or not wishes.strict:
        return None
    if tool.strict is False:
        return NotStrict("its author does not want it")
    spelled = strict_form(tool.input_schema, limits.dialect)
    if isinstance(spelled, NotStrict):
        return spelled
    return spelled if budget.take(spelled) else NotStrict("a request takes only so many strict schemas")


def _cut(description: str, remark: str | None, limits: Limits) -> str:
    """Keep a description to what a provider takes; a remark about the schema is the last that is cut."""
    most = limits.max_description
    told = description if remark is None else f"{description}\n{remark}"
    if most is None or len(told) <= most:
        return told
    left = most - 2 - len(remark or "")
    if remark is not None and left > 0:
        return f"{description[:left]}…\n{remark}"
    return f"{told[: most - 1]}…"


def _notes(tool: OfferedTool, description: str, reason: str | None = None) -> str | None:
    is_whole = description.startswith(tool.description)
    cut = None if is_whole else "its description is cut, as the provider takes no longer one"
    return "; ".join(each for each in (reason, cut) if each) or None


def _absent(tool: OfferedTool, message: str, change: str) -> AbsentTool:
    return AbsentTool(
        tool_id=tool.tool_id,
        name=tool.qualified_name,
        reason=AbsenceReason.MODEL_UNSUPPORTED,
        message=message,
        may_change=True,
        would_change=change,
    )
