"""Access to the surfaces of a runtime, to its parts, and to decisions about calls that are not made."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Unpack

from agenttool.agent.agent import Agent
from agenttool.agent.surface_options import Changes
from agenttool.agent.surfaces import offered_tools
from agenttool.catalog.entry import Entry
from agenttool.errors import ConfigError
from agenttool.journal.journal import follow_facts
from agenttool.policy.decide import Policy
from agenttool.policy.matching import matches
from agenttool.policy.rule_settings import rules_in
from agenttool.policy.rules import Rule
from agenttool.policy.suggest import suggest
from agenttool.policy.verdict import Verdict
from agenttool.ports.facts import Fact
from agenttool.ports.offer import OfferedTool
from agenttool.ports.stores import DocumentStore, EventLog
from agenttool.records import (
    JsonObject,
    SuggestedUpdate,
    SurfaceId,
    ToolId,
    ToolSurface,
)
from agenttool.schema.explain import Misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTrial:
    """The decision about a call that was not made.

    Attributes:
        misfits: where the arguments do not fit the schema; such a call ends before a decision.
    """

    entry: Entry
    verdict: Verdict
    suggested_updates: tuple[SuggestedUpdate, ...]
    misfits: tuple[Misfit, ...]


class Inspection:
    """The parts of a runtime, and trial decisions: `rt.inspection`. Nothing here runs or records a call."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def policy(self) -> Policy:
        """The rules and the mode that are in force."""
        return self._agent.core.policy

    @property
    def documents(self) -> DocumentStore | None:
        """The store of small documents beside the journal; None if the store has none."""
        return self._agent.core.durability.documents

    @property
    def is_durable(self) -> bool:
        """Whether another process can recover the calls of this one."""
        return self._agent.core.durable

    @property
    def store_fault(self) -> str | None:
        """Why the durable store could not be used at the last check, seconds ago; None if it could."""
        return self._agent.recovery.fault

    @property
    def log(self) -> EventLog:
        """The log of facts, for readers of a runtime in memory."""
        return self._agent.core.journal.log

    def facts(self, after: int = 0) -> AsyncGenerator[tuple[int, Fact]]:
        """Follow the facts of the log, of all processes, as `journal.events` follows events."""
        return follow_facts(self._agent.core.journal, after)

    def tools(self) -> tuple[Entry, ...]:
        """Return all declared tools, also those that no surface offers, in the order of their declaration."""
        return tuple(self._agent.catalog)

    def watch_tools(self, changed: Callable[[], object]) -> Callable[[], object]:
        """Call a function after tools were declared or the situation changed, until the returned function is called.

        It is called in the thread of the change, and once until the default surface is read again.
        """
        watchers, watcher = self._agent.surfacing.surfaces.watchers, object()
        watchers[watcher] = changed
        return lambda: watchers.pop(watcher, None)

    def tool(self, name: str) -> Entry | None:
        """Return a tool by its qualified name, its id, or a name that only one tool has."""
        catalog = self._agent.catalog
        found = catalog.owner(name) or catalog.find(ToolId(name))
        if found is not None:
            return found
        named = [each for each in catalog if each.tool.declaration.name == name]
        return named[0] if len(named) == 1 else None

    def misfits(self, entry: Entry, arguments: JsonObject) -> tuple[Misfit, ...]:
        """Return where arguments do not fit the schema of a tool."""
        return tuple(self._agent.core.tools[entry].check_model.misfits(arguments))

    def matches(
        self,
        rule: Rule,
        tool_id: ToolId,
        arguments: JsonObject,
        actor: str | None,
        actor_roles: tuple[str, ...] | None = None,
    ) -> bool:
        """Return whether an allow rule surely covers a call of a tool."""
        entry, policy = self._agent.catalog.find(tool_id), self.policy
        if entry is None:
            return False
        return matches(rule, policy.targets(self._agent.core.tools[entry].subject, arguments, actor, actor_roles))

    async def decide(
        self,
        entry: Entry,
        arguments: JsonObject,
        actor: str | None = None,
        actor_roles: tuple[str, ...] | None = None,
    ) -> CallTrial:
        """Return what the rules decide about a call; hooks, classifiers and advisers are not asked."""
        await self._agent.remembered.sync()
        tool, policy = self._agent.core.tools[entry], self.policy
        misfits = self.misfits(entry, arguments)
        proposed = arguments if misfits else tool.with_defaults(arguments)[0]
        now = self._agent.core.timestamp()
        verdict = policy.decide(tool.subject, proposed, now=now, actor=actor, actor_roles=actor_roles)
        return CallTrial(
            entry=entry,
            verdict=verdict,
            suggested_updates=suggest(policy, verdict, policy.targets(tool.subject, proposed, actor)),
            misfits=misfits,
        )


class SurfaceAccess:
    """The surfaces of a runtime: `rt.surfaces`. `rt.surface` creates one."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._surfaces = agent.surfacing.surfaces

    def find(self, surface_id: str) -> ToolSurface | None:
        """Return the surface with an id; None if it is unknown."""
        found = self._agent.opened.surfacing.surfaces.with_id(SurfaceId(surface_id))
        return None if found is None else found.record

    def forget(self, surface: ToolSurface) -> None:
        """Delete a surface and those that replaced it; no more calls can name them."""
        self._surfaces.remove(surface.surface_id)

    def current(self, surface: ToolSurface) -> ToolSurface:
        """Return the surface that replaced this one, because a model loaded tools or something changed.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        return self._agent.opened.surfacing.current(surface)

    def refresh(self, surface: ToolSurface) -> ToolSurface:
        """Return the latest version of this surface; unlike `current`, with the tools that were declared since.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        return self._agent.opened.surfacing.refresh(surface)

    def offered(self, surface: ToolSurface, *, deferred: bool = True) -> tuple[OfferedTool, ...]:
        """Return the tools of a surface as a model may be shown them, deferred ones last.

        Raises:
            ConfigError: there is no such surface, or the runtime is closed.
        """
        return offered_tools(self._agent.opened.surfacing.surfaces.get(surface), deferred=deferred)

    def default(self) -> ToolSurface:
        """Return the surface of calls that name none: every tool that can be called; it never defers one.

        Another one replaces it as soon as tools are declared or the situation changes, so its id says whether
        something has changed.

        Raises:
            ConfigError: the runtime is closed.
        """
        found = self._agent.surfacing.default()
        if found is None:
            raise ConfigError("this runtime is closed; open another one")
        return found

    def tool_names(self) -> tuple[str, ...]:
        """Return the qualified names of all declared tools, sorted; those that cannot be called now included."""
        return tuple(sorted(entry.qualified_name for entry in self._agent.opened.catalog))

    def offer_read_result(self) -> None:
        """Offer the tool that reads stored output on every surface from now on, not only once there is such output."""
        self._agent.opened.offer_read_back(None)

    async def prepare_search(self, *, seconds: float = 60.0) -> bool:
        """Index all tools now and wait for the search model. Optional: a search indexes tools itself.

        Returns whether every tool can be found by its meaning, if there is a model. A model that is not ready in
        time continues in the background.

        Raises:
            ConfigError: the runtime is closed.
        """
        return await self._agent.opened.surfacing.prepare_search(seconds)

    async def change(self, **changes: Unpack[Changes]) -> dict[SurfaceId, ToolSurface]:
        """Change the policy or the circumstances of all: `await rt.surfaces.change(credentials=["github"])`.

        The change applies at once, also on existing surfaces: tools that are absent now cannot be called. Open
        questions are judged again. Returns the renewed surfaces by the ids of those they replace.

        Raises:
            ConfigError: a change is invalid, or the runtime is closed; then nothing has changed.
        """
        agent = self._agent.opened
        if "rules" in changes:
            changes["rules"] = rules_in(changes["rules"])
            agent.check_rules(changes["rules"])
        renewed = await agent.surfacing.change(changes)
        agent.recovery.judge_soon()
        return renewed
