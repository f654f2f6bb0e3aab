"""The calls of a runtime: start one that may outlive its caller, and follow it in whichever process it runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Self, cast, overload

from agenttool.agent.agent import Agent
from agenttool.agent.batch import attach_request
from agenttool.agent.builtin_tools import digest_in
from agenttool.call.call import Call, Core
from agenttool.call.call_state import BackgroundState
from agenttool.call.plan import plan
from agenttool.call.services import PayloadReader
from agenttool.codec import clone
from agenttool.durable.background import call_key, unique_part
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.journal import follow_facts
from agenttool.journal.projection import records_of
from agenttool.policy.approvals import Approver
from agenttool.ports.calls import ToolCall
from agenttool.ports.deferred import Thread
from agenttool.ports.facts import Fact
from agenttool.ports.identity import Principal
from agenttool.records import (
    INVOCATION,
    AbortReason,
    InvocationId,
    InvocationStatus,
    JsonObject,
    ToolId,
    ToolInvocation,
    ToolProgress,
    ToolResult,
    ToolSurface,
)


class CallHandle:
    """A call that was started: `call = await rt.start(...)`. It may end after its caller, and in another process.

    Attributes:
        id: the id of its invocation; `rt.calls.get(id)` returns a handle in any process on the store.
    """

    __slots__ = ("_agent", "_call", "id")

    def __init__(self, agent: Agent, invocation_id: InvocationId, call: Call | None) -> None:
        self._agent, self.id, self._call = agent, invocation_id, call

    def __repr__(self) -> str:
        """Return the id and the status, if that can be read."""
        try:
            status = self.status.value
        except (ConfigError, StoreError):
            status = "unknown status"
        return f"<call {self.id}: {status}>"

    @property
    def status(self) -> InvocationStatus:
        """Its status now.

        Raises:
            ConfigError: the journal has no such call: it was deleted, or was lost with the lease of its process.
        """
        call = self._call
        return self._recorded.status if call is None or call.is_parked else call.status or InvocationStatus.PLANNED

    @property
    def tool_id(self) -> ToolId:
        """The id of its tool."""
        return self._recorded.tool_id if self._call is None else self._call.tool_id

    @property
    def stored_result(self) -> ToolResult | None:
        """The result of a call that was started and has ended in this process, once it is stored; else None."""
        return None if self._call is None or self._call.background is None else self._call.background.result

    @property
    def _recorded(self) -> ToolInvocation:
        return self._agent.background.known(self.id)

    async def idle(self) -> Self:
        """Return this handle once the call has ended, or it or a nested call of it waits for an answer.

        For a call that another process started, return it at once.
        """
        background = None if self._call is None else self._call.background
        if background is not None and background.idle is not None:
            await background.idle.wait()
        return self

    @overload
    async def result(self) -> ToolResult: ...
    @overload
    async def result(self, within_s: float | None) -> ToolResult | None: ...
    async def result(self, within_s: float | None = None) -> ToolResult | None:
        """Wait for the result, whichever process ends the call; return None if `within_s` seconds pass before.

        Raises:
            ConfigError: the runtime is closed, or the call itself waits for the call that this code runs in.
        """
        return await self._agent.background.wait(self.id, within_s)

    async def progress(self) -> AsyncIterator[ToolProgress]:
        """Yield the progress of the call until it ends, whichever process runs it; earlier updates come first.

        The iterator also ends when the runtime is closed.
        """
        journal, seen = self._agent.core.journal, set[str]()

        def updates(facts: Iterable[Fact]) -> Iterator[ToolProgress]:
            for record in records_of(facts):
                if isinstance(record, ToolProgress) and record.progress_id not in seen:
                    seen.add(record.progress_id)
                    yield record

        after, earlier = journal.log.last, journal.log.facts_of(self.id)
        for each in updates(earlier):
            yield each
        if any(fact.step.ends for fact in earlier):
            return
        async with aclosing(follow_facts(journal, after)) as facts:
            async for _, fact in facts:
                if fact.invocation_id != self.id:
                    continue
                for each in updates((fact,)):
                    yield each
                if fact.step.ends:
                    return

    async def cancel(
        self, *, reason: AbortReason = AbortReason.USER_INTERRUPTION, by: str | Approver | None = None
    ) -> bool:
        """Request the cancellation, as `rt.cancel` does; return whether it is possible."""
        return await self._agent.cancel(self.id, AbortReason(reason), by)


class CallAccess:
    """The calls of a runtime: `rt.calls`. Calls that it starts belong to one conversation."""

    def __init__(self, agent: Agent, core: Core) -> None:
        self._agent = agent
        self._core = core

    @property
    def thread(self) -> Thread:
        """The conversation of the calls."""
        return self._core.thread

    @property
    def shared(self) -> JsonObject:
        """A copy of the context that calls share and tools change."""
        return clone(self._core.shared)

    async def start(  # noqa: PLR0913 -- what a server may pass
        self,
        call: ToolCall,
        *,
        surface: ToolSurface | None = None,
        actor_ref: str | Principal | None = None,
        idempotency_key: str | None = None,
        ends_with_process: bool = False,
        on_idle: Callable[[], object] | None = None,
        on_progress: Callable[[ToolProgress], object] | None = None,
        note_for_approver: str | None = None,
    ) -> CallHandle:
        """Start a call as `rt.start` does, with more options, which servers use.

        Args:
            call: the tool, the arguments, and what the caller knows of the call, such as an id of `new_id`.
            surface: the surface to call it on. Default: every tool that this runtime may call.
            actor_ref: the caller.
            idempotency_key: as in `rt.start`; not together with `call.invocation_id`, which is a key, too.
            ends_with_process: if it runs when its process dies, it is not run again, even if it only reads.
            on_idle: called each time the call starts to wait for an answer, and when it ends.
            on_progress: called in the event loop with each recorded update of a call that runs in this process.
            note_for_approver: text that is added to the reason of a question about the call.

        Raises:
            ConfigError: the id is not one of `new_id`, there is a key, too, or the key was used for another tool or
                other arguments.
            StoreError: the id or key cannot be reserved.
        """
        agent = self._agent
        key, unique = call_key(call.invocation_id, idempotency_key, actor_ref), unique_part(call.invocation_id)
        chosen = agent.surfacing.default() if surface is None else surface
        surfaces = agent.surfacing.surfaces
        planned = plan(self._core, surfaces, call.name, call.arguments, chosen, call.native_call_id, actor_ref, unique)
        attach_request(planned, call)
        background = BackgroundState(
            asyncio.Event(),
            on_idle,
            on_progress=on_progress,
            ends_with_process=ends_with_process,
            note_for_approver=note_for_approver,
        )
        earlier = await agent.background.start(planned, key, background)
        return CallHandle(agent, planned.invocation_id, planned) if earlier is None else self._of(earlier.invocation_id)

    def get(self, invocation_id: str) -> CallHandle:
        """Return a handle for a call of any process on the store, also one that has ended.

        Raises:
            ConfigError: no such call was started.
        """
        if not isinstance(cast("object", invocation_id), str):
            raise ConfigError(f"an id of a call is a text, got {invocation_id!r}; pass the `id` of a handle")
        known = InvocationId(invocation_id)
        if known not in self._core.registry.calls:
            self._agent.background.known(known)
        return self._of(known)

    def _of(self, invocation_id: InvocationId) -> CallHandle:
        return CallHandle(self._agent, invocation_id, self._core.registry.calls.get(invocation_id))

    def new_id(self) -> InvocationId:
        """Return an id for a call that is going to be started."""
        return INVOCATION.compose(self._core.ids.unique())

    def open_ids(self) -> tuple[InvocationId, ...]:
        """Return the ids of the open calls of this process, recovered ones included."""
        return tuple(call.invocation_id for call in self._agent.open_calls)

    def interrupt(self, *, blocking: bool = False) -> None:
        """Interrupt the turn: cancel calls that wait, and running calls whose tools may be interrupted.

        A call whose tool blocks interruption runs to its end (AT-SCHED-14), unless `blocking` includes it.
        """
        self._agent.interrupt(blocking=blocking)

    async def recover(self) -> int:
        """Recover the calls of processes that died, now; return how many."""
        return await self._agent.recovery.recover()

    async def may_read(self, payload: str, *, actor_ref: str | None = None) -> bool:
        """Return whether an actor may read stored output in this conversation; `payload` is its URI or its digest.

        Raises:
            StoreError: the store cannot be read.
        """
        digest, reader = digest_in(payload), PayloadReader(self._core.thread, actor_ref)
        return digest is not None and await self._core.payloads.may_read(reader, digest)
