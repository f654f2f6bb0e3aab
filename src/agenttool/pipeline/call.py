"""What every phase may see of one call, and what a running tool may do with it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType

from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import Unresolved
from agenttool.codec import json_bytes, parse_object
from agenttool.journal import steps
from agenttool.pipeline.core import Core
from agenttool.pipeline.evidence import Decided, InputNoted, Progressed, native_ids, shared_decision
from agenttool.pipeline.parts import keep_part
from agenttool.pipeline.progress import Update, put_down
from agenttool.pipeline.tool import Tool
from agenttool.policy.verdict import Verdict
from agenttool.policy.votes import ExternalVote, HookVote
from agenttool.ports.calls import AS_IT_IS, Shown
from agenttool.ports.deferred import Thread
from agenttool.ports.digests import key_of
from agenttool.ports.evidence import CallEnded, CallLaunched, CallRequest
from agenttool.ports.facts import Fact, FactData, Step
from agenttool.records import (
    AbortReason,
    Cancellation,
    DecisionId,
    InvocationId,
    InvocationStatus,
    Json,
    JsonObject,
    Live,
    MutationId,
    Phase,
    ResultId,
    SchedulerPolicy,
    SchedulingFacts,
    Timestamp,
    ToolId,
    ToolResult,
)
from agenttool.results.redaction import Scrubber, compile_scrubber
from agenttool.scheduler.drive import Drive, StopSignal
from agenttool.scheduler.limiter import CallLimiter, Permit
from agenttool.scheduler.timeouts import Deadline, Expiry, TimeLimit

_NO_CREDENTIALS: Mapping[str, str] = MappingProxyType({})
_making_signals = threading.Lock()

FREE_UPDATES = 100
"""So many updates of one call are told as they come."""

UPDATE_EVERY_S = 0.05
"""After that, one in so many seconds; the others are dropped."""

_UNRESOLVED = ToolId("tool_unresolved")


class Call(Live, eq=False):
    """One call on its way. It is also the `Job` that its executor is handed.

    Attributes:
        has_full_end: its end is more than its result: it changed its input or the context, made calls, was held or
            asked to stop, or its result leaves a batch in order.
        unwritten: the last step that is not in the journal yet. Steps that follow one another without a wait are
            written together: a call that was admitted, allowed and started is one fact.
        change: the change of its input by defaults or its normal form, as long as that is not written.
        verdict: the standing verdict that allowed it, as long as that is not written.
        unique: what its id and those of all its records are made of.
        gate: that of the batch it belongs to, which it passes before the runtime's.
        goes_on_until: when the work that nobody could stop ends; until then its turns are not given to others.
        cap_at: the moment on the loop's clock at which its time is over, retries included.
        pauses: how many of the calls that it led to wait for a person; its time stands still meanwhile.
        children: the calls under way that its tool made.
        wanted_changes: what its tool wants to change in the shared context; deferred ones wait for the batch's end.
        fault: what was wrong with the arguments before they could even be written down.
        shown: what its caller was shown of the surface.
        lost: why what was given as its surface leads nowhere.
        is_held: the store keeps what it takes to go on with it.
        is_parked: this process closes, and leaves it to the next one; or nobody waits for it, and it waits for others.
        is_detached: nobody waits for its result, so that it may be left while the tool's answer is not there.
        is_away: its tool works on it elsewhere, and will answer later.
        rests: whom to tell that it has come to rest, ended or not.
        story: what was noted of it, as long as whoever started it waits for it to come to rest.
        attempts: how many processes have begun to run it.
        salt: what hides its sensitive fields in digests; told to nobody, and kept with the raw inputs.
        allowed_until: when its permission ends, if it does.
        depth: how many calls led to it.
        scheduler_policy: that of the batch it belongs to.
        leaves_in_order: its result leaves a batch in order, so that it may have to wait once it is made.
        made: what is told of its end when such a result leaves.
    """

    core: Core
    request: CallRequest
    surface: Surface | None
    unique: str
    invocation_id: InvocationId
    fault: str | None = None
    parent: "Call | None" = None
    depth: int = 0
    shown: Shown = AS_IT_IS
    scheduler_policy: SchedulerPolicy | None = None
    tool_id: ToolId = _UNRESOLVED
    status: InvocationStatus | None = None
    events: int = 0
    phase: Phase = Phase.RESOLVE_TOOL
    tool: Tool | None = None
    drive: Drive | None = None
    turn: Permit | None = None
    gate: CallLimiter | None = None
    batch_turn: Permit | None = None
    goes_on_until: "asyncio.Future[None] | None" = None
    deadline: Deadline | None = None
    limit: TimeLimit | None = None
    cap_at: float = 0.0
    pauses: int = 0
    abort_reason: AbortReason | None = None
    cancellation: Cancellation | None = None
    is_cancel_told: bool = False
    signal: StopSignal | None = None
    children: "dict[InvocationId, Call] | None" = None
    interrupted: BaseException | None = None
    result: ToolResult | None = None
    scrubber: Scrubber | None = None
    facts: SchedulingFacts | None = None
    started_ns: int = 0
    progress: int = 0
    reported_at: float = 0.0
    on_progress: Callable[[Progressed], None] | None = None
    wanted_changes: JsonObject | None = None
    has_deferred_changes: bool = False
    is_held: bool = False
    is_parked: bool = False
    attempts: int = 1
    leaves_in_order: bool = False
    made: CallEnded | None = None
    mutations: int = 0
    decisions: int = 0
    hook_runs: int = 0
    hints: tuple[HookVote, ...] = ()
    opinions: tuple[ExternalVote, ...] = ()
    hook_context: tuple[JsonObject, ...] = ()
    has_full_end: bool = False
    unwritten: Step | None = None
    change: InputNoted | None = None
    verdict: Verdict | None = None
    call_input: JsonObject = None  # pyright: ignore[reportAssignmentType] -- there before any tool sees it
    lost: Unresolved | None = None
    allowed_until: Timestamp | None = None
    is_detached: bool = False
    is_away: bool = False
    rests: "asyncio.Future[None] | None" = None
    story: list[Fact] | None = None
    salt: bytes = b""

    @property
    def result_id(self) -> ResultId:
        """The id of the one result this call will have."""
        return ResultId("res_" + self.unique)

    def note(self, step: Step, data: FactData = None) -> int:
        """Write a step of this call to the journal, after those that are not written yet; return its time."""
        if self.unwritten is not None:
            self.flush()
        return self._note(step, data)

    def publish(self) -> None:
        """Make the call visible before it waits: list it as open, and write the steps that are not written yet."""
        self.core.calls[self.invocation_id] = self
        self.flush()

    def flush(self) -> None:
        """Write the steps that are not in the journal yet."""
        last, self.unwritten = self.unwritten, None
        if last is None:
            return
        verdict, self.verdict = self.verdict, None
        if last is steps.LAUNCHED and verdict is not None and self.facts is not None:
            shared = shared_decision(verdict, self.facts)
            change, self.change = self.change, None
            launched = CallLaunched(self.request, shared, self.invocation_id, change, self.digest_key)
            self._note(steps.LAUNCHED, launched, self.started_ns)
            return
        self._note(steps.ADMITTED, self.request)
        judged = self.request.model_input
        if self.change is not None:
            judged = self.change.value
            self._note(steps.INPUT_CHANGED, self.change)
            self.change = None
        if verdict is not None:
            self._note(steps.JUDGED, self._decision(verdict, judged))

    def _note(self, step: Step, data: FactData, moment: int = 0) -> int:
        sequence = self.events
        moment = self.core.journal.note(self, step, data, moment)
        if self.story is not None:
            self.story.append(Fact(step, moment, sequence, self.invocation_id, self.tool_id, data))
        return moment

    def next_mutation(self) -> MutationId:
        """Name the next change of this call's input."""
        self.mutations += 1
        self.has_full_end = True
        return self.mutation_refs()[-1]

    def mutation_refs(self) -> tuple[MutationId, ...]:
        """Name the changes of this call's input so far."""
        return tuple(MutationId(f"mut_{self.unique}-{number}") for number in range(1, self.mutations + 1))

    def own_turn(self) -> Permit | None:
        """Give the turn that this call holds to itself, so that others can be made within it."""
        if self.turn is not None:
            self.turn = self.core.gate.own_permit(self.turn)
        return self.turn

    def decided(self, verdict: Verdict, judged: bytes) -> Decided:
        """Make the evidence of the next decision about this call."""
        self.decisions += 1
        return self._decision(verdict, judged)

    def _decision(self, verdict: Verdict, judged: bytes) -> Decided:
        decision_id = DecisionId(f"dec_{self.unique}-{self.decisions}")
        return Decided(verdict, judged, decision_id, self.request.redactor, digest_key=self.digest_key)

    @property
    def digest_key(self) -> bytes:
        """What the digests of its inputs are sealed with; empty if its tool has no sensitive fields."""
        if self.tool is None or self.tool.redactor is None:
            return b""
        self.salt = self.salt or self.core.ids.secret()
        return key_of(self.salt, self.request.model_input)

    @property
    def cancel(self) -> "Call":
        """The signal to stop, which is this call."""
        return self

    @property
    def is_requested(self) -> bool:
        """Tell whether someone asked this call to stop."""
        return self.cancellation is not None or self.abort_reason is not None

    @property
    def reason(self) -> AbortReason | None:
        """Tell why it should stop."""
        return self.abort_reason or (self.cancellation.abort_reason if self.cancellation is not None else None)

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker's thread until someone asks this call to stop, and tell whether someone did."""
        with _making_signals:
            signal = self.signal = self.signal or StopSignal()
        if self.is_requested:
            signal.give()
        return signal.wait(timeout)

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Make a call from within this one: on the same surface, judged like any other, stopped with this one."""
        return self.core.run_nested(self, name, arguments)

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Make a call from within this one, from the thread its tool runs in.

        Raises:
            RuntimeError: on the event loop's own thread, which would wait for itself.
        """
        if threading.get_ident() == self.core.thread_id:
            raise RuntimeError("a call cannot be waited for on the event loop's thread; await `call` instead")
        return asyncio.run_coroutine_threadsafe(self.call(name, arguments), self.core.loop).result()

    @property
    def context(self) -> Mapping[str, Json]:
        """What tools before left in the shared context."""
        return MappingProxyType(self.core.shared)

    def change_context(self, changes: JsonObject) -> None:
        """Remember what the tool wants to change; what becomes of it is decided when it has ended."""
        self.has_full_end = True
        self.wanted_changes = {**(self.wanted_changes or {}), **parse_object(json_bytes(changes))}

    @property
    def thread(self) -> Thread:
        """The conversation that the call is made in."""
        return self.core.thread

    @property
    def native_call_id(self) -> str | None:
        """What the model calls this call."""
        return self.request.native_call_id

    @property
    def actor_ref(self) -> str | None:
        """Who asks for it."""
        return self.request.actor_ref

    def come_to_rest(self) -> None:
        """Tell whoever started the call, and does not wait for its end, that it waits for somebody else now."""
        if self.rests is not None and not self.rests.done():
            self.rests.set_result(None)

    @property
    def credentials(self) -> Mapping[str, str]:
        """What was leased for this one call."""
        return _NO_CREDENTIALS

    @property
    def sandbox_profile(self) -> str | None:
        """The confinement that the tool declared."""
        return self.tool.entry.tool.execution_profile.sandbox_profile if self.tool else None

    @property
    def timeout_s(self) -> float | None:
        """How long the tool may run: what it declared, or the runtime's limit for tools that declare nothing."""
        declared = self.tool.timeout_s if self.tool is not None else None
        return declared if declared is not None else self.core.default_timeout_s

    @property
    def deadline_ns(self) -> int | None:
        """When the call will be stopped."""
        seconds = self.timeout_s
        return None if seconds is None or not self.started_ns else self.started_ns + int(seconds * 1e9)

    def start_clocks(self) -> None:
        """Let its time run, once the tool waits for something: before that nothing could stop it."""
        seconds, idle = self.timeout_s, self.tool.idle_timeout_s if self.tool is not None else None
        deadlines = self.core.deadlines
        if seconds is not None and not self.cap_at:
            self.cap_at = deadlines.now() + seconds
        if idle is not None or (self.pauses and seconds is not None):
            left = None if seconds is None else self.cap_at - deadlines.now()
            self.limit = TimeLimit(deadlines, self.run_out, cap=left, idle=idle)
            if self.pauses:
                self.limit.pause()
        elif seconds is not None:
            self.deadline = deadlines.arm(self.cap_at, self.run_out)

    def stop_clocks(self) -> None:
        """Let its time stop: the tool has ended."""
        if self.deadline is not None:
            self.core.deadlines.cancel(self.deadline)
        elif self.limit is not None:
            self.limit.end()

    def run_out(self, expiry: Expiry = Expiry.CAP) -> None:
        """Stop the call: its time is over."""
        if self.abort_reason is None:
            self.abort_reason = AbortReason.TIMEOUT
        if self.drive is not None:
            self.drive.stop()

    def learn_secrets(self, value: Json) -> None:
        """Remember the sensitive values of an input, so that nothing that leaves the call repeats them."""
        if self.tool is not None and self.tool.redactor is not None:
            found = compile_scrubber(self.tool.redactor.find(value))
            if found is not None:
                self.scrubber = found.merged_with(self.scrubber)

    def report(
        self,
        message: str | None = None,
        *,
        percent: float | None = None,
        step: str | None = None,
        partial: Json = None,
        facts: Mapping[str, int | str] | None = None,
    ) -> None:
        """Tell how far the work is; safe from any thread."""
        update = Update(message, percent, step, partial, facts)
        if threading.get_ident() == self.core.thread_id:
            self._report(update)
        else:
            self.core.loop.call_soon_threadsafe(self._report, update)

    def goes_on(self, ended: "asyncio.Future[None]") -> None:
        """Remember that the tool's work goes on after the call."""
        self.goes_on_until = ended

    def add_native_ids(self, source: str, ids: JsonObject) -> None:
        """Keep native ids of this run."""
        self.note(steps.NATIVE_IDS, native_ids(source, ids, self.scrubber))

    def _report(self, update: Update) -> None:
        if self.unwritten is not None:
            self.flush()
        if self.status is None or self.result is not None:
            return
        if self.limit is not None:
            self.limit.progress()
        if self._is_too_soon():
            return
        self.progress += 1
        self.story = None  # it may become a long one
        scrub, is_partial = self.scrubber, update.partial is not None
        elapsed_ms = (self.core.now_ns() - self.started_ns) // 1_000_000 if self.started_ns else None
        part = keep_part(self.core, self.tool, update.partial, scrub) if is_partial else None
        told = put_down(update, number=self.progress, elapsed_ms=elapsed_ms, part=part, scrub=scrub)
        self.note(steps.PARTIAL if is_partial and self.status in _RUNNING else steps.PROGRESSED, told)
        if self.on_progress is not None:
            self.on_progress(told)

    def _is_too_soon(self) -> bool:
        """Tell whether an update is one too many: a tool that reports without end must not fill the journal."""
        if self.progress < FREE_UPDATES:
            return False
        now = self.core.deadlines.now()
        if now - self.reported_at < UPDATE_EVERY_S:
            return True
        self.reported_at = now
        return False


_RUNNING = (InvocationStatus.RUNNING, InvocationStatus.PARTIAL_RESULT)
