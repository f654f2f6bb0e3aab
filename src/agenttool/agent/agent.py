"""One agent: its dependencies, its parts, its nested calls, and what its calls need. `Runtime` is its interface."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Protocol, cast
from weakref import WeakSet

from agenttool.agent.builtin_tools import READ_BACK_ID, read_back_tool
from agenttool.agent.surfaces import AgentSurfaces, ToolServices
from agenttool.call.approval import paused_timeouts
from agenttool.call.call import Call, Core, Nesting
from agenttool.call.call_state import CallSecrets
from agenttool.call.checkpoint import Checkpoint, ensure_checkpoint
from agenttool.call.failures import is_interruptible, request_cancel, stop_calls
from agenttool.call.run import run_call
from agenttool.call.services import (
    Approve,
    CredentialVault,
    Durability,
    OpenQuestions,
    PayloadAccess,
    Timing,
)
from agenttool.call.tool import Tool, Tools
from agenttool.catalog.catalog import Catalog
from agenttool.catalog.entry import BUILT_IN, TOOL_SEARCH, qualified_builtin
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import Unresolved
from agenttool.codec import json_bytes
from agenttool.durable.approval_queue import ApprovalQueue, ask_approver
from agenttool.durable.background import BackgroundCalls
from agenttool.durable.deferred_results import DeferredResults, Prompts
from agenttool.durable.one_process import OneProcess
from agenttool.durable.recovery import Recovery
from agenttool.durable.remembered_rules import RememberedRules
from agenttool.durable.resume import PROCESS_DIED
from agenttool.errors import ConfigError, RecordError, StoreError
from agenttool.hooks.definition import Hook
from agenttool.journal import steps
from agenttool.journal.journal import Journal
from agenttool.policy.actors import ActorGroups
from agenttool.policy.approvals import Approver, ByRules, Question
from agenttool.policy.decide import Policy
from agenttool.policy.rule_check import KnownTools, unmatched_rules
from agenttool.policy.rules import Rule
from agenttool.ports.advice import Adviser
from agenttool.ports.deferred import Thread
from agenttool.ports.evidence import CallRequest
from agenttool.ports.limits import RateLimit
from agenttool.ports.retriever import Retriever
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.ports.source import SourceStatus
from agenttool.ports.stores import DocumentStore, EventLog, OpenCalls, PayloadStore, RecoverableCalls
from agenttool.ports.surfacing import Circumstances, ProviderState, SurfacePolicy
from agenttool.ports.tool import DeclaredTool, without_garbage_collection
from agenttool.ports.world import Clock, IdSource, OsUser
from agenttool.records import (
    AbortReason,
    ErrorClass,
    InvocationId,
    JsonObject,
    Lifecycle,
    Phase,
    ToolId,
    ToolResult,
    ToolSurface,
)
from agenttool.records import replace as replace_record
from agenttool.results.preview import READ_RESULT
from agenttool.results.redaction import InputMask
from agenttool.scheduler.drive import GracePeriod
from agenttool.scheduler.rate_limits import TokenBucket
from agenttool.scheduler.timeouts import Deadlines


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The external dependencies of a runtime; `close` is called when it is closed.

    A lease is valid for `lease_s`; after that, other processes recover the calls of its owner. `thread` is the id
    of the conversation. `semantic_index` adds search by meaning, and `retriever` replaces the ranking. `vault`
    leases credentials to calls. `os_user` returns the user of this process, if it is known. `format_crash` returns the
    traceback of an exception as text, or none to record none.
    """

    clock: Clock
    ids: IdSource
    log: EventLog
    payloads: PayloadStore
    open_calls: OpenCalls
    documents: DocumentStore
    close: Callable[[], Awaitable[None]] | None = None
    random: Callable[[], float] = lambda: 1.0
    lease_s: float = 6.0
    thread: str = "thread"
    semantic_index: SemanticIndex | None = None
    retriever: Retriever | None = None
    vault: CredentialVault | None = None
    os_user: Callable[[], OsUser | None] = lambda: None
    format_crash: Callable[[BaseException], str | None] = lambda _: None


_TIME, _REST = 12, 20
"""The lengths of the time in an id, and of the rest."""

MAX_DEPTH = 16
"""The maximum depth of nested calls, which ends an infinite recursion."""

TOO_DEEP = Unresolved(
    error_class=ErrorClass.BLOCKED_TOOL,
    code="nested_too_deep",
    message=f"more than {MAX_DEPTH} calls led to this one; end the recursion",
)


PARENT_ENDED = Unresolved(
    error_class=ErrorClass.CANCELED,
    code="parent_ended",
    message="the tool that makes this call has returned; await nested calls before the tool returns",
)


async def _find_earlier(
    parent: Call, nesting: Nesting, key: bytes, request: CallRequest
) -> tuple[str, ToolResult | None]:
    """Return the unique part of the id of a nested call, and its result if it was made before a crash.

    The id follows from the key of the parent, the tool, the arguments, and how often the same call was made. A call
    that certainly did nothing before its process died is made again, under the next id.
    """
    start = b"%d %s %s" % (nesting.attempt, request.name.encode(), request.model_input)
    same = blake2b(start, key=key, digest_size=16).digest()
    while True:
        number = nesting.made[same] = nesting.made.get(same, 0) + 1
        # The beginning of the parent's id is its time: nested calls are sorted beside it.
        unique = parent.unique[:_TIME] + blake2b(same + b"%d" % number, key=key, digest_size=_REST // 2).hexdigest()
        if parent.recovery is None or parent.recovery.attempts == 1:
            return unique, None
        earlier = await _result_of(parent, nesting, InvocationId("inv_" + unique))
        if earlier is None or earlier.error is None or earlier.error.error_code != PROCESS_DIED:
            return unique, earlier


async def _result_of(parent: Call, nesting: Nesting, invocation_id: InvocationId) -> ToolResult | None:
    """Return the result of a nested call that was made before a crash; none if it was not made.

    Recovery ends it or resumes it, in this process; it may have to wait for an answer.
    """
    if not parent.core.journal.log.facts_of(invocation_id):
        return None
    nesting.awaited.add(invocation_id)
    try:
        async with parent.outside():
            with paused_timeouts(parent):
                return await parent.core.host.resume_and_wait(invocation_id)
    finally:
        nesting.awaited.discard(invocation_id)
        nesting.children.pop(invocation_id, None)


def _inherited(parent: Call) -> CallSecrets | None:
    if parent.secrets is None or parent.scrubber is None:
        return None
    return CallSecrets(parent.core.ids.secret(), InputMask(None, parent.scrubber), leased=parent.secrets.leased)


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
        results: the deferred results.
    """

    def __init__(  # noqa: PLR0913 -- the parts of an agent
        self,
        world: World,
        *,
        policy: Policy,
        hooks: tuple[Hook, ...],
        advisers: tuple[Adviser, ...],
        rate_limits: Mapping[str, RateLimit],
        questions: OpenQuestions,
        prepare: Callable[[DeclaredTool], DeclaredTool],
        surface_policy: SurfacePolicy,
        circumstances: Circumstances,
        sources: SourceStates,
    ) -> None:
        """Build all parts; must be called inside a running event loop.

        Args:
            world: the external dependencies.
            policy: the rules and the mode.
            hooks: the hooks in their order.
            advisers: classifiers and policy engines that vote before the rules decide.
            rate_limits: limits on the calls to all tools of a namespace.
            questions: how approvers are asked.
            prepare: returns a declared tool with the objects that the program provides to it.
            surface_policy: how many tools a surface shows.
            circumstances: the credentials, gates, skills and peers at the start.
            sources: the states of the sources.
        """
        loop = asyncio.get_running_loop()
        core = self.core = Core(
            journal=Journal(clock=world.clock, log=world.log),
            clock=world.clock,
            ids=world.ids,
            os_user=world.os_user,
            format_crash=world.format_crash,
            payloads=PayloadAccess(world.payloads, world.documents),
            timing=Timing(
                loop=loop,
                thread_id=threading.get_ident(),
                deadlines=Deadlines(loop),
                grace_period=GracePeriod(call_later=loop.call_later, after_stop=1.0, after_caller=10.0),
                random=world.random,
            ),
            durability=Durability(checkpoints=world.open_calls, documents=world.documents, lease_s=world.lease_s),
            tools=Tools(hooks, {namespace: TokenBucket(limit) for namespace, limit in rate_limits.items()}),
            host=self,
            policy=policy,
            thread=Thread(thread_id=world.thread),
            advisers=advisers,
            questions=questions,
            vault=world.vault,
        )
        self._prepare = prepare
        self.catalog = Catalog()
        self._index = ToolIndex(world.semantic_index, world.retriever)
        self._sources = sources
        self.source_status = sources.status_of
        services = ToolServices(self.catalog, self._index, surface_policy, self.declare)
        self.surfacing = AgentSurfaces(core, services, circumstances)
        self.remembered = RememberedRules(core)
        if core.durable:
            calls = cast("RecoverableCalls", world.open_calls)
            self.recovery = Recovery(core, calls, self._surface_of)
        else:
            self.recovery = OneProcess(core)
        self.ensure_lease = self.recovery.start
        self.stored_answer, self.withdraw_question = self.recovery.approvals.answer_of, self.recovery.approvals.withdraw
        self.results = DeferredResults(core)
        self.end_overdue = self.results.overdue
        self.prompts = Prompts(world.documents, self.results)
        self.background = BackgroundCalls(core)
        self.is_closed = False
        """Whether new calls are rejected."""
        self._children: WeakSet[Agent] = WeakSet()

    @property
    def opened(self) -> "Agent":
        """This agent, unless its runtime is closed.

        Raises:
            ConfigError: its runtime is closed.
        """
        if self.surfacing.surfaces.is_closed:
            raise ConfigError("this runtime is closed; open another one")
        return self

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
        return await self.recovery.cancel(invocation_id, reason, by)

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
        not_ready = self._sources.not_ready
        states = [self._sources.status_of(each) for each in not_ready]
        known = KnownTools(
            [(entry.tool.declaration, partial(subjects.__getitem__, entry)) for entry in entries],
            built_in=[name for each in (READ_RESULT, TOOL_SEARCH) for name in (each, qualified_builtin(each))],
            not_ready=not_ready,
            untried=frozenset(
                each.source for each in states if each and each.state is ProviderState.UNAVAILABLE and not each.tries
            ),
        )
        unmatched = list(unmatched_rules(rules, known, self.core.timestamp))
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

    async def run_nested(self, parent: Call, name: str, arguments: JsonObject) -> ToolResult:
        """Run a nested call and return its result, also if it failed.

        If the parent is resumed after a crash, the calls that it made before are not made again: it gets their results.
        Its tool receives the arguments as they are. The secrets of the parent are removed from everything else: its
        inputs in records, hooks and approval requests, its progress and its result.
        """
        fault: str | None = None
        try:
            encoded = json_bytes(arguments)
        except (RecordError, UnicodeError) as error:
            encoded, fault = b"null", str(error)
        nesting = parent.ensure_nesting()
        unresolved = TOO_DEEP if nesting.depth >= MAX_DEPTH else None
        parent.flush()  # the journal has the parent's start before any step of this call
        if parent.phase is Phase.EXECUTE:
            ensure_checkpoint(parent)
        else:
            unresolved = PARENT_ENDED
        request = CallRequest(
            str(name).encode(errors="replace").decode(),
            encoded,
            parent.request.surface_id,
            actor_ref=parent.request.actor_ref,
            actor_roles=parent.request.actor_roles,
            parent_invocation_id=parent.invocation_id,
        )
        if nesting.key is None:
            unique = parent.core.ids.unique()
        else:
            unique, earlier = await _find_earlier(parent, nesting, nesting.key, request)
            if earlier is not None:
                return earlier
        call = Call(
            parent.core,
            request,
            parent.surface if unresolved is None else None,
            unique,
            InvocationId("inv_" + unique),
            fault,
            secrets=_inherited(parent),
            nesting=Nesting(parent, nesting.depth + 1),
            unresolved=unresolved,
        )
        if parent.stop.reason is not None:
            call.stop.reason = parent.stop.reason
        parent.needs_detailed_end = True
        nesting.children[call.invocation_id] = call
        try:
            result = await run_call(call)
        finally:
            nesting.children.pop(call.invocation_id, None)
        await parent.regain_permits()
        return result

    async def resume_and_wait(self, invocation_id: InvocationId) -> ToolResult:
        """Resume a call of a dead process as soon as that is possible, and wait for its result."""
        with suppress(StoreError):  # recovery runs again soon
            await self.recovery.recover()
        return await self.background.wait_forever(invocation_id)

    async def find_tools(
        self, surface: Surface | None, query: str, limit: int, known_as: Mapping[str, str]
    ) -> JsonObject:
        """Search the tools of a surface for a model."""
        return await self.surfacing.find_for_model(surface, query, limit, known_as)

    def policy_changed(self) -> None:
        """Renew the surfaces, because a rule was added or removed, and judge the open questions again."""
        self.surfacing.renew_after_policy_change()
        for call in self.core.registry.calls.values():
            if call.core.host is self and call.core is not self.core:  # it was recovered
                call.core.policy = self.core.policy
        self.recovery.judge_soon()

    def ask_approver(self, approve: Approve, question: Question) -> Coroutine[object, object, None]:
        """Ask the approver of the program, and record the answer."""
        return ask_approver(ApprovalQueue(self.core, self.recovery, self.remembered), approve, question)

    async def leave_to_rules(self, question: Question) -> None:
        """Withdraw a stored question, unless it was answered: rules that were added later decide about its call."""
        with suppress(StoreError):  # it stays open
            await self.recovery.answer(question.approval_id, ByRules(), by=Approver())

    def tool_of(self, tool_id: ToolId) -> Tool | None:
        """Return a tool as it is declared now."""
        entry = self.catalog.find(tool_id)
        return None if entry is None else self.core.tools[entry]

    def _surface_of(self, checkpoint: Checkpoint) -> Surface | None:
        """Return the surface of a recovered call, or one that offers no more than that surface did."""
        if checkpoint.surface_id is None:
            return None
        reach = None if checkpoint.only is None else frozenset(checkpoint.only)
        return self.surfacing.restored(checkpoint.surface_id, reach, frozenset({checkpoint.tool_id}))
