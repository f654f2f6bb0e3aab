"""Calls without a waiting caller: start one, wait for its result, and deliver deferred results."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace as replace_core
from typing import Self

from agenttool.catalog.surface_store import SurfaceStore
from agenttool.errors import ConfigError, StoreError
from agenttool.journal.projection import invocation_of
from agenttool.journal.reading import result_in
from agenttool.pipeline.call import Call
from agenttool.pipeline.call_state import BackgroundState
from agenttool.pipeline.core import Core
from agenttool.pipeline.deferred_results import DeferredResults
from agenttool.pipeline.plan import plan
from agenttool.pipeline.prompts import Chosen, Prompts
from agenttool.pipeline.run import run_call
from agenttool.pipeline.tool import Tool
from agenttool.ports.deferred import PendingCall, Prompt, PromptOutcome, Thread
from agenttool.ports.facts import Fact
from agenttool.ports.stores import AnswerStatus
from agenttool.records import INVOCATION, InvocationId, JsonObject, ToolId, ToolInvocation, ToolResult, ToolSurface

POLL_S, MAX_POLL_S = 0.1, 2.0
"""How often `wait` polls for the end of a call in another process; the interval grows."""


_DIGITS = 32


class BackgroundCalls:
    """The methods of `Runtime` for calls without a waiting caller."""

    _core: Core
    _surfaces: SurfaceStore
    _deferred: DeferredResults | None = None
    _prompts: Prompts | None = None
    _started: "set[asyncio.Task[ToolResult]]"

    def _tool_of(self, tool_id: ToolId) -> Tool | None:
        raise NotImplementedError

    def _start_deferred(self) -> None:
        core = self._core
        self._started = set()
        if core.parked is None:
            return
        self._deferred = DeferredResults(core, core.parked, self._tool_of)
        if not core.durable:
            core.overdue = self._deferred.overdue
        if core.shelf is not None:
            self._prompts = Prompts(core.shelf, self._deferred, self._tool_of)
            core.withdraw_prompt = self._prompts.withdraw

    async def _stop_deferred(self) -> None:
        if self._prompts is not None:
            await self._prompts.stop()
        if self._started:
            await asyncio.wait(self._started)
        if self._deferred is not None:
            await self._deferred.stop()

    @property
    def thread(self) -> Thread:
        """The conversation of the calls."""
        return self._core.thread

    def in_thread(self, thread_id: str, *, under: Thread | None = None) -> Self:
        """Return this runtime for calls in another conversation, by default a child of its own one.

        It has the rules of this moment; a rule that is remembered later applies to runtimes that are made after it.
        """
        parent = under or self._core.thread
        thread = Thread(thread_id=thread_id, ancestors=(*parent.ancestors, parent.thread_id))
        other = copy(self)
        other._core = replace_core(self._core, thread=thread, parent=self._core)  # noqa: SLF001 -- same class
        return other

    @property
    def is_durable(self) -> bool:
        """Whether another process can recover the calls of this one."""
        return self._core.durable

    def new_invocation_id(self) -> InvocationId:
        """Return an id for a call that is going to be started."""
        return INVOCATION.compose(self._core.ids.unique())

    async def start(
        self,
        name: str,
        arguments: JsonObject | str | bytes,
        *,
        surface: ToolSurface | None = None,
        native_call_id: str | None = None,
        actor_ref: str | None = None,
        invocation_id: InvocationId | None = None,
    ) -> ToolInvocation:
        """Start a call and return its invocation once it has ended or waits for an answer.

        `result` and `wait` return its result, in whichever process it ends. With an id from `new_invocation_id` the
        call can be started again after a crash: a known call is not started twice.

        Raises:
            ConfigError: the id is not one of `new_invocation_id`.
        """
        known = None if invocation_id is None else invocation_of(self._core.journal.log.facts_of(invocation_id))
        if known is not None:
            return known
        unique = None if invocation_id is None else _unique_in(invocation_id)
        call = plan(self._core, self._surfaces, name, arguments, surface, native_call_id, actor_ref, unique)
        idle: asyncio.Future[None] = self._core.loop.create_future()
        background = call.background = BackgroundState(idle, [])
        task = asyncio.create_task(run_call(call))  # noqa: TID251 -- the close of the runtime waits for it
        self._started.add(task)
        task.add_done_callback(self._started.discard)
        task.add_done_callback(lambda _: background.become_idle())
        await idle
        invocation = invocation_of(_facts_of(call))
        if invocation is None:
            raise AssertionError("a call that was started has facts")
        return invocation

    async def wait(self, invocation_id: InvocationId, within_s: float | None = None) -> ToolResult | None:
        """Wait for the result of a call, in whichever process it ends; none if it does not end within that time."""
        core, ended, pause_s = self._core, asyncio.Event(), POLL_S
        core.closing.append(ended)
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(within_s):
                    while (result := await self._stored_result(invocation_id)) is None:
                        ended.clear()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(pause_s):
                                await ended.wait()
                        pause_s = min(1.1 * pause_s, MAX_POLL_S)
                    return result
            finally:
                core.closing.remove(ended)
        return None

    async def _stored_result(self, invocation_id: InvocationId) -> ToolResult | None:
        """Return the result of a call once it is stored durably."""
        log = self._core.journal.log
        if log.durable and result_in(log.facts_of(invocation_id)) is not None:
            with suppress(StoreError):  # the disk may work again at the next poll
                await log.settle()
        return result_in(log.stored_facts_of(invocation_id))

    async def waiting(self, *, after: InvocationId | None = None, limit: int = 1000) -> tuple[PendingCall, ...]:
        """Return the calls of every process that wait for a deferred result, the oldest first."""
        return () if self._deferred is None else await self._deferred.waiting(after=after, limit=limit)

    async def unsettled(self, *, limit: int = 1000) -> tuple[PendingCall, ...]:
        """Return the calls that have a stored result and have not ended, because no process has their tool.

        They end as soon as a process declares it.
        """
        return () if self._deferred is None else await self._deferred.unsettled(limit)

    async def awaited(self, invocation_id: InvocationId) -> PendingCall | None:
        """Return a call that waits for a deferred result; none if it does not."""
        return None if self._deferred is None else await self._deferred.pending(invocation_id)

    async def deliver_result(self, invocation_id: InvocationId, body: bytes) -> AnswerStatus:
        """Store the result of a deferred call, in the format of its tool; the first one stands.

        Raises:
            StoreError: it could not be stored; deliver it again.
        """
        return AnswerStatus.UNKNOWN if self._deferred is None else await self._deferred.deliver(invocation_id, body)

    async def ask(self, prompt: Prompt, most: int) -> PromptOutcome:
        """Show the prompt of a waiting call, unless it had so many prompts already."""
        return PromptOutcome.NOT_AWAITED if self._prompts is None else await self._prompts.ask(prompt, most)

    async def prompts(self, *, limit: int = 1000) -> tuple[Prompt, ...]:
        """Return the open prompts of waiting calls of every process."""
        return () if self._prompts is None else await self._prompts.pending(limit)

    async def choose(self, prompt_id: str, selected: int | None) -> Chosen:
        """Answer a prompt by the number of a choice, from 0; none declines. The first answer stands.

        Raises:
            ConfigError: this runtime stores no prompts.
        """
        if self._prompts is None:
            raise ConfigError("this runtime stores no prompts; open it with a store")
        return await self._prompts.choose(prompt_id, selected)


def _facts_of(call: Call) -> Sequence[Fact]:
    """Return all facts of a call that has ended or waits.

    Those of a waiting call come from memory, because reading the log takes longer than the call did.
    """
    facts = None if call.background is None else call.background.facts
    if facts is None or call.status is None or call.status.is_terminal:
        return call.core.journal.log.facts_of(call.invocation_id)
    return facts


def _unique_in(invocation_id: InvocationId) -> str:
    unique = invocation_id.partition("_")[2]
    if not INVOCATION.owns(invocation_id) or len(unique) != _DIGITS:
        raise ConfigError(f"a call cannot be named {invocation_id!r}; take a name from new_invocation_id()")
    return unique
