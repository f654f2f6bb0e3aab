"""The services that all calls of a runtime share, grouped by what they are for."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from agenttool.codec import json_bytes
from agenttool.pipeline.guard import guard
from agenttool.policy.approvals import Approvals, Question
from agenttool.policy.rules import Rule
from agenttool.ports.deferred import Thread
from agenttool.ports.stores import DocumentStore, OpenCalls, PayloadStore, RecoverableCalls
from agenttool.records import ApprovalId, Digest, JsonObject
from agenttool.scheduler.drive import GracePeriod
from agenttool.scheduler.retry import RetryPolicy
from agenttool.scheduler.timeouts import Deadlines


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
        checkpoints: the checkpoints of a durable store; none if the store is not durable.
        deferred: the checkpoints of calls that wait for a deferred result, in a durable store or in memory.
        documents: other documents that outlive this process.
        lease_s: how long a lease is valid; after that, other processes may recover the calls of this one.
        has_lease: whether this process has registered its lease.
    """

    checkpoints: RecoverableCalls | None
    deferred: OpenCalls
    documents: DocumentStore
    lease_s: float
    has_lease: bool = False


Approve = Callable[[Question], Awaitable[object]]
"""The approver of the program: returns an answer to a question, its word, or whether the call may run."""


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
        approve: the approver of the program; none if others answer.
        notify: reports a question that waits for others to answer it.
        rule_files: where rules can be added besides the store; none if there are none.
    """

    approve: Approve | None = None
    notify: Callable[[Question], None] | None = None
    rule_files: RuleFiles | None = None
    book: Approvals = field(default_factory=Approvals)
    waiting: dict[ApprovalId, "asyncio.Future[object]"] = field(
        default_factory=dict["ApprovalId", "asyncio.Future[object]"]
    )
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
        self._tasks: set[asyncio.Task[object]] = set()

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
        task = asyncio.create_task(guard(lambda: self._put(reader, data, digest)))  # noqa: TID251 -- `close` waits for it
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait for the bytes that are being stored."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _put(self, reader: PayloadReader, data: bytes, digest: Digest) -> None:
        await self.store.put(data, digest)
        await self.grant_read(reader, digest)
