"""The parts of one agent, and what its calls need of them. `Runtime` is the public interface of an agent."""

import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Protocol
from weakref import WeakSet

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import BUILT_IN, TOOL_SEARCH, qualified_builtin
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.surface import Surface
from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError, StoreError
from agenttool.journal import steps
from agenttool.pipeline.approval_queue import ApprovalQueue, ask_approver
from agenttool.pipeline.background import BackgroundCalls
from agenttool.pipeline.call import Call
from agenttool.pipeline.cancellation import is_interruptible, request_cancel
from agenttool.pipeline.checkpoint import Checkpoint
from agenttool.pipeline.deferred_results import DeferredResults
from agenttool.pipeline.nested import run_nested
from agenttool.pipeline.prompts import Prompts
from agenttool.pipeline.read_back import READ_BACK_ID, read_back_tool
from agenttool.pipeline.recovery import Recovery
from agenttool.pipeline.remembered_rules import RememberedRules
from agenttool.pipeline.services import Approve
from agenttool.pipeline.shutdown import stop_calls
from agenttool.pipeline.surfaces import AgentSurfaces, ToolServices
from agenttool.pipeline.tool import Tool
from agenttool.pipeline.world import CoreOptions, World, make_core
from agenttool.policy.actors import ActorGroups
from agenttool.policy.approvals import Answered, Approver, Question
from agenttool.policy.decide import Policy
from agenttool.policy.rule_check import KnownTools, unmatched_rules
from agenttool.policy.rules import Rule
from agenttool.ports.source import SourceStatus
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.ports.tool import DeclaredTool, without_garbage_collection
from agenttool.records import AbortReason, InvocationId, JsonObject, Lifecycle, ToolId, ToolResult, ToolSurface
from agenttool.records import replace as replace_record
from agenttool.results.preview import READ_RESULT

log = logging.getLogger("agenttool.rules")


class SourceStates(Protocol):
    """The states of the sources of a runtime."""

    def status_of(self, name: str, /) -> SourceStatus | None:
        """Return the state of one server; None if there is none with that name."""
        ...

    @property
    def not_ready(self) -> frozenset[str]:
        """The namespaces of the tools that cannot be used now."""
        ...


DECLARED_TOGETHER = 1024
"""How many of many tools are declared in one step; more would take more memory and not less time."""


class Agent:
    """Builds the core, surfaces, recovery and deferred results of one agent, and implements `CallHost` for its calls.

    Attributes:
        recovery: none if the store is not durable.
        remembered: none if the store is not durable.
        results: the deferred results.
    """

    def __init__(
        self,
        world: World,
        options: CoreOptions,
        surface_policy: SurfacePolicy,
        circumstances: Circumstances,
        sources: SourceStates,
    ) -> None:
        """Build all parts; must be called inside a running event loop."""
        core = self.core = make_core(world, self, options)
        self._prepare = options.prepare
        self.catalog = Catalog()
        self._index = ToolIndex(world.semantic_index, world.retriever)
        self._sources = sources
        self.source_status = sources.status_of
        services = ToolServices(self.catalog, self._index, surface_policy, self.declare)
        self.surfacing = AgentSurfaces(core, services, circumstances)
        stores = core.durability
        self.recovery: Recovery | None = None
        self.remembered: RememberedRules | None = None
        if stores.checkpoints is not None:
            self.remembered = RememberedRules(core, stores.documents)
            self.recovery = Recovery(
                core, stores.checkpoints, self.tool_of, self._surface_of, self._is_reachable, self.remembered
            )
        self.results = DeferredResults(core, stores.deferred, self.tool_of)
        self.prompts = Prompts(stores.documents, self.results, self.tool_of)
        self.background = BackgroundCalls(core)
        self.is_closed = False
        """Whether new calls are rejected."""
        self._children: WeakSet[Agent] = WeakSet()

    def child(self, surface: ToolSurface, policy: Policy) -> "Agent":
        """Return a sub-agent with the same journal and stores, and no tool beyond a surface.

        Raises:
            ConfigError: the surface is not one of this agent.
        """
        child = copy(self)
        child.core = replace(self.core, policy=policy, parent=self.core, host=child)
        child.surfacing = self.surfacing.for_child(child.core, surface)
        child._children = WeakSet()  # noqa: SLF001 -- same class
        self._children.add(child)
        return child

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """The open calls of this agent and its sub-agents."""
        return tuple(call for call in self.core.registry.calls.values() if self.core in call.core.with_ancestors())

    async def cancel(self, invocation_id: InvocationId, reason: AbortReason, by: str | Approver | None = None) -> bool:
        """Request the cancellation of a call, of any process on the store; return whether it is possible.

        A name is recorded as a claim beside the user of this process, an `Approver` in place of that user.
        """
        by = by if isinstance(by, Approver) else Approver(os_user=self.core.os_user(), claim=by)
        call = self.core.registry.calls.get(invocation_id)
        if call is not None:
            return request_cancel(call, reason, by)
        if await self.results.cancel(invocation_id, reason, by):
            return True
        return self.recovery is not None and await self.recovery.cancel(invocation_id, reason, by)

    def interrupt(self, *, blocking: bool = False) -> None:
        """Request the cancellation of the open calls; `blocking` includes those whose tools block interruption."""
        for call in self.open_calls:
            if blocking or not call.started_ns or is_interruptible(call):
                request_cancel(call, AbortReason.USER_INTERRUPTION)

    def close(self) -> None:
        """Reject new calls, also those of sub-agents."""
        self.is_closed = True
        self.surfacing.surfaces.close()
        for child in tuple(self._children):
            child.close()

    async def stop_calls(self) -> None:
        """Stop the open calls; those that wait are left to the next process if they are stored."""
        await stop_calls(self.core, lambda: self.open_calls)

    async def stop(self) -> None:
        """Stop all tasks of the parts."""
        await self.prompts.stop()
        await self.background.stop()
        await self.results.stop()
        if self.recovery is not None:
            await self.recovery.stop()
        self.core.journal.close()

    def declare_new(self, tools: Iterable[DeclaredTool]) -> None:
        """Add many tools, none of which may be declared already.

        Raises:
            ConfigError: the records of a tool contradict each other, or two tools have one name or id.
        """
        rest = iter(tools)
        with without_garbage_collection():
            while some := [*islice(rest, DECLARED_TOGETHER)]:
                for tool_id, count in Counter(each.declaration.tool_id for each in some).items():
                    if count > 1 or self.catalog.find(tool_id) is not None:
                        raise ConfigError(f"two tools have the id {tool_id!r}; give one another name or namespace")
                self.declare(*some)

    def declare(self, *tools: DeclaredTool) -> None:
        """Add or replace tools, also under reserved names. If one is rejected, none is added.

        Each step runs for all tools before the next one begins: for many tools that takes a quarter less time, because
        the code of one step stays in the processor's cache.

        Raises:
            ConfigError: the records of a tool contradict each other, or two tools have one name.
        """
        entries = self.catalog.prepare(*map(self._prepare, tools))
        for entry in entries:
            self.core.tools.admit(entry)
        replaced = [*map(self.catalog.add, entries)]
        self.surfacing.declared()
        for entry, before in zip(entries, replaced, strict=True):
            is_withdrawn = self.catalog.is_withdrawn(entry.tool_id)
            if is_withdrawn:
                self._index.remove(entry.tool_id)
            else:
                self._index.put(entry)
            if before is not None:
                self.core.tools.forget(before)
                if is_withdrawn:
                    self.surfacing.withdraw(entry)
        for entry in entries:
            self.core.journal.note_apart(steps.DECLARED, {"tool_id": entry.tool_id, "name": entry.qualified_name})

    def check_rules(self, rules: Iterable[Rule], groups: ActorGroups | None = None) -> None:
        """Check that rules can match a declared tool, and name groups that exist; without groups, those in force.

        Without any tool there is nothing to compare with.

        A rule is only logged if the tool that it names may belong to a source that is not connected, or if the rule is
        for several programs and no tool has its namespace.

        Raises:
            ConfigError: some cannot match; the message names each with its file and line.
        """
        (groups or self.core.policy.groups).check(rules)
        if not rules:
            return
        subjects = self.core.tools.subjects
        entries = [entry for entry in self.catalog if entry.tool.declaration.namespace != BUILT_IN]
        known = KnownTools(
            [(entry.tool.declaration, partial(subjects.__getitem__, entry)) for entry in entries],
            built_in=[name for each in (READ_RESULT, TOOL_SEARCH) for name in (each, qualified_builtin(each))],
            not_ready=self._sources.not_ready,
        )
        unmatched = list(unmatched_rules(rules, known, lambda: timestamp(self.core.now_ns())))
        errors = [each.message for each in unmatched if each.is_error]
        if errors:
            raise ConfigError("\n".join(errors))
        for each in unmatched:
            log.warning("%s", each.message)

    def retired(self, name: str) -> DeclaredTool:
        """Return a tool, by its qualified name or its id, as one that is retired.

        Raises:
            ConfigError: no tool has this name.
        """
        found = self.catalog.owner(name) or self.catalog.find(ToolId(name))
        if found is None:
            raise ConfigError(f"no tool is called {name!r}; give its namespace and name, such as 'files.read'")
        return replace(found.tool, declaration=replace_record(found.tool.declaration, lifecycle=Lifecycle.RETIRED))

    def offer_read_back(self, surface: Surface | None) -> None:
        """Offer the tool that reads stored output on a surface, and on all surfaces that are created from now on."""
        entry = self.catalog.find(READ_BACK_ID)
        if entry is None and not self.surfacing.surfaces.is_closed:
            self.declare(read_back_tool(self.core.payloads.store))
            entry = self.catalog.find(READ_BACK_ID)
        if entry is not None and surface is not None:
            surface.offer(entry)

    def run_nested(self, parent: Call, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Run a call that the tool of another call makes."""
        return run_nested(parent, name, arguments)

    async def resume_and_wait(self, invocation_id: InvocationId) -> ToolResult:
        """Resume a call of a dead process as soon as that is possible, and wait for its result."""
        if self.recovery is not None:
            with suppress(StoreError):  # recovery runs again soon
                await self.recovery.recover()
        return await self.background.wait_forever(invocation_id)

    async def find_tools(
        self, surface: Surface | None, query: str, limit: int, known_as: Mapping[str, str]
    ) -> JsonObject:
        """Search the tools of a surface for a model."""
        return await self.surfacing.find_for_model(surface, query, limit, known_as)

    def policy_changed(self) -> None:
        """Renew the surfaces, because a rule was added or removed."""
        self.surfacing.renew_after_policy_change()

    async def ensure_lease(self) -> None:
        """Acquire the lease of this process.

        Raises:
            StoreError: the lease could not be written.
        """
        if self.recovery is not None:
            await self.recovery.start()

    async def stored_answer(self, question: Question) -> Answered | None:
        """Return an answer that another process received before the question expired."""
        return None if self.recovery is None else await self.recovery.approvals.answer_of(question)

    async def ask_approver(self, approve: Approve, question: Question) -> None:
        """Ask the approver of the program, and record the answer."""
        await ask_approver(ApprovalQueue(self.core, self.recovery, self.remembered), approve, question)

    async def withdraw_prompt(self, invocation_id: InvocationId) -> None:
        """Delete the open prompt of a call."""
        await self.prompts.withdraw(invocation_id)

    def end_overdue(self, invocation_id: InvocationId) -> None:
        """End a parked call whose deferred result did not arrive in time."""
        self.results.overdue(invocation_id)

    def tool_of(self, tool_id: ToolId) -> Tool | None:
        """Return a tool as it is declared now."""
        entry = self.catalog.find(tool_id)
        return None if entry is None else self.core.tools[entry]

    def _is_reachable(self, tool_id: ToolId) -> bool:
        """Return whether the server of a tool answers, as far as its source knows."""
        entry = self.catalog.find(tool_id)
        status = None if entry is None else self.source_status(entry.tool.declaration.namespace)
        return status is None or status.is_ready

    def _surface_of(self, checkpoint: Checkpoint) -> Surface | None:
        """Return the surface of a recovered call, or one that offers no more than that surface did."""
        if checkpoint.surface_id is None:
            return None
        reach = None if checkpoint.only is None else frozenset(checkpoint.only)
        return self.surfacing.restored(checkpoint.surface_id, reach, frozenset({checkpoint.tool_id}))
