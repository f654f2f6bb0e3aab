"""The state of one call, which every phase reads and changes, and the context of its running tool."""

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
from agenttool.pipeline.progress import Update, progress_of, store_partial_result
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
_signal_lock = threading.Lock()

UNTHROTTLED_UPDATES = 100
"""This many progress updates of a call are recorded at once."""

UPDATE_EVERY_S = 0.05
"""The minimum interval of later updates; updates in between are dropped."""

_UNRESOLVED = ToolId("tool_unresolved")


class Call(Live, eq=False):
    """The state of one call. It is also the `Job` that its executor receives.

    Attributes:
        unique: the unique part of the ids of the call and all its records.
        fault: why the arguments could not be encoded.
        depth: the number of calls that this call is nested in.
        shown: the part of the surface that the caller was shown.
        scheduler_policy: the policy of its batch.
        permit: its permit of the runtime's limiter.
        batch_limiter: the limiter of its batch, acquired before that of the runtime.
        batch_permit: its permit of the batch's limiter.
        thread_ended: resolves when a thread that could not be stopped ends; its permits are released only then.
        cap_at: when its time is over, retries included, by the clock of the event loop.
        pauses: how many nested calls wait for an approver; timeouts are paused meanwhile.
        is_cancel_recorded: the journal has the request to cancel.
        children: the open calls that its tool made.
        wanted_changes: the changes that its tool requests in the shared context.
        has_deferred_changes: those changes are applied at the end of the batch.
        has_checkpoint: the store has a checkpoint from which another process can resume it.
        is_parked: this process stops waiting for it; another process, or a later result, resumes it.
        attempts: how many processes have started it.
        leaves_in_order: the batch delivers results in order, so a result may have to wait.
        made: the end to record once such a result is delivered.
        has_full_end: its end records more than a result: a change of its input or of the context, nested calls, a
            checkpoint, a cancellation, or ordered delivery.
        unwritten: the last step that is not in the journal yet. Steps without a wait between them are written
            together: admission, permission and start are one fact.
        change: the change of its input by defaults or normalization, until it is written.
        verdict: the standing verdict that allowed it, until it is written.
        unresolved: why its surface was not found.
        allowed_until: when its permission expires.
        is_detached: no caller waits for its result, so it may be parked while the result is deferred.
        is_remote: its tool has acknowledged the request, and the result is deferred.
        idle: resolves when a detached call ends or starts to wait.
        recorded_facts: the facts of a detached call, until it is idle.
        salt: the key material of the digests of its sensitive fields; stored only in the checkpoint.
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
    permit: Permit | None = None
    batch_limiter: CallLimiter | None = None
    batch_permit: Permit | None = None
    thread_ended: "asyncio.Future[None] | None" = None
    deadline: Deadline | None = None
    limit: TimeLimit | None = None
    cap_at: float = 0.0
    pauses: int = 0
    abort_reason: AbortReason | None = None
    cancellation: Cancellation | None = None
    is_cancel_recorded: bool = False
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
    has_checkpoint: bool = False
    is_parked: bool = False
    attempts: int = 1
    leaves_in_order: bool = False
    made: CallEnded | None = None
    mutations: int = 0
    decisions: int = 0
    hook_runs: int = 0
    hook_votes: tuple[HookVote, ...] = ()
    external_votes: tuple[ExternalVote, ...] = ()
    hook_context: tuple[JsonObject, ...] = ()
    has_full_end: bool = False
    unwritten: Step | None = None
    change: InputNoted | None = None
    verdict: Verdict | None = None
    call_input: JsonObject = None  # pyright: ignore[reportAssignmentType] -- set before the tool runs
    unresolved: Unresolved | None = None
    allowed_until: Timestamp | None = None
    is_detached: bool = False
    is_remote: bool = False
    idle: "asyncio.Future[None] | None" = None
    recorded_facts: list[Fact] | None = None
    salt: bytes = b""

    @property
    def result_id(self) -> ResultId:
        """The id of the result of this call."""
        return ResultId("res_" + self.unique)

    def note(self, step: Step, data: FactData = None) -> int:
        """Write a step to the journal, after the unwritten ones; return its time."""
        if self.unwritten is not None:
            self.flush()
        return self._note(step, data)

    def publish(self) -> None:
        """List the call as open and write its unwritten steps, before it waits."""
        self.core.calls[self.invocation_id] = self
        self.flush()

    def flush(self) -> None:
        """Write the unwritten steps to the journal."""
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
        if self.recorded_facts is not None:
            self.recorded_facts.append(Fact(step, moment, sequence, self.invocation_id, self.tool_id, data))
        return moment

    def next_mutation(self) -> MutationId:
        """Return the id of the next change of the input."""
        self.mutations += 1
        self.has_full_end = True
        return self.mutation_refs()[-1]

    def mutation_refs(self) -> tuple[MutationId, ...]:
        """Return the ids of all changes of the input."""
        return tuple(MutationId(f"mut_{self.unique}-{number}") for number in range(1, self.mutations + 1))

    def own_permit(self) -> Permit | None:
        """Return a permit that this call owns alone, so that nested calls can run within it."""
        if self.permit is not None:
            self.permit = self.core.limiter.own_permit(self.permit)
        return self.permit

    def decided(self, verdict: Verdict, judged: bytes) -> Decided:
        """Return the evidence of the next decision about this call."""
        self.decisions += 1
        return self._decision(verdict, judged)

    def _decision(self, verdict: Verdict, judged: bytes) -> Decided:
        decision_id = DecisionId(f"dec_{self.unique}-{self.decisions}")
        return Decided(verdict, judged, decision_id, self.request.redactor, digest_key=self.digest_key)

    @property
    def digest_key(self) -> bytes:
        """The key of the digests of its inputs; empty if its tool has no sensitive fields."""
        if self.tool is None or self.tool.redactor is None:
            return b""
        self.salt = self.salt or self.core.ids.secret()
        return key_of(self.salt, self.request.model_input)

    @property
    def cancel(self) -> "Call":
        """The cancellation signal, which is the call itself."""
        return self

    @property
    def is_requested(self) -> bool:
        """Whether the call was asked to stop."""
        return self.cancellation is not None or self.abort_reason is not None

    @property
    def reason(self) -> AbortReason | None:
        """Why the call was asked to stop."""
        return self.abort_reason or (self.cancellation.abort_reason if self.cancellation is not None else None)

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker thread until the call is asked to stop; return whether it was."""
        with _signal_lock:
            signal = self.signal = self.signal or StopSignal()
        if self.is_requested:
            signal.give()
        return signal.wait(timeout)

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Make a nested call on the same surface; policy applies to it, and it is canceled with this one."""
        return self.core.run_nested(self, name, arguments)

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Make a nested call from the worker thread of the tool, and return its result.

        Raises:
            RuntimeError: it is the thread of the event loop, which would deadlock.
        """
        if threading.get_ident() == self.core.thread_id:
            raise RuntimeError("a call cannot be waited for on the event loop's thread; await `call` instead")
        return asyncio.run_coroutine_threadsafe(self.call(name, arguments), self.core.loop).result()

    @property
    def context(self) -> Mapping[str, Json]:
        """The context that the calls of a runtime share."""
        return MappingProxyType(self.core.shared)

    def change_context(self, changes: JsonObject) -> None:
        """Request changes of the shared context; they are applied or rejected when the call ends."""
        self.has_full_end = True
        self.wanted_changes = {**(self.wanted_changes or {}), **parse_object(json_bytes(changes))}

    @property
    def thread(self) -> Thread:
        """The conversation of the call."""
        return self.core.thread

    @property
    def native_call_id(self) -> str | None:
        """The id that the model gave to the call."""
        return self.request.native_call_id

    @property
    def actor_ref(self) -> str | None:
        """The actor that made the call."""
        return self.request.actor_ref

    def become_idle(self) -> None:
        """Resolve `idle`: the call has ended or waits for an answer."""
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    @property
    def credentials(self) -> Mapping[str, str]:
        """The credentials leased for this call."""
        return _NO_CREDENTIALS

    @property
    def sandbox_profile(self) -> str | None:
        """The sandbox profile that the tool declares."""
        return self.tool.entry.tool.execution_profile.sandbox_profile if self.tool else None

    @property
    def timeout_s(self) -> float | None:
        """The timeout that the tool declares, or else the default of the runtime."""
        declared = self.tool.timeout_s if self.tool is not None else None
        return declared if declared is not None else self.core.default_timeout_s

    @property
    def deadline_ns(self) -> int | None:
        """When the timeout expires; none before the start."""
        seconds = self.timeout_s
        return None if seconds is None or not self.started_ns else self.started_ns + int(seconds * 1e9)

    def start_clocks(self) -> None:
        """Start the timeouts when the tool first waits; before that, it could not be interrupted."""
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
        """Cancel the timeouts, because the tool has ended."""
        if self.deadline is not None:
            self.core.deadlines.cancel(self.deadline)
        elif self.limit is not None:
            self.limit.end()

    def run_out(self, expiry: Expiry = Expiry.CAP) -> None:
        """Stop the call, because a timeout has expired."""
        if self.abort_reason is None:
            self.abort_reason = AbortReason.TIMEOUT
        if self.drive is not None:
            self.drive.stop()

    def learn_secrets(self, value: Json) -> None:
        """Add the sensitive values of an input to those that are scrubbed from all output."""
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
        """Report progress; safe to call from any thread."""
        update = Update(message, percent, step, partial, facts)
        if threading.get_ident() == self.core.thread_id:
            self._report(update)
        else:
            self.core.loop.call_soon_threadsafe(self._report, update)

    def report_running_thread(self, ended: "asyncio.Future[None]") -> None:
        """Record that a thread of the tool runs on after the call, until `ended` resolves."""
        self.thread_ended = ended

    def add_native_ids(self, source: str, ids: JsonObject) -> None:
        """Record the native ids of this run."""
        self.note(steps.NATIVE_IDS, native_ids(source, ids, self.scrubber))

    def _report(self, update: Update) -> None:
        if self.unwritten is not None:
            self.flush()
        if self.status is None or self.result is not None:
            return
        if self.limit is not None:
            self.limit.progress()
        if self._is_throttled():
            return
        self.progress += 1
        self.recorded_facts = None  # progress can be long, so the facts are read from the log instead
        scrub, is_partial = self.scrubber, update.partial is not None
        elapsed_ms = (self.core.now_ns() - self.started_ns) // 1_000_000 if self.started_ns else None
        part = store_partial_result(self.core, self.tool, update.partial, scrub) if is_partial else None
        progress = progress_of(update, number=self.progress, elapsed_ms=elapsed_ms, part=part, scrub=scrub)
        self.note(steps.PARTIAL if is_partial and self.status in _RUNNING else steps.PROGRESSED, progress)
        if self.on_progress is not None:
            self.on_progress(progress)

    def _is_throttled(self) -> bool:
        """Return whether to drop an update, so that frequent reports do not fill the journal."""
        if self.progress < UNTHROTTLED_UPDATES:
            return False
        now = self.core.deadlines.now()
        if now - self.reported_at < UPDATE_EVERY_S:
            return True
        self.reported_at = now
        return False


_RUNNING = (InvocationStatus.RUNNING, InvocationStatus.PARTIAL_RESULT)
