"""Calls without a waiting caller: started in the background, or waiting for a deferred result."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from agenttool.errors import ConfigError, StoreError
from agenttool.journal.projection import invocation_of, result_in
from agenttool.pipeline.call import Call, Core
from agenttool.pipeline.call_state import BackgroundState
from agenttool.pipeline.run import run_call
from agenttool.ports.facts import Fact
from agenttool.records import INVOCATION, InvocationId, ToolInvocation, ToolResult

POLL_S, MAX_POLL_S = 0.1, 2.0
"""How often `wait` polls for the end of a call in another process; the interval grows."""


_DIGITS = 32


class BackgroundCalls:
    """The calls that run without a waiting caller, and the wait for their results."""

    def __init__(self, core: Core) -> None:
        """Start without calls; `core` is that of the root runtime."""
        self._core = core
        self._tasks: set[asyncio.Task[ToolResult]] = set()

    def known(self, invocation_id: InvocationId) -> ToolInvocation | None:
        """Return the invocation of a call that was started before, in any process."""
        return invocation_of(self._core.journal.log.facts_of(invocation_id))

    async def start(self, call: Call) -> ToolInvocation:
        """Run a call in a task; return its invocation once it has ended or waits for an answer."""
        idle: asyncio.Future[None] = self._core.timing.loop.create_future()
        background = call.background = BackgroundState(idle, [])
        task = asyncio.create_task(run_call(call))  # noqa: TID251 -- the close of the runtime waits for it
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: background.become_idle())
        await idle
        invocation = invocation_of(_facts_of(call))
        if invocation is None:
            raise AssertionError("a call that was started has facts")
        return invocation

    async def stop(self) -> None:
        """Wait for the end of every call that was started here."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def wait(self, invocation_id: InvocationId, within_s: float | None) -> ToolResult | None:
        """Wait for the stored result of a call, in whichever process it ends; None if the time runs out."""
        pause_s = POLL_S
        with suppress(TimeoutError), self._core.registry.waiter() as call_ended:
            async with asyncio.timeout(within_s):
                while (result := await self._stored_result(invocation_id)) is None:
                    call_ended.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause_s):
                            await call_ended.wait()
                    pause_s = min(1.1 * pause_s, MAX_POLL_S)
                return result
        return None

    async def _stored_result(self, invocation_id: InvocationId) -> ToolResult | None:
        """Return the result of a call once it is stored durably."""
        log = self._core.journal.log
        if log.durable and result_in(log.facts_of(invocation_id)) is not None:
            with suppress(StoreError):  # the disk may work again at the next poll
                await log.settle()
        return result_in(log.stored_facts_of(invocation_id))


def _facts_of(call: Call) -> Sequence[Fact]:
    """Return all facts of a call that has ended or waits.

    Those of a waiting call come from memory, because reading the log takes longer than the call did.
    """
    facts = None if call.background is None else call.background.facts
    if facts is None or call.status is None or call.status.is_terminal:
        return call.core.journal.log.facts_of(call.invocation_id)
    return facts


def unique_part(invocation_id: InvocationId) -> str:
    """Return the unique part of an id that `new_invocation_id` made.

    Raises:
        ConfigError: it is another id.
    """
    unique = invocation_id.partition("_")[2]
    if not INVOCATION.owns(invocation_id) or len(unique) != _DIGITS:
        raise ConfigError(f"a call cannot be named {invocation_id!r}; take a name from new_invocation_id()")
    return unique
