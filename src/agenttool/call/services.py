"""The services that all calls of a runtime share, and what calls need of their agent."""

import asyncio
from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from agenttool.call.tool import Tool
from agenttool.catalog.surface import Surface
from agenttool.codec import json_bytes
from agenttool.errors import CredentialMissing, words_of
from agenttool.policy.approvals import Answered, Approvals, Question
from agenttool.policy.rules import Rule
from agenttool.ports.credentials import CredentialProvider, Secret
from agenttool.ports.deferred import Thread
from agenttool.ports.evidence import CallRequest
from agenttool.ports.quota import CallerQuota
from agenttool.ports.source import SourceStatus
from agenttool.ports.stores import DocumentStore, OpenCalls, PayloadStore
from agenttool.ports.surfacing import Circumstances
from agenttool.ports.world import Clock, Moment
from agenttool.records import ApprovalId, Digest, InvocationId, JsonObject, ToolId, ToolResult
from agenttool.scheduler.drive import GracePeriod
from agenttool.scheduler.retry import RetryPolicy
from agenttool.scheduler.timeouts import Deadlines

_T = TypeVar("_T")


async def guard(work: Awaitable[object]) -> tuple[object, Exception | None]:
    """Await the work; return its value and none, or none and its exception.

    Interrupts and the cancellation of the caller's own task are raised.
    """
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001 -- foreign code may raise anything
        return None, error
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit, a cancellation that the work raised, or another BaseException
        task = current_task()
        if isinstance(error, CancelledError) and (task is None or task.cancelling()):
            raise
        return None, RuntimeError(f"{type(error).__name__}: {words_of(error)}")


class Tasks:
    """The tasks of one part of a runtime, which waits for them when it stops."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[object]] = set()

    def start(self, work: Coroutine[object, object, _T]) -> "asyncio.Task[_T]":
        """Run work in a task."""
        task = asyncio.create_task(work)  # noqa: TID251 -- `wait` waits for it
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    async def wait(self) -> None:
        """Wait for all tasks, also for those that they start."""
        while running := [each for each in self.running if not each.done()]:
            await asyncio.gather(*running, return_exceptions=True)


def retrieve_exception(task: "asyncio.Task[object]") -> None:
    """Retrieve the exception of a task, for which a caller may not wait any more; one that still waits gets it."""
    if not task.cancelled():
        task.exception()


MAX_CACHED = 1000
"""With this many entries, expired ones are removed. There is one per credential, or per credential and actor."""


class LeasedCredentials(Mapping[str, Secret]):
    """The credentials that are leased to one call, by name."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        self._secrets = secrets

    def __getitem__(self, name: str) -> Secret:
        """Return a secret.

        Raises:
            KeyError: the call has no lease of this name; the message has the remedy.
        """
        if name not in self._secrets:
            raise KeyError(
                f"the credential {name!r} is not leased to this call; declare it with @tool(credentials=[{name!r}]), "
                f"and configure it as [credentials.{name}]"
            )
        return self._secrets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"LeasedCredentials({', '.join(map(repr, self._secrets))})"

    def revoke(self) -> None:
        """Forget all values, because the call has ended."""
        for secret in self._secrets.values():
            secret.revoke()


NO_CREDENTIALS: Final = LeasedCredentials({})


@dataclass(slots=True, eq=False)
class _Cached:
    """A fetched value, or why there is none; `fetches` counts the attempts, and `until` is none without a value."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fetches: int = 0
    until: Moment | None = None
    value: str | None = field(default=None, repr=False)
    fault: str = ""


class CredentialVault:
    """Fetches credentials by name, once at a time for each actor, and caches each for its `ttl_s`."""

    def __init__(self, providers: Mapping[str, CredentialProvider], clock: Clock) -> None:
        self.providers = providers
        self._clock = clock
        self._entries: dict[tuple[str, str | None], _Cached] = {}

    def extend(self, circumstances: Circumstances) -> Circumstances:
        """Return the circumstances with the credentials that are available now, and why others are not."""
        faults = {name: fault for name, each in self.providers.items() if (fault := each.fault()) is not None}
        return circumstances.with_credentials(self.providers.keys() - faults.keys(), faults)

    def refusal(self, names: tuple[str, ...], actor: str | None) -> str | None:
        """Return why calls of an actor may not have one of the credentials; none if they may, or that is unknown."""
        for name in names:
            provider = self.providers.get(name)
            reason = None if provider is None else provider.refusal(actor)
            if reason is not None:
                return missing(name, reason)
        return None

    def is_cached(self, names: tuple[str, ...], actor: str | None) -> bool:
        """Return whether `fetch` returns the values of the named credentials without a wait."""
        known = [each for each in map(self.providers.get, names) if each is not None]
        found = [self._entries.get((each.name, actor if each.is_per_actor else None)) for each in known]
        return all(each is not None and self._is_fresh(each) for each in found)

    async def fetch(self, names: tuple[str, ...], actor: str | None) -> dict[str, str]:
        """Return the values of the named credentials that this vault has.

        Raises:
            CredentialMissing: one of them is not available.
        """
        return {name: await self._value(self.providers[name], actor) for name in names if name in self.providers}

    async def _value(self, provider: CredentialProvider, actor: str | None) -> str:
        key = provider.name, actor if provider.is_per_actor else None
        cached = self._entries.get(key) or self._add(key)
        if not self._is_fresh(cached):
            before = cached.fetches
            async with cached.lock:
                if cached.fetches == before:  # otherwise the call before fetched it, or failed to, for this one as well
                    await self._refresh(cached, provider, actor)
        if cached.value is None:
            raise CredentialMissing(missing(provider.name, cached.fault))
        return cached.value

    def _is_fresh(self, cached: _Cached) -> bool:
        return cached.until is not None and self._clock.moment().is_before(cached.until)

    def _add(self, key: tuple[str, str | None]) -> _Cached:
        if len(self._entries) >= MAX_CACHED:
            used = {name: each for name, each in self._entries.items() if self._is_fresh(each) or each.lock.locked()}
            self._entries = used
        return self._entries.setdefault(key, _Cached())

    async def _refresh(self, cached: _Cached, provider: CredentialProvider, actor: str | None) -> None:
        try:
            fetched = await provider.fetch(actor)
            cached.value, cached.until = fetched.value, self._clock.moment().after(int(fetched.ttl_s * 1e9))
        except CredentialMissing as error:
            cached.value, cached.until, cached.fault = None, None, str(error)
        cached.fetches += 1


def missing(name: str, reason: str) -> str:
    """Return the message about a credential that is not available."""
    return f"the credential {name!r} is missing: {reason}"


@dataclass(slots=True, eq=False)
class Timing:
    """The event loop of a runtime, its timers, and how long its calls may take.

    Attributes:
        random: returns the jitter of retries.
    """

    loop: asyncio.AbstractEventLoop
    thread_id: int
    deadlines: Deadlines
    grace_period: GracePeriod
    random: Callable[[], float]
    default_timeout_s: float | None = 600.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(slots=True, kw_only=True, eq=False)
class Durability:
    """Where the state of open calls is stored.

    Attributes:
        checkpoints: the checkpoints of open calls; a store in memory has only those that wait for a deferred result.
        documents: other documents that outlive this process.
        lease_s: how long a lease is valid; after that, other processes may recover the calls of this one.
        has_lease: whether this process has registered its lease.
        renewals_s: how long the last two renewals of the lease took.
    """

    checkpoints: OpenCalls
    documents: DocumentStore
    lease_s: float
    has_lease: bool = False
    renewals_s: tuple[float, float] = (0.0, 0.0)

    def last_lease(self, now: Moment) -> Moment:
        """Return the moment to compare leases with: a lease that ends before it has expired.

        It is earlier than now by the time that a renewal takes here, because a slow store delays every process.
        """
        return now.after(-round(max(self.renewals_s) * 1e9))


Approve = Callable[[Question], Awaitable[object]]
"""The `approve` function of the program: returns an `Answer`, its word, or whether the call may run."""


class RuleFiles(Protocol):
    """The settings files to which rules can be added. `SettingsFiles` implements it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files, such as `project`."""
        ...

    def append(self, name: str, rule: JsonObject) -> None:
        """Add a rule to a file.

        Raises:
            ConfigError: the file cannot be written.
        """
        ...


@dataclass(slots=True, eq=False)
class OpenQuestions:
    """The questions of this process to approvers, and the calls that wait for the answers.

    Attributes:
        approve: the approver of the program, which is asked first; none if it has none.
        notify: reports a question that waits for an approver outside the program.
        rule_files: where rules can be added besides the store; none if there are none.
        for_program: the questions that the approver of the program is asked now, before people.
        unstored: the questions that only this process knows, because their calls do not wait yet.
    """

    approve: Approve | None = None
    notify: Callable[[Question], None] | None = None
    rule_files: RuleFiles | None = None
    book: Approvals = field(default_factory=Approvals)
    waiting: dict[ApprovalId, "asyncio.Future[object]"] = field(
        default_factory=dict["ApprovalId", "asyncio.Future[object]"]
    )
    for_program: set[ApprovalId] = field(default_factory=set[ApprovalId])
    unstored: set[ApprovalId] = field(default_factory=set[ApprovalId])
    ttl_s: float = 86_400.0


READER_KIND = "payload_reader"
"""The kind of the documents that grant access to stored output."""


class RuleMemory(Protocol):
    """The rules that approvers asked to remember, in every process on a store. `RememberedRules` implements it."""

    async def add(self, question: Question, rule: Rule) -> None:
        """Store the rule of an answer, whose decision is in the journal; if that fails, only this process has it."""
        ...

    async def sync(self) -> bool:
        """Apply what other processes remembered or forgot; return whether a rule was added."""
        ...


@dataclass(frozen=True, slots=True)
class PayloadReader:
    """The reader of stored output: an actor in a conversation; the actor is none if the caller did not name one."""

    thread: Thread
    actor: str | None = None

    def key(self, digest: Digest, thread_id: str) -> str:
        """Return the key of the grant for this actor in a conversation."""
        return f"{digest} {thread_id if self.actor is None else json_bytes([thread_id, self.actor]).decode()}"


class PayloadAccess:
    """Stored output, and who may read it: the actor whose call stored it, in its conversation and the ancestors."""

    def __init__(self, store: PayloadStore, documents: DocumentStore) -> None:
        self.store = store
        self._documents = documents
        self._granted: set[str] = set()
        self._tasks = Tasks()

    async def grant_read(self, reader: PayloadReader, digest: Digest) -> None:
        """Grant a reader access to stored output, in its conversation and its ancestors, also in later processes.

        Raises:
            StoreError: the grant could not be stored.
        """
        for thread_id in (reader.thread.thread_id, *reader.thread.ancestors):
            key = reader.key(digest, thread_id)
            if key not in self._granted:
                await self._documents.put(READER_KIND, key, b"1")
                self._granted.add(key)  # only now: a grant that failed is tried again

    async def may_read(self, reader: PayloadReader, digest: Digest) -> bool:
        """Return whether a reader has access to stored output.

        Raises:
            StoreError: the store could not be read.
        """
        key = reader.key(digest, reader.thread.thread_id)
        return key in self._granted or await self._documents.get(READER_KIND, key) is not None

    def put_soon(self, reader: PayloadReader, data: bytes, digest: Digest) -> None:
        """Store bytes in a task of its own; `close` waits for it."""
        self._tasks.start(guard(self._put(reader, data, digest)))

    async def close(self) -> None:
        """Wait for the bytes that are being stored."""
        await self._tasks.wait()

    async def _put(self, reader: PayloadReader, data: bytes, digest: Digest) -> None:
        await self.store.put(data, digest)
        await self.grant_read(reader, digest)


_C_contra = TypeVar("_C_contra", contravariant=True)
"""`Call`; a name of its own avoids an import circle."""


class CallHost(Protocol[_C_contra]):
    """What calls need of their agent. `Agent` implements it."""

    is_closed: bool
    """Whether new calls are rejected."""

    @property
    def remembered(self) -> RuleMemory:
        """The rules that the store remembers."""
        ...

    def tool_of(self, tool_id: ToolId) -> Tool | None:
        """Return a tool as it is declared now."""
        ...

    def run_nested(self, parent: _C_contra, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
        """Run a call that the tool of another call makes."""
        ...

    async def resume_and_wait(self, invocation_id: InvocationId) -> ToolResult:
        """Resume a call of a dead process as soon as that is possible, and wait for its result."""
        ...

    async def find_tools(
        self, surface: Surface | None, query: str, limit: int, known_as: Mapping[str, str]
    ) -> JsonObject:
        """Search the tools of a surface for a model."""
        ...

    def offer_read_back(self, surface: Surface | None) -> None:
        """Offer the tool that reads stored output on a surface."""
        ...

    def policy_changed(self) -> None:
        """Renew the surfaces, because a rule was added or removed."""
        ...

    def source_status(self, name: str, /) -> SourceStatus | None:
        """Return the state of the server that has a namespace; none if no source has it."""
        ...

    async def ensure_lease(self) -> None:
        """Acquire the lease of this process, so that no other process recovers its calls; raises `StoreError`."""
        ...

    async def stored_answer(self, question: Question) -> Answered | None:
        """Return an answer that another process received before the question expired."""
        ...

    def ask_approver(self, approve: Approve, question: Question) -> Coroutine[object, object, None]:
        """Ask the approver of the program, and record the answer."""
        ...

    async def leave_to_rules(self, question: Question) -> None:
        """Let rules that were added after a stored question decide about its call; an earlier answer stands."""
        ...

    async def withdraw_question(self, question: Question) -> Answered | None:
        """Close a question of a call that ends; return the answer that any process accepted before."""
        ...

    def end_overdue(self, invocation_id: InvocationId) -> None:
        """End a parked call whose deferred result did not arrive in time."""
        ...


class RegisteredCall(Protocol):
    """What the registry reads of a call."""

    invocation_id: InvocationId
    request: CallRequest


_Listed = TypeVar("_Listed", bound=RegisteredCall)


class CallRegistry(Generic[_Listed]):
    """The open calls of a runtime, and the waiters for their ends."""

    def __init__(self) -> None:
        self.calls: dict[InvocationId, _Listed] = {}
        self.quota = CallerQuota("open calls")
        self.ended = 0  # the number of ended calls
        self._waiters: dict[InvocationId | None, set[asyncio.Event]] = {}

    def check_quota(self, calls: Sequence[_Listed]) -> None:
        """Check that the authenticated caller of some new calls may open them; calls without one are not limited.

        Raises:
            QuotaError: too many of its calls are open.
        """
        request = calls[0].request if calls else None
        if request is not None and request.actor_roles is not None:
            self.quota.check(request.actor_ref, len(calls))

    def add(self, call: _Listed) -> None:
        """List a call as open."""
        actor = call.request.actor_ref
        if actor is not None and call.invocation_id not in self.calls:
            self.quota.add(actor)
        self.calls[call.invocation_id] = call

    def discard(self, invocation_id: InvocationId) -> None:
        """Remove a call, without waking the waiters for its end."""
        call = self.calls.pop(invocation_id, None)
        if call is not None and call.request.actor_ref is not None:
            self.quota.remove(call.request.actor_ref)

    def remove(self, invocation_id: InvocationId) -> None:
        """Remove an ended call; wake the waiters for it, and those for any call."""
        self.discard(invocation_id)
        for waiter in (*self._waiters.get(invocation_id, ()), *self._waiters.get(None, ())):
            waiter.set()

    @contextmanager
    def waiter(self, invocation_id: InvocationId | None = None) -> Generator[asyncio.Event]:
        """Return an event that is set when a call ends; without an id, whenever any call ends."""
        event, waiting = asyncio.Event(), self._waiters.setdefault(invocation_id, set())
        waiting.add(event)
        try:
            yield event
        finally:
            waiting.discard(event)
            if not waiting:
                del self._waiters[invocation_id]
