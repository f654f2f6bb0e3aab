"""The public face: declare tools, make surfaces, call, decide, look."""

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self, cast
from weakref import WeakSet

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.search.index import ToolIndex
from agenttool.catalog.surface import Surface
from agenttool.codec import read, write
from agenttool.codec.moments import timestamp
from agenttool.errors import ConfigError
from agenttool.hooks.definition import Hook
from agenttool.journal import steps
from agenttool.pipeline.approval import answer as take_answer
from agenttool.pipeline.approval import answer_in
from agenttool.pipeline.asked import all_are
from agenttool.pipeline.background import BackgroundCalls
from agenttool.pipeline.batch import BatchItem, make_batch
from agenttool.pipeline.builtin_tools import reject_builtin_names
from agenttool.pipeline.call import Call
from agenttool.pipeline.checkpoint import Checkpoint
from agenttool.pipeline.journal_view import JournalView
from agenttool.pipeline.nested import run_nested
from agenttool.pipeline.plan import plan
from agenttool.pipeline.read_back import READ_BACK_ID, read_back_tool
from agenttool.pipeline.recovery import Recovery
from agenttool.pipeline.retention import RetentionResult, retain
from agenttool.pipeline.run import run_call
from agenttool.pipeline.shutdown import stop_calls
from agenttool.pipeline.stopping import is_interruptible, request_cancel
from agenttool.pipeline.surfaces import AgentSurfaces, SurfaceApi, ToolServices
from agenttool.pipeline.tool import Tool
from agenttool.pipeline.world import World, make_core
from agenttool.policy.approvals import Answer, Answered, Question, Refused
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.ports.advice import Adviser
from agenttool.ports.calls import ToolCall
from agenttool.ports.limits import RateLimit
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    AbortReason,
    ApprovalId,
    InvocationId,
    JsonObject,
    Lifecycle,
    SchedulerPolicy,
    SchedulerPolicyId,
    ToolId,
    ToolResult,
    ToolSurface,
)
from agenttool.records import replace as replace_record

__all__ = ["Runtime", "World"]

_DEFAULT_POLICY = SchedulerPolicy(scheduler_policy_id=SchedulerPolicyId("sched_default"))


class Runtime(SurfaceApi, BackgroundCalls, JournalView):
    """Governed tool calls. Belongs to one event loop; every call gives a result, never an exception."""

    def __init__(  # noqa: PLR0913 -- the parts of a runtime
        self,
        world: World,
        *,
        tools: Iterable[DeclaredTool] = (),
        hooks: Iterable[Hook] = (),
        policy: Policy | None = None,
        default_timeout_s: float | None = 600.0,
        rate_limits: Mapping[str, RateLimit] | None = None,
        advisers: Iterable[Adviser] = (),
        surface_policy: SurfacePolicy | None = None,
        circumstances: Circumstances | None = None,
    ) -> None:
        """Join the parts; must be called inside a running event loop.

        Raises:
            ConfigError: a tool's records contradict each other.
        """
        self._core = make_core(world, hooks=hooks, policy=policy, rate_limits=rate_limits, advisers=advisers)
        self._core.run_nested = run_nested
        self._core.default_timeout_s = default_timeout_s
        self._catalog = Catalog()
        self._index = ToolIndex(world.semantic_index)
        services = ToolServices(self._catalog, self._index, surface_policy or SurfacePolicy(), self._declare)
        self._surfacing = AgentSurfaces(self._core, services, circumstances or Circumstances())
        self._surfaces = self._surfacing.surfaces
        self._children: WeakSet[Runtime] = WeakSet()
        self._end_world = world.close
        self._recovery: Recovery | None = None
        if self._core.open_calls is not None:
            self._recovery = Recovery(self._core, self._core.open_calls, self._tool_of, surface_of=self._surface_of)
            self._core.acquire_lease = self._recovery.start
            self._core.last_word = self._recovery.approvals.answer_of
        self._start_deferred()
        for tool in tools:
            tool_id = tool.declaration.tool_id
            if self._catalog.find(tool_id) is not None:
                raise ConfigError(f"two tools have the id {tool_id!r}; give one another name or namespace")
            self.declare(tool)
        self._core.offer_read_back = self._offer_read_back
        if self._core.durable:  # output that an earlier process stored can be asked for, too
            self._offer_read_back(None)

    async def __aenter__(self) -> Self:
        """Use the runtime; on a durable store, calls of processes that died are taken up from now on.

        Raises:
            StoreError: the store cannot be written.
        """
        if self._recovery is not None:
            await self._recovery.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take no more calls, stop what still runs, and wait, for a while, until it has written its results."""
        self._close()
        await stop_calls(self._core, self._under_way)
        if self._core.parent is None:
            await self._stop_deferred()
            if self._recovery is not None:
                await self._recovery.stop()
            self._core.journal.close()
            if self._end_world is not None:
                await self._end_world()

    def child(
        self,
        surface: ToolSurface,
        *,
        rules: Iterable[Rule] | None = None,
        mode: PermissionMode | None = None,
        interactive: bool | None = None,
    ) -> Self:
        """Make the runtime of a sub-agent: the same journal and gate, no tool beyond a surface, and never more rights.

        Closing it stops what it started; the tools of the surface are all it can offer on surfaces of its own.

        Raises:
            ConfigError: the surface was not made here, or the runtime is closed.
        """
        self._refuse_if_closed()
        book = None if rules is None else RuleBook(rules)
        policy = self._core.policy.for_child(book=book, mode=mode, interactive=interactive)
        child = copy(self)
        child._bind(self._surfacing.for_child(replace(self._core, policy=policy, parent=self._core), surface))  # noqa: SLF001 -- one of ours
        self._children.add(child)
        return child

    def _bind(self, surfacing: AgentSurfaces) -> None:
        """Become the runtime of a sub-agent, which has no surface but the one it was given and those it makes."""
        self._core, self._surfacing, self._surfaces = surfacing.core, surfacing, surfacing.surfaces
        self._children = WeakSet()

    def _close(self) -> None:
        self._surfaces.close()
        for child in tuple(self._children):
            child._close()  # noqa: SLF001 -- one of ours

    def declare(self, tool: DeclaredTool) -> None:
        """Add a tool, or replace the one with the same id; surfaces made before keep what they had.

        One that is retired, disabled or a draft by now is the exception: it goes from every surface at once.

        Raises:
            ConfigError: its records contradict each other, another tool has its name or it is one of ours, or the
                runtime is closed, or a sub-agent's, which has the tools that it was given.
        """
        self._refuse_if_closed()
        if self._core.parent is not None:
            raise ConfigError("a sub-agent has the tools that it was given; declare this one with whoever made it")
        reject_builtin_names(tool)
        self._declare(tool)

    def retire(self, name: str) -> None:
        """Take a tool back, by its qualified name or its id: it goes from every surface at once.

        Surfaces that held it are made anew, as `tool.surface.updated` tells; declared again, it is back on new ones.

        Raises:
            ConfigError: no tool is called so, it is one of ours, or the runtime is closed or a sub-agent's.
        """
        found = self._catalog.owner(name) or self._catalog.find(ToolId(name))
        if found is None:
            raise ConfigError(f"no tool is called {name!r}; give its namespace and name, such as 'files.read'")
        self.declare(
            replace(found.tool, declaration=replace_record(found.tool.declaration, lifecycle=Lifecycle.RETIRED))
        )

    def _declare(self, tool: DeclaredTool) -> None:
        """Add a tool of whatever name."""
        entry = self._catalog.prepare(tool)
        self._core.tools.admit(entry)
        before = self._catalog.find(entry.tool_id)
        self._catalog.add(entry)
        if self._catalog.is_withdrawn(entry.tool_id):
            self._index.remove(entry.tool_id)  # nobody can find it
        else:
            self._index.put(entry)
        if before is not None:
            self._core.tools.forget(before)
            if self._catalog.is_withdrawn(entry.tool_id):
                self._surfacing.withdraw(entry)
        self._core.journal.note_apart(steps.DECLARED, {"tool_id": entry.tool_id, "name": entry.qualified_name})

    def _offer_read_back(self, surface: Surface | None) -> None:
        """Let stored output be read back, on the surface that its call was made on and on those made from now on."""
        entry = self._catalog.find(READ_BACK_ID)
        if entry is None and not self._surfaces.is_closed:
            self._declare(read_back_tool(self._core.payloads))
            entry = self._catalog.find(READ_BACK_ID)
        if entry is not None and surface is not None:
            surface.offer(entry)

    def call(
        self,
        name: str,
        arguments: JsonObject | str | bytes,
        *,
        surface: ToolSurface | None = None,
        native_call_id: str | None = None,
        actor_ref: str | None = None,
    ) -> Coroutine[object, object, ToolResult]:
        """Call a tool by name: `await rt.call(...)`. A failed call is a result, too.

        Raises (when awaited):
            asyncio.CancelledError: the caller's own task was canceled; the result is written first.
        """
        return run_call(plan(self._core, self._surfaces, name, arguments, surface, native_call_id, actor_ref))

    async def batch(
        self,
        calls: Sequence[ToolCall],
        *,
        surface: ToolSurface | None = None,
        policy: SchedulerPolicy | None = None,
        actor_ref: str | None = None,
    ) -> list[ToolResult]:
        """Call several tools under one policy, and give their results in the order asked for.

        Raises:
            ConfigError: it is no list of calls.
            RecordError: the policy is not what it should be.
            ToolFailure: the calls depend on each other in a way that cannot be.
        """
        results: list[ToolResult | None] = [None] * len(all_are(ToolCall, calls))
        async for item in self.stream_batch(calls, surface=surface, policy=policy, actor_ref=actor_ref):
            results[item.index] = item.result or results[item.index]
        return [result for result in results if result is not None]

    async def stream_batch(
        self,
        calls: Sequence[ToolCall],
        *,
        surface: ToolSurface | None = None,
        policy: SchedulerPolicy | None = None,
        actor_ref: str | None = None,
    ) -> AsyncIterator[BatchItem]:
        """Call several tools under one policy; what leaves, leaves in the order the policy says.

        Raises:
            ConfigError: it is no list of calls.
            RecordError: the policy is not what it should be.
            ToolFailure: the calls depend on each other in a way that cannot be.
        """
        all_are(ToolCall, calls)
        policy = _DEFAULT_POLICY if policy is None else read(write(policy), SchedulerPolicy)
        planned = [
            plan(self._core, self._surfaces, each.name, each.arguments, surface, each.native_call_id, actor_ref)
            for each in calls
        ]
        async with aclosing(make_batch(planned, calls, policy).stream()) as items:
            async for item in items:
                yield item

    async def cancel(self, invocation_id: InvocationId, *, reason: AbortReason = AbortReason.USER_INTERRUPTION) -> bool:
        """Ask a call to stop; tell whether it will. By `fallback` its request was thrown away, and so is its result."""
        call = self._core.calls.get(invocation_id)
        if call is not None:
            return request_cancel(cast("Call", call), AbortReason(reason))
        return self._deferred is not None and await self._deferred.cancel(invocation_id, AbortReason(reason))

    def interrupt(self) -> None:
        """Interrupt the turn: calls that wait are stopped, and of those that run the ones whose tools allow it.

        A tool that blocks comes to its end (AT-SCHED-14); `cancel` asks one call to stop whatever its tool says here.
        """
        for call in self._under_way():
            if not call.started_ns or is_interruptible(call):
                request_cancel(call, AbortReason.USER_INTERRUPTION)

    def cancel_all(self) -> None:
        """Ask every call to stop, as a person does with Ctrl-C."""
        for call in self._under_way():
            request_cancel(call, AbortReason.USER_INTERRUPTION)

    @property
    def shared(self) -> JsonObject:
        """The context that calls share, as tools have left it."""
        return {**self._core.shared}

    def _tool_of(self, tool_id: ToolId) -> Tool | None:
        entry = self._catalog.find(tool_id)
        return None if entry is None else self._core.tools[entry]

    def _surface_of(self, held: Checkpoint) -> Surface | None:
        """Give a call that is taken up the surface it was made on, or one that offers no more."""
        if held.surface_id is None:
            return None
        reach = None if held.only is None else frozenset(held.only)
        return self._surfacing.restored(held.surface_id, reach)

    def _under_way(self) -> tuple[Call, ...]:
        """Give the calls of this agent and of those that it started."""
        calls = (cast("Call", call) for call in self._core.calls.values())
        return tuple(call for call in calls if self._core in call.core.line())

    def under_way(self) -> tuple[InvocationId, ...]:
        """Name the calls that this runtime carries now, those that it took up included."""
        return tuple(call.invocation_id for call in self._under_way())

    async def approvals(self, *, limit: int = 1000, after: ApprovalId | None = None) -> tuple[Question, ...]:
        """List the open questions, the oldest first; on a durable store those of every process.

        Args:
            limit: how many at most.
            after: the `approval_id` of the last one seen, to list those that were asked after it.
        """
        if self._recovery is not None:
            return await self._recovery.approvals.questions(limit, after)
        pending = self._core.approvals.pending(timestamp(self._core.now_ns()))
        return tuple(each for each in pending if after is None or each.approval_id > after)[:limit]

    async def question(self, approval_id: ApprovalId) -> Question | None:
        """Give one open question, without a look at the others; none if it is not open any more, or never was."""
        if self._recovery is not None:
            return await self._recovery.approvals.question(approval_id)
        return self._core.approvals.get(approval_id)

    async def decide(
        self,
        approval_id: ApprovalId,
        answer: str | Answer,
        *,
        updated_input: JsonObject | None = None,
        by: str = "user",
        message: str | None = None,
    ) -> Answered | Refused:
        """Answer an open question: `allow`, `deny`, or allow with an updated input. The first answer stands."""
        words = answer if not isinstance(answer, str) else answer_in(answer, updated_input, message)
        if self._recovery is not None:
            return await self._recovery.answer(approval_id, words, by=by)
        return take_answer(self._core, approval_id, words, by=by)

    async def retain(self, *, payloads: timedelta | None = None, journal: timedelta | None = None) -> RetentionResult:
        """Keep stored bytes and facts for so long, and let go of what is older; what is not given is kept.

        Raises:
            ConfigError: it is no length of time.
            StoreError: a disk failed.
        """
        return await retain(self._core, payloads=payloads, journal=journal)

    async def resume(self) -> int:
        """Take up the calls of processes that died, now rather than soon; tell how many."""
        return 0 if self._recovery is None else await self._recovery.recover()

    @property
    def store_fault(self) -> str | None:
        """Why the durable store could not be used when it was last looked at, seconds ago; none if it could."""
        return None if self._recovery is None else self._recovery.fault
