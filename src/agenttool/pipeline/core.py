"""The state and services that all calls of a runtime share."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from agenttool.catalog.surface import Surface
from agenttool.hooks.definition import Hook
from agenttool.journal.journal import Journal
from agenttool.pipeline.tool import Tools
from agenttool.policy.approvals import Answered, Approvals, Question
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule
from agenttool.ports.advice import Adviser
from agenttool.ports.deferred import Thread
from agenttool.ports.stores import DocumentStore, OpenCalls, PayloadStore
from agenttool.ports.world import IdSource, Moment
from agenttool.records import ApprovalId, InvocationId, Json, JsonObject, ToolResult
from agenttool.scheduler.drive import GracePeriod
from agenttool.scheduler.limiter import CallLimiter
from agenttool.scheduler.retry import RetryPolicy
from agenttool.scheduler.timeouts import Deadlines


def _no_nested_calls(parent: object, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
    raise AssertionError("the runtime says how nested calls are made")


async def _no_search(surface: Surface | None, query: str, limit: int, known_as: Mapping[str, str]) -> JsonObject:
    raise AssertionError("the runtime says how tools are found")


def _no_read_back(surface: Surface | None) -> None:
    """Do nothing: this core has no tool that reads stored output."""


def _no_surfaces() -> None:
    """Do nothing: this core has no surfaces."""


def _no_providers(provider: str) -> float | None:
    """Return none: this core has no providers."""


class OpenCallRef(Protocol):
    """The part of a call that this module needs; each one is a `pipeline.call.Call`."""

    invocation_id: InvocationId


def _no_jitter() -> float:
    return 1.0


@dataclass(slots=True, eq=False)
class Core:
    """The services that every phase uses: journal, policy, limiter, clock, stores and callbacks of the runtime."""

    journal: Journal
    now_ns: Callable[[], int]
    moment: Callable[[], Moment]
    ids: IdSource
    payloads: PayloadStore
    policy: Policy
    limiter: CallLimiter
    deadlines: Deadlines
    grace_period: GracePeriod
    loop: asyncio.AbstractEventLoop
    thread_id: int
    thread: Thread
    """The conversation of the calls."""
    hooks: tuple[Hook, ...] = ()
    advisers: tuple[Adviser, ...] = ()
    durable: bool = False
    open_calls: OpenCalls | None = None
    """The checkpoints of a durable store; none if the store is not durable."""
    parked: OpenCalls | None = None
    """The checkpoints of calls that wait for a deferred result, in a durable store or in memory."""
    shelf: DocumentStore | None = None
    lease_s: float = 6.0
    """How long a lease is valid; after that, other processes may recover the calls of this one."""
    acquire_lease: Callable[[], Awaitable[None]] | None = None
    """Registers the lease of this process before its first checkpoint."""
    has_lease: bool = False
    """Whether the lease is registered."""
    withdraw_prompt: Callable[[InvocationId], Awaitable[None]] | None = None
    """Deletes the open prompt of a call."""
    overdue: Callable[[InvocationId], None] | None = None
    """Ends a call whose deferred result is overdue; set where no recovery task does it."""
    settle: Callable[[], Awaitable[None]] = field(init=False)
    """Waits until all recorded facts are durable."""
    stored_answer: Callable[[Question], Awaitable[Answered | None]] | None = None
    """Returns an answer that another process received before the question expired."""
    default_timeout_s: float | None = 600.0
    random: Callable[[], float] = _no_jitter
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    run_nested: Callable[..., Coroutine[object, object, ToolResult]] = _no_nested_calls
    find_tools: Callable[..., Coroutine[object, object, JsonObject]] = _no_search
    """Searches the tools of a surface for a model."""
    policy_changed: Callable[[], None] = _no_surfaces
    """Called when a rule was added."""
    next_discovery_in: Callable[[str], float | None] = _no_providers
    """Returns the seconds until the tools of a provider are requested again."""
    offer_read_back: Callable[[Surface | None], None] = _no_read_back
    """Called with the surface of a call whose output was stored."""
    shared: dict[str, Json] = field(default_factory=dict[str, Json])
    """The context that calls share and tools may change."""
    approval_ttl_s: float = 86_400.0
    approvals: Approvals = field(default_factory=Approvals)
    waiting: dict[ApprovalId, "asyncio.Future[object]"] = field(
        default_factory=dict["ApprovalId", "asyncio.Future[object]"]
    )
    tools: Tools = field(default_factory=Tools)
    calls: dict[InvocationId, OpenCallRef] = field(default_factory=dict[InvocationId, OpenCallRef])
    """The open calls."""
    ended: int = 0
    """The number of ended calls."""
    closing: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    """Events of waiters, set whenever a call ends."""
    readable: set[str] = field(default_factory=set[str])
    """A cache of the conversations that may read stored output."""
    storing: set["asyncio.Task[object]"] = field(default_factory=set["asyncio.Task[object]"])
    """Tasks that store partial results."""
    parent: "Core | None" = None
    """The core of the agent that started this one."""

    def __post_init__(self) -> None:
        """Cache the method that every call uses."""
        self.settle = self.journal.log.settle

    def line(self) -> Iterator["Core"]:
        """Yield this core and its ancestors."""
        core: Core | None = self
        while core is not None:
            yield core
            core = core.parent

    def remember(self, rule: Rule) -> None:
        """Add a rule, also to all ancestors: a rule takes effect only if the parent's policy agrees."""
        policy = self.policy
        if self.parent is not None:
            self.parent.remember(rule)
            policy = replace(policy, parent=self.parent.policy)
        self.policy = policy.with_book(policy.book.with_rule(rule))
        self.policy_changed()
