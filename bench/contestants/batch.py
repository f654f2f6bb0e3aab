"""Ours with a batch of reads and writes that lock accounts, beside the same sleeps under a bare semaphore."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from agenttool import Runtime, ToolCall, tool
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, JsonObject, ResourceLock, RuleSource, SchedulerPolicy, SchedulerPolicyId
from bench.contestants.shapes import SUM

READS, WRITES, ACCOUNTS = 1000, 50, 5
AT_ONCE = 16
WORK_S = 0.02
"""Duration of each call; long enough that the resolution of the event loop's clock does not matter."""


class Access(NamedTuple):
    """One call of the batch."""

    writes: bool
    account: str


def accesses() -> list[Access]:
    """Return the calls in order, with writes spread among the reads and all accounts in turn."""
    every = (READS + WRITES) // WRITES
    kinds = [place % every == every // 2 for place in range(READS + WRITES)]
    turns = {True: 0, False: 0}
    made: list[Access] = []
    for writes in kinds:
        made.append(Access(writes, f"account_{turns[writes] % ACCOUNTS}"))
        turns[writes] += 1
    return made


def _shared(its: JsonObject) -> list[ResourceLock]:
    return [ResourceLock(resource=str(its["account"]), mode="read")]


def _exclusive(its: JsonObject) -> list[ResourceLock]:
    return [ResourceLock(resource=str(its["account"]), mode="exclusive")]


@tool(read_only=True, concurrency_safe=True, open_world=False, locks=_shared)
async def read(account: str) -> str:
    """Read an account, slowly."""
    await asyncio.sleep(WORK_S)
    return SUM


@tool(read_only=False, concurrency_safe=True, destructive=False, open_world=False, locks=_exclusive)
async def write(account: str) -> str:
    """Write an account, slowly."""
    await asyncio.sleep(WORK_S)
    return SUM


@asynccontextmanager
async def opened() -> AsyncGenerator[Mapping[str, Callable[[], Awaitable[object]]]]:
    """Open a runtime with a rule that allows the writes."""
    allow = Rule(ref="bench", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("local.write",))
    policy = SchedulerPolicy(scheduler_policy_id=SchedulerPolicyId("sched_bench"), max_parallel=AT_ONCE)
    calls = [
        ToolCall(name="write" if each.writes else "read", arguments={"account": each.account}) for each in accesses()
    ]
    async with Runtime.open(tools=[read, write], rules=[allow], approve="deny") as rt:
        surface = await rt.surface()

        async def batch() -> str:
            results = await rt.batch(calls, surface=surface, policy=policy)
            return SUM if len(results) == len(calls) and not any(result.is_error for result in results) else "failed"

        yield {"batch": batch, "semaphore": _under_semaphore}


async def _under_semaphore() -> str:
    places = asyncio.Semaphore(AT_ONCE)

    async def work() -> None:
        async with places:
            await asyncio.sleep(WORK_S)

    await asyncio.gather(*[work() for _ in accesses()])
    return SUM
