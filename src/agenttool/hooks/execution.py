"""Run the hooks of one event in order until one stops the call or fails."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from agenttool.codec import clone
from agenttool.errors import words_of
from agenttool.hooks.definition import Hook
from agenttool.hooks.reply import SILENT, HookReply, read_reply
from agenttool.ports.hooks import HookQuestion
from agenttool.records import JsonObject, replace


class HookEnvironment(Protocol):
    """The services that run a hook: a clock, redaction, and a timeout for foreign code."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds."""
        ...

    def shown(self, value: JsonObject) -> JsonObject:
        """Return an input with its sensitive fields redacted."""
        ...

    def restored(self, value: JsonObject, before: JsonObject) -> JsonObject:
        """Restore redacted values where a hook left their marker.

        Raises:
            RecordError: a marker is at a place where none was shown.
        """
        ...

    async def attempt(
        self, work: Coroutine[object, object, object], *, timeout_s: float
    ) -> tuple[object, Exception | None]:
        """Run the work; return its value, or the exception that it raised.

        Work that exceeds its timeout, or whose call is stopped, is canceled and then abandoned: its result is ignored,
        and the exception says so.
        """
        ...


class HookRun(NamedTuple):
    """One run of one hook."""

    hook: Hook
    reply: HookReply
    started_ns: int
    ended_ns: int
    fault: str | None = None


@dataclass(slots=True)
class HookRuns:
    """The runs of all hooks of one event. A stop or a fault ends the sequence."""

    runs: list[HookRun]
    updated_input: JsonObject | None = None

    @property
    def stopped_by(self) -> HookRun | None:
        """The run that stopped the call, if any."""
        return self.runs[-1] if self.runs and self.runs[-1].reply.stop is not None else None

    @property
    def failed(self) -> HookRun | None:
        """The run that failed, if any."""
        return self.runs[-1] if self.runs and self.runs[-1].fault is not None else None


async def run_hooks(hooks: tuple[Hook, ...], question: HookQuestion, world: HookEnvironment) -> HookRuns:
    """Run each hook in turn; a replaced input is passed to the next hook."""
    rounds = HookRuns([])
    for hook in hooks:
        run = await _ask(hook, question, world)
        rounds.runs.append(run)
        if run.fault is not None or run.reply.stop is not None:
            break
        if run.reply.updated_input is not None:
            rounds.updated_input = run.reply.updated_input
            question = replace(question, input=run.reply.updated_input)
    return rounds


async def _ask(hook: Hook, question: HookQuestion, world: HookEnvironment) -> HookRun:
    started, reply, words = world.now_ns(), SILENT, None
    answer, fault = await world.attempt(_replied(hook, question, world), timeout_s=hook.timeout_s)
    if fault is None:
        reply = cast("HookReply", answer)
    else:
        words = f"hook {hook.name!r} failed: {type(fault).__name__}: {words_of(fault)}"
    return HookRun(hook=hook, reply=reply, started_ns=started, ended_ns=world.now_ns(), fault=words)


async def _replied(hook: Hook, question: HookQuestion, world: HookEnvironment) -> HookReply:
    """Run a hook on copies of all values, and return its reply."""
    output, details = question.output, question.details
    own = HookQuestion(
        hook_event=question.hook_event,
        invocation_id=question.invocation_id,
        tool_id=question.tool_id,
        tool_name=question.tool_name,
        input=clone(question.input if hook.is_trusted else world.shown(question.input)),
        output=None if output is None else clone(output),
        details=None if details is None else clone(details),
    )
    said = read_reply(await hook.runner.run(own), own.hook_event)
    if said.updated_input is None or hook.is_trusted:
        return said
    return replace(said, updated_input=world.restored(said.updated_input, question.input))
