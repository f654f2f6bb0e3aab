"""Run hooks in order, gather what they say, stop at the first that says stop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from agenttool.codec import parse_object, sorted_json
from agenttool.errors import words_of
from agenttool.hooks.match import Hook
from agenttool.hooks.reply import SILENT, HookReply, read_reply
from agenttool.ports.hooks import HookQuestion
from agenttool.records import JsonObject


class World(Protocol):
    """What running a hook takes: the time, and a guard around other people's code."""

    def now_ns(self) -> int:
        """Give the time."""
        ...

    async def guard(self, work: Callable[[], Awaitable[object]]) -> tuple[object, Exception | None]:
        """Do the work; give its value, or the exception it raised instead."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """One run of one hook."""

    hook: Hook
    reply: HookReply
    started_ns: int
    ended_ns: int
    fault: str | None = None


@dataclass(slots=True)
class HookRuns:
    """What all hooks of one place said. A stop or a fault ends the round; later hooks are not asked."""

    runs: list[HookRun] = field(default_factory=list[HookRun])
    updated_input: JsonObject | None = None

    @property
    def stopped_by(self) -> HookRun | None:
        """The run that said stop, if any."""
        return next((run for run in self.runs if run.reply.stop is not None), None)

    @property
    def failed(self) -> HookRun | None:
        """The run that went wrong, if any."""
        return next((run for run in self.runs if run.fault is not None), None)


async def run_hooks(hooks: tuple[Hook, ...], question: HookQuestion, world: World) -> HookRuns:
    """Ask each hook in turn; one that replaces the input changes what the next one sees."""
    rounds = HookRuns()
    for hook in hooks:
        run = await _ask(hook, question, world)
        rounds.runs.append(run)
        if run.fault is not None or run.reply.stop is not None:
            break
        if run.reply.updated_input is not None:
            rounds.updated_input = run.reply.updated_input
            question = replace(question, input=run.reply.updated_input)
    return rounds


async def _ask(hook: Hook, question: HookQuestion, world: World) -> HookRun:
    started, reply = world.now_ns(), SILENT
    own = replace(question, input=_own_copy(question.input))
    answer, fault = await world.guard(lambda: _answer(hook, own))
    if fault is None:
        reply = cast("HookReply", answer)
    elif isinstance(fault, TimeoutError):
        fault = TimeoutError(f"no answer within {hook.timeout_s:g} s")
    words = None if fault is None else f"hook {hook.name!r} failed: {type(fault).__name__}: {words_of(fault)}"
    return HookRun(hook=hook, reply=reply, started_ns=started, ended_ns=world.now_ns(), fault=words)


async def _answer(hook: Hook, question: HookQuestion) -> HookReply:
    async with asyncio.timeout(hook.timeout_s):
        answer = await hook.runner.run(question)
    return read_reply(answer)


def _own_copy(value: JsonObject) -> JsonObject:
    return parse_object(sorted_json(value))
