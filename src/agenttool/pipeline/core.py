"""What all calls of a runtime share."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from agenttool.catalog.surface import Surface
from agenttool.hooks.definition import Hook
from agenttool.journal.journal import Journal
from agenttool.pipeline.tools import Tools
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


def _nobody(parent: object, name: str, arguments: JsonObject) -> Coroutine[object, object, ToolResult]:
    raise AssertionError("the runtime says how nested calls are made")


async def _nobody_looks(surface: Surface | None, query: str, limit: int, known_as: Mapping[str, str]) -> JsonObject:
    raise AssertionError("the runtime says how tools are found")


def _no_way_back(surface: Surface | None) -> None:
    """Do nothing: whoever made this core offers no way to read stored output back."""


def _nobody_cares() -> None:
    """Do nothing: whoever made this core has no surfaces."""


def _nobody_knows(provider: str) -> float | None:
    """Say nothing: whoever made this core has no providers that are asked what they offer."""


class UnderWay(Protocol):
    """A call as this file sees it; each of them is a `pipeline.call.Call`."""

    invocation_id: InvocationId


def _no_luck() -> float:
    return 1.0


@dataclass(slots=True, eq=False)
class Core:
    """The parts that every phase may ask: the journal, the policy, the gate, the clock and the rest of the world."""

    journal: Journal
    now_ns: Callable[[], int]
    moment: Callable[[], Moment]
    ids: IdSource
    payloads: PayloadStore
    policy: Policy
    gate: CallLimiter
    deadlines: Deadlines
    patience: GracePeriod
    loop: asyncio.AbstractEventLoop
    thread_id: int
    thread: Thread
    """The conversation that calls are made in, unless they say otherwise."""
    hooks: tuple[Hook, ...] = ()
    advisers: tuple[Adviser, ...] = ()
    durable: bool = False
    open_calls: OpenCalls | None = None
    """Where calls are held so that they outlive this process; none where nothing does."""
    parked: OpenCalls | None = None
    """Where calls stay that wait for an answer which comes later, in whatever store there is."""
    shelf: DocumentStore | None = None
    lease_s: float = 6.0
    """For how long we say each time that we are alive; after that others may take our calls."""
    acquire_lease: Callable[[], Awaitable[None]] | None = None
    """Registers the lease of this process before its first checkpoint."""
    has_lease: bool = False
    """Whether the lease is registered."""
    withdraw_prompt: Callable[[InvocationId], Awaitable[None]] | None = None
    """Takes down what a call asked a person, once it has an answer."""
    overdue: Callable[[InvocationId], None] | None = None
    """Ends a call whose answer did not come in time, where no keeper looks after such calls."""
    settle: Callable[[], Awaitable[None]] = field(init=False)
    """Waits until all that was noted is kept."""
    last_word: Callable[[Question], Awaitable[Answered | None]] | None = None
    """Asks the store, when the time for an answer is over, whether one came in time to another process."""
    default_timeout_s: float | None = 600.0
    random: Callable[[], float] = _no_luck
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    run_nested: Callable[..., Coroutine[object, object, ToolResult]] = _nobody
    find_tools: Callable[..., Coroutine[object, object, JsonObject]] = _nobody_looks
    """Searches for a model among the tools of the surface that it asks on."""
    policy_changed: Callable[[], None] = _nobody_cares
    """Called when a rule was remembered."""
    asked_again_in: Callable[[str], float | None] = _nobody_knows
    """Tells in how many seconds a provider that has not said what it offers is asked again."""
    offer_read_back: Callable[[Surface | None], None] = _no_way_back
    """Called when output was stored, with the surface that its call was made on."""
    shared: dict[str, Json] = field(default_factory=dict[str, Json])
    """The context that calls share, as far as tools may change it."""
    approval_ttl_s: float = 86_400.0
    approvals: Approvals = field(default_factory=Approvals)
    waiting: dict[ApprovalId, "asyncio.Future[object]"] = field(
        default_factory=dict["ApprovalId", "asyncio.Future[object]"]
    )
    tools: Tools = field(default_factory=Tools)
    calls: dict[InvocationId, UnderWay] = field(default_factory=dict[InvocationId, UnderWay])
    """The calls under way."""
    ended: int = 0
    """How many calls have ended."""
    closing: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    """Set whenever a call leaves, by whoever waits for that."""
    readable: set[str] = field(default_factory=set[str])
    """Which conversation may read which stored output back, as far as this process has seen it."""
    storing: set["asyncio.Task[object]"] = field(default_factory=set["asyncio.Task[object]"])
    """Parts of results on their way to the store."""
    parent: "Core | None" = None
    """That of the agent that started this one."""

    def __post_init__(self) -> None:
        """Have at hand what every call asks for."""
        self.settle = self.journal.log.settle

    def line(self) -> Iterator["Core"]:
        """Give this and those above it."""
        core: Core | None = self
        while core is not None:
            yield core
            core = core.parent

    def remember(self, rule: Rule) -> None:
        """Add a rule that a person wants to be remembered; above a child it must hold, too, to have any effect."""
        policy = self.policy
        if self.parent is not None:
            self.parent.remember(rule)
            policy = replace(policy, parent=self.parent.policy)
        self.policy = policy.with_book(policy.book.with_rule(rule))
        self.policy_changed()
