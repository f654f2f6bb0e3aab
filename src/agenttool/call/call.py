"""The state of one call, which every phase reads and changes, and the services that all calls of an agent share."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial as partial_of
from math import isnan

from agenttool.call.call_state import (
    NO_VOTES,
    BackgroundState,
    BatchMembership,
    CallSecrets,
    PayloadReader,
    RecordCounts,
    ResumeState,
    RunTimer,
    StopState,
    Votes,
    reported_text,
    store_partial_result,
)
from agenttool.call.evidence import Decided, Progressed, counters, native_ids, shared_decision
from agenttool.call.services import (
    NO_CREDENTIALS,
    CallHost,
    CallRegistry,
    CredentialVault,
    Durability,
    LeasedCredentials,
    OpenQuestions,
    PayloadAccess,
    Timing,
)
from agenttool.call.tool import Tool, Tools
from agenttool.catalog.surface import Surface
from agenttool.catalog.unresolved import Unresolved
from agenttool.codec import clone, json_bytes, parse_object
from agenttool.codec.moments import timestamp
from agenttool.journal import steps
from agenttool.journal.journal import Journal
from agenttool.policy.decide import Policy
from agenttool.policy.verdict import Verdict
from agenttool.ports.advice import Adviser
from agenttool.ports.calls import ALL_SHOWN, Shown
from agenttool.ports.deferred import Thread
from agenttool.ports.evidence import CallLaunched, CallRequest, InputNoted, key_of
from agenttool.ports.facts import FactData, Step
from agenttool.ports.world import Clock, IdSource, OsUser
from agenttool.records import (
    AbortReason,
    DecisionId,
    InvocationId,
    InvocationStatus,
    Json,
    JsonObject,
    MutationId,
    PersistenceStrategy,
    Phase,
    ProgressStatus,
    ResultId,
    SchedulingFacts,
    Timestamp,
    ToolId,
    ToolResult,
    replace,
)
from agenttool.results.redaction import InputMask, Redactor, Scrubber, compile_scrubber
from agenttool.scheduler.drive import Drive
from agenttool.scheduler.limiter import CallLimiter, Permit, Scopes

_signal_lock = threading.Lock()

_UNRESOLVED = ToolId("tool_unresolved")
_RUNNING = (InvocationStatus.RUNNING, InvocationStatus.PARTIAL_RESULT)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Core:
    """The services of one agent: those that all agents of a runtime share, and its own policy and conversation.

    Attributes:
        os_user: returns the user of the operating system, if it is known.
        format_crash: returns the traceback of an exception as text; none to record none.
        shared: the context that calls share and tools may change.
        scopes: the scopes within which an exclusive call runs alone. A conversation within another one shares its
            context, so they also share their scopes.
        parent: the core that this one was derived from: that of the parent agent, or of the runtime.
    """

    journal: Journal
    clock: Clock
    ids: IdSource
    os_user: Callable[[], OsUser | None]
    format_crash: Callable[[BaseException], str | None]
    payloads: PayloadAccess
    timing: Timing
    durability: Durability
    tools: Tools
    host: "CallHost[Call]"
    policy: Policy
    thread: Thread
    advisers: tuple[Adviser, ...] = ()
    vault: CredentialVault | None = None
    limiter: CallLimiter = field(default_factory=CallLimiter)
    questions: OpenQuestions = field(default_factory=OpenQuestions)
    registry: "CallRegistry[Call]" = field(default_factory=CallRegistry)
    shared: dict[str, Json] = field(default_factory=dict[str, Json])
    parent: "Core | None" = None
    durable: bool = field(init=False)
    now_ns: Callable[[], int] = field(init=False)
    scopes: Scopes = field(init=False)

    def __post_init__(self) -> None:
        """Cache what every call uses."""
        self.durable = self.journal.log.durable
        self.now_ns = self.journal.clock.now_ns
        self.scopes = Scopes(self.limiter, self.thread.root)

    def timestamp(self) -> Timestamp:
        """Return the current time."""
        return timestamp(self.now_ns())

    def with_ancestors(self) -> Iterator["Core"]:
        """Yield this core and its ancestors."""
        core: Core | None = self
        while core is not None:
            yield core
            core = core.parent


@dataclass(slots=True, eq=False)
class Nesting:
    """The call that made this one, the open calls that it made, and how many calls led to it.

    Attributes:
        key: makes the ids of nested calls predictable, so that the call finds them again when it is resumed in another
            process; none if it cannot be resumed.
        attempt: how often its tool was started in one process.
        made: how often each nested call was made in this attempt.
        awaited: the nested calls that it made in an earlier process and waits for; recovery resumes them, within the
            permit of this call.
    """

    parent: "Call | None" = None
    depth: int = 0
    children: "dict[InvocationId, Call]" = field(default_factory=dict["InvocationId", "Call"])
    key: bytes | None = None
    attempt: int = 1
    made: dict[bytes, int] = field(default_factory=dict[bytes, int])
    awaited: set[InvocationId] = field(default_factory=set["InvocationId"])


@dataclass(slots=True, eq=False)
class Call:
    """The state of one call. It is also the `Job` that its executor receives.

    State that belongs to one concern is a part (`call_state`); parts that most calls do not need are none.

    Attributes:
        unique: the unique part of the ids of the call and all its records.
        fault: why the arguments, or the refs that the caller passed with them, are invalid; phase 2 raises it.
        is_text: whether the arguments may be JSON text of the caller, in which a member can be repeated.
        unresolved: why its surface was not found.
        stop_state: whether and why it has to stop; none until a stop is requested.
        shown: the part of the surface that the caller was shown.
        recovery: what another process needs to resume it; none if it never had a checkpoint or an undelivered result.
        secrets: its sensitive values; none if its tool declares no sensitive fields.
        permit: its permit of the runtime's limiter.
        drive: what the call waits for, and how to stop it.
        thread_ended: done when the worker thread that could not be stopped ends; the permits are released only then.
        events: how many events it has in the journal.
        unwritten: the last step that is not in the journal yet: admitted (phase 2), judged (6) or launched (8); it
            includes the steps before it. Steps without a wait between them are one fact. The first wait, or the end,
            writes it.
        change: the change of its input by defaults or normalization, until it is written.
        mutation_refs: the ids of all changes of its input.
        verdict: the standing verdict (`try_allow`) that allowed it, until it is written.
        needs_detailed_end: its end records more than a result: a change of its input or of the context, nested calls, a
            checkpoint, a cancellation, or ordered delivery.
        call_input: the input that the executor gets and may change: a copy of `final_input`, or that object if the
            executor copies its input itself.
        final_input: the input that was judged and recorded; while an approver is asked, the one that is asked about.
        arguments: an input, and what the tool's `convert` made of it.
        started_ns: when the tool was started; 0 before that.
        mapped_ns: when phase 9 began.
        wanted_changes: the changes that its tool requests in the shared context.
    """

    core: Core
    request: CallRequest
    surface: Surface | None
    unique: str
    invocation_id: InvocationId
    fault: str | None = None
    is_text: bool = False
    unresolved: Unresolved | None = None
    shown: Shown = ALL_SHOWN
    nesting: Nesting | None = None
    batch: BatchMembership | None = None
    background: BackgroundState | None = None
    recovery: ResumeState | None = None
    stop_state: StopState | None = None
    record_counts: RecordCounts | None = None
    votes: Votes = NO_VOTES
    secrets: CallSecrets | None = None
    timer: RunTimer | None = None
    tool: Tool | None = None
    tool_id: ToolId = _UNRESOLVED
    phase: Phase = Phase.RESOLVE_TOOL
    status: InvocationStatus | None = None
    events: int = 0
    unwritten: Step | None = None
    change: InputNoted | None = None
    mutation_refs: tuple[MutationId, ...] = ()
    verdict: Verdict | None = None
    facts: SchedulingFacts | None = None
    permit: Permit | None = None
    drive: Drive | None = None
    thread_ended: "asyncio.Future[None] | None" = None
    call_input: JsonObject = None  # pyright: ignore[reportAssignmentType] -- set before the tool runs
    final_input: JsonObject = None  # pyright: ignore[reportAssignmentType] -- set before the tool runs
    arguments: tuple[JsonObject, dict[str, object]] | None = None
    started_ns: int = 0
    mapped_ns: int = 0
    wanted_changes: JsonObject | None = None
    needs_detailed_end: bool = False
    result: ToolResult | None = None

    @property
    def stop(self) -> StopState:
        """Whether and why it has to stop; created on the first use."""
        self.stop_state = self.stop_state or StopState()
        return self.stop_state

    @property
    def counts(self) -> RecordCounts:
        """How many records of each kind it has; created on the first use."""
        self.record_counts = self.record_counts or RecordCounts()
        return self.record_counts

    @property
    def result_id(self) -> ResultId:
        """The id of the result of this call."""
        return ResultId("res_" + self.unique)

    def note(self, step: Step, data: FactData = None, moment: int = 0) -> int:
        """Write a step to the journal, after the unwritten ones, now or at a given time; return its time."""
        if self.unwritten is not None:
            self.flush()
        return self.core.journal.note(self, step, data, moment)

    def publish(self) -> None:
        """List the call as open and write its unwritten steps, before it waits."""
        self.core.registry.add(self)
        self.flush()

    def flush(self) -> None:
        """Write the unwritten steps to the journal, without a wait for the disk (`checkpoint.flush` waits)."""
        last, self.unwritten = self.unwritten, None
        if last is None:
            return
        verdict, self.verdict = self.verdict, None
        change, self.change = self.change, None
        if last is steps.LAUNCHED and verdict is not None and self.facts is not None:
            self.counts.decisions += 1
            shared = shared_decision(verdict, self.facts)
            launched = CallLaunched(self.request, shared, self.invocation_id, change, self.salt)
            self.note(steps.LAUNCHED, launched, self.started_ns)
            return
        self.note(steps.ADMITTED, self.request)
        if change is not None:
            self.note(steps.INPUT_CHANGED, change)
        if verdict is not None:
            judged = self.request.model_input if change is None else change.value
            self.note(steps.JUDGED, self.decided(verdict, judged))

    def next_decision(self) -> DecisionId:
        """Return the id of the next decision about this call."""
        self.counts.decisions += 1
        return DecisionId(f"dec_{self.unique}-{self.counts.decisions}")

    def next_mutation(self) -> MutationId:
        """Return the id of the next change of the input."""
        self.needs_detailed_end = True
        mutation_id = MutationId(f"mut_{self.unique}-{len(self.mutation_refs) + 1}")
        self.mutation_refs = (*self.mutation_refs, mutation_id)
        return mutation_id

    def own_permit(self) -> Permit | None:
        """Return a permit that this call owns alone, so that nested calls can run within it."""
        self.permit = None if self.permit is None else self.core.limiter.own_permit(self.permit)
        return self.permit

    @contextmanager
    def without_permits(self) -> Generator[None]:
        """Release the permits while the call waits for a person, a client or a remote side.

        A nested call has no permit before its phase 7: then its nearest caller with one releases that. The permit of a
        serial batch is not released, because the next call of the batch waits for the end of this one.
        """
        holder: Call | None = self
        while holder is not None and holder.permit is None:
            holder = holder.parent
        held: list[tuple[CallLimiter, Permit]] = []
        if holder is not None and (permit := holder.own_permit()) is not None:
            holder.core.limiter.begin_wait(permit)
            held.append((holder.core.limiter, permit))
        root = self
        while root.parent is not None:
            root = root.parent
        is_free = root.permit is None or root.permit.resting
        if root.batch is not None and is_free and (own := root.batch.own_permit()) is not None:
            own[0].begin_wait(own[1])
            held.append(own)
        try:
            yield
        finally:
            for limiter, permit in held:
                limiter.end_wait(permit)

    async def regain_permits(self) -> None:
        """Acquire the permits that the call released for a wait, before its code continues.

        Raises:
            ToolFailure: this wait could never end.
        """
        batch, permit = self.batch, self.permit
        if batch is not None and batch.limiter is not None and batch.permit is not None:
            await batch.limiter.regain(batch.permit)
        if permit is not None and not permit.running:
            await self.core.limiter.regain(permit)

    @asynccontextmanager
    async def outside(self, *, is_last: bool = False) -> AsyncGenerator[None]:
        """Release the permits while the tool waits for a person, a client or a remote side; then acquire them again.

        `is_last` promises that no code of the tool follows, so that the call needs no permit any more.

        Raises:
            ToolFailure: the wait for a permit could never end.
        """
        try:
            with self.without_permits():
                yield
        except Exception:
            await self.regain_permits()
            raise
        if not is_last:
            await self.regain_permits()

    def decided(self, verdict: Verdict, judged: bytes) -> Decided:
        """Return the evidence of the next decision about this call."""
        return Decided(verdict, judged, self.next_decision(), self.request.redactor, digest_key=self.digest_key)

    @property
    def salt(self) -> bytes:
        """The key material of the digests of its inputs; empty if its tool has no sensitive fields."""
        return b"" if self.secrets is None else self.secrets.salt

    @property
    def digest_key(self) -> bytes:
        """The key of the digests of its inputs; empty if its tool has no sensitive fields."""
        return b"" if self.secrets is None else key_of(self.secrets.salt, self.request.model_input)

    @property
    def scrubber(self) -> Scrubber | None:
        """Removes the sensitive values of the call from text; none if there are none."""
        return None if self.secrets is None else self.secrets.mask.scrubber

    @property
    def mask(self) -> InputMask | None:
        """Redacts the inputs of the call; none if it has no sensitive values."""
        return None if self.secrets is None else self.secrets.mask

    @property
    def parent(self) -> "Call | None":
        """The call that made this one."""
        return None if self.nesting is None else self.nesting.parent

    @property
    def children(self) -> "tuple[Call, ...]":
        """The open calls that its tool made."""
        return () if self.nesting is None else tuple(self.nesting.children.values())

    @property
    def has_checkpoint(self) -> bool:
        """Whether the store has a checkpoint from which another process can resume it."""
        return self.recovery is not None and self.recovery.has_checkpoint

    @property
    def is_parked(self) -> bool:
        """Whether this process stops waiting for it; another process, or a later result, resumes it."""
        return self.recovery is not None and self.recovery.is_parked

    def ensure_nesting(self) -> Nesting:
        """Return its caller and its nested calls; created on the first use."""
        self.nesting = self.nesting or Nesting()
        return self.nesting

    def ensure_recovery(self) -> ResumeState:
        """Return what another process needs to resume it; created on the first use."""
        self.recovery = self.recovery or ResumeState()
        return self.recovery

    def new_drive(self) -> Drive:
        """Return a new drive for the next wait of the call; if the call is stopped, the drive is, too."""
        self.drive = drive = Drive(self.core.timing.grace_period)
        if self.stop_state is not None and self.stop_state.reason is not None:
            drive.stop()
        return drive

    def ensure_timer(self) -> RunTimer:
        """Return its timeouts; created on the first use."""
        self.timer = self.timer or RunTimer(self.core.timing.deadlines, self.expire)
        return self.timer

    @property
    def cancel(self) -> "Call":
        """The cancellation signal, which is the call itself."""
        return self

    @property
    def is_requested(self) -> bool:
        """Whether the call was asked to stop."""
        return self.stop.cancellation is not None or self.stop.reason is not None

    @property
    def reason(self) -> AbortReason | None:
        """Why the call was asked to stop."""
        stop = self.stop
        return stop.reason or (None if stop.cancellation is None else stop.cancellation.abort_reason)

    def wait(self, timeout: float | None = None) -> bool:
        """Block a worker thread until the call is asked to stop; return whether it was."""
        with _signal_lock:
            signal = self.stop.signal = self.stop.signal or threading.Event()
        if self.is_requested:
            signal.set()
        return signal.wait(timeout)

    def call(self, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Make a nested call on the same surface; policy applies to it, and it is canceled with this one."""
        return self.core.host.run_nested(self, name, arguments)

    def call_and_wait(self, name: str, arguments: JsonObject) -> ToolResult:
        """Make a nested call from the worker thread of the tool, and return its result.

        Raises:
            RuntimeError: it is the thread of the event loop, which would deadlock.
        """
        if threading.get_ident() == self.core.timing.thread_id:
            raise RuntimeError("a call cannot be waited for on the event loop's thread; await `call` instead")
        return asyncio.run_coroutine_threadsafe(self.call(name, arguments), self.core.timing.loop).result()

    @property
    def context(self) -> Mapping[str, Json]:
        """A copy of the context that the calls of a runtime share."""
        return clone(self.core.shared)

    def change_context(self, changes: JsonObject) -> None:
        """Request changes of the shared context; they are applied or rejected when the call ends."""
        self.needs_detailed_end = True
        self.wanted_changes = {**(self.wanted_changes or {}), **parse_object(json_bytes(changes))}

    def converted(self) -> dict[str, object] | None:
        """Return the final input as `convert` converted it; None the second time, or if it converted another input."""
        found, self.arguments = self.arguments, None
        return None if found is None or found[0] is not self.final_input else found[1]

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

    @property
    def credentials(self) -> LeasedCredentials:
        """The credentials that are leased to this call while it runs."""
        return NO_CREDENTIALS if self.secrets is None else self.secrets.credentials

    @property
    def sandbox_profile(self) -> str | None:
        """The sandbox profile that the tool declares."""
        return self.tool.entry.tool.execution_profile.sandbox_profile if self.tool else None

    @property
    def timeout_s(self) -> float | None:
        """The timeout that the tool declares, or else the default of the runtime."""
        declared = self.tool.timeout_s if self.tool is not None else None
        return declared if declared is not None else self.core.timing.default_timeout_s

    @property
    def deadline_ns(self) -> int | None:
        """When the timeout expires; none before the start."""
        seconds = self.timeout_s
        return None if seconds is None or not self.started_ns else self.started_ns + int(seconds * 1e9)

    def expire(self) -> None:
        """Stop the call, because a timeout has expired."""
        self.stop.reason = self.stop.reason or AbortReason.TIMEOUT
        nested = {each.invocation_id for each in self.children}
        pending = self.core.questions.book.pending(self.core.timestamp()) if nested else ()
        self.stop.unanswered = next((each.approval_id for each in pending if each.invocation_id in nested), None)
        if self.drive is not None:
            self.drive.stop()

    def learn_secrets(self, redactor: Redactor | None, value: Json, more: Sequence[str] = ()) -> None:
        """Remove the sensitive values of an input from all records of the call, and the values in `more`."""
        if redactor is None:
            return
        scrubber, found = self.scrubber, compile_scrubber([*redactor.find(value), *more], redactor.declared)
        mask = InputMask(redactor, scrubber if found is None else found.merged_with(scrubber))
        if self.secrets is None:
            self.secrets = CallSecrets(self.core.ids.secret(), mask)
        else:
            self.secrets.mask = mask
        self.request = replace(self.request, redactor=mask)

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
        if threading.get_ident() != self.core.timing.thread_id:
            again = partial_of(self.report, message, percent=percent, step=step, partial=partial, facts=facts)
            self.core.timing.loop.call_soon_threadsafe(again)
            return
        if self.unwritten is not None:
            self.flush()
        if self.status is None or self.result is not None:
            return
        if self.timer is not None:
            self.timer.progress()
        if not self.counts.count_progress(self.core.timing.deadlines.now()):
            return
        scrub, is_partial = self.scrubber, partial is not None
        progress = Progressed(
            self.counts.progress,
            ProgressStatus.PARTIAL_RESULT if is_partial else ProgressStatus.RUNNING,
            reported_text(message, scrub),
            None if percent is None or isnan(percent) else min(max(percent, 0.0), 100.0),
            reported_text(step, scrub),
            (self.core.now_ns() - self.started_ns) // 1_000_000 if self.started_ns else None,
            counters(facts, scrub) if facts else None,
            self._store_part(partial) if is_partial else None,
        )
        at_ns = self.note(steps.PARTIAL if is_partial and self.status in _RUNNING else steps.PROGRESSED, progress)
        if (follower := self.batch or self.background) is not None and follower.on_progress is not None:
            follower.on_progress(progress.record(self.invocation_id, at_ns))

    def become_idle(self) -> None:
        """Report that the call waits, so that `CallHandle.idle` returns for it and for its ancestors."""
        for each in (self.background, self.batch, self.parent):
            if each is not None:
                each.become_idle()

    def resume(self) -> None:
        """Report that one of its waits is over; it is not idle until its next wait, or its end."""
        for each in (self.background, self.parent):
            if each is not None:
                each.resume()

    def report_running_thread(self, ended: "asyncio.Future[None]") -> None:
        """Note that a worker thread of the tool still runs after the call, until the future `ended` is done."""
        self.thread_ended = ended

    def add_native_ids(self, source: str, ids: JsonObject) -> None:
        """Record the ids that the native system, `source`, gave to this run."""
        self.note(steps.NATIVE_IDS, native_ids(source, ids, self.scrubber))

    def _store_part(self, part: Json) -> tuple[str, ...] | None:
        """Store a partial result and return its id; none if the tool forbids it."""
        tool, core, reader = self.tool, self.core, PayloadReader(self.core.thread, self.actor_ref)
        if tool is None or tool.persistence.over_limit is PersistenceStrategy.NEVER_PERSIST:
            return None
        return store_partial_result(core.payloads, reader, tool.mapping.redactor, part, self.scrubber)
