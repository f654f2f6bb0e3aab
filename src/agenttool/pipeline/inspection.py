"""What a runtime would do, without doing it: its tools, its rules, and the decision about a call."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from agenttool.catalog.entry import Entry
from agenttool.codec.moments import timestamp
from agenttool.journal.journal import follow_facts
from agenttool.pipeline.agent import Agent
from agenttool.policy.decide import Policy
from agenttool.policy.matching import covers, is_outdated, missing_fields, names_caller, names_tool
from agenttool.policy.rules import Rule
from agenttool.policy.suggest import suggest
from agenttool.policy.targets import CallTargets
from agenttool.policy.verdict import Verdict
from agenttool.ports.facts import Fact
from agenttool.ports.stores import EventLog
from agenttool.records import JsonObject, SuggestedUpdate, ToolId
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
    """What a runtime has and would decide: `rt.inspection`. Nothing here runs or records anything."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def policy(self) -> Policy:
        """The rules and the mode that are in force."""
        return self._agent.core.policy

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
        subject, caller = self._agent.core.tools[entry].subject, policy.groups.caller(actor, actor_roles)
        if not names_tool(rule, subject) or is_outdated(rule, subject) or missing_fields(rule, subject):
            return False
        return names_caller(rule, caller) and covers(rule, CallTargets(subject, arguments, policy.workspace, caller))

    async def decide(
        self,
        entry: Entry,
        arguments: JsonObject,
        actor: str | None = None,
        actor_roles: tuple[str, ...] | None = None,
    ) -> CallTrial:
        """Return what the rules decide about a call; hooks, classifiers and advisers are not asked."""
        if self._agent.remembered is not None:
            await self._agent.remembered.sync()
        tool, policy = self._agent.core.tools[entry], self.policy
        misfits = self.misfits(entry, arguments)
        proposed = arguments if misfits else tool.with_defaults(arguments)[0]
        now = timestamp(self._agent.core.now_ns())
        verdict = policy.decide(tool.subject, proposed, now=now, actor=actor, actor_roles=actor_roles)
        return CallTrial(
            entry=entry,
            verdict=verdict,
            suggested_updates=suggest(policy, verdict, tool.subject, proposed, actor),
            misfits=misfits,
        )
