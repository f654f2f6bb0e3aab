"""The external dependencies of a runtime, and the core that is built from them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from agenttool.hooks.definition import Hook
from agenttool.journal.journal import Journal
from agenttool.pipeline.call import CallHost, Core
from agenttool.pipeline.credentials import CredentialVault
from agenttool.pipeline.services import Durability, OpenQuestions, PayloadAccess, Timing
from agenttool.pipeline.tool import Tools
from agenttool.policy.decide import Policy
from agenttool.ports.advice import Adviser
from agenttool.ports.deferred import Thread
from agenttool.ports.limits import RateLimit
from agenttool.ports.retriever import Retriever
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.ports.stores import DocumentStore, EventLog, OpenCalls, PayloadStore, RecoverableCalls
from agenttool.ports.tool import DeclaredTool
from agenttool.ports.world import Clock, IdSource, OsUser
from agenttool.scheduler.drive import GracePeriod
from agenttool.scheduler.rate_limits import TokenBucket
from agenttool.scheduler.timeouts import Deadlines


def _no_jitter() -> float:
    return 1.0


def _no_user() -> OsUser | None:
    """Return none: this runtime does not know its operating-system user."""


def _no_traceback(error: BaseException) -> str | None:
    """Return none: this runtime records no tracebacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The external dependencies of a runtime; `close` is called when it is closed.

    A lease is valid for `lease_s`; after that, other processes recover the calls of its owner. `thread` is the id
    of the conversation. `semantic_index` adds search by meaning, and `retriever` replaces the ranking. `vault`
    leases credentials to calls. `format_crash` returns the traceback of an exception as text, or none to record none.
    """

    clock: Clock
    ids: IdSource
    log: EventLog
    payloads: PayloadStore
    open_calls: OpenCalls
    documents: DocumentStore
    close: Callable[[], Awaitable[None]] | None = None
    random: Callable[[], float] = _no_jitter
    lease_s: float = 6.0
    thread: str = "thread"
    semantic_index: SemanticIndex | None = None
    retriever: Retriever | None = None
    vault: CredentialVault | None = None
    os_user: Callable[[], OsUser | None] = _no_user
    format_crash: Callable[[BaseException], str | None] = _no_traceback


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOptions:
    """The settings that decide how calls are judged and run.

    Attributes:
        rate_limits: those of whole namespaces.
        prepare: returns each tool that is declared with what the program provides to it.
    """

    policy: Policy = field(default_factory=Policy)
    hooks: tuple[Hook, ...] = ()
    advisers: tuple[Adviser, ...] = ()
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict[str, RateLimit])
    default_timeout_s: float | None = 600.0
    questions: OpenQuestions = field(default_factory=OpenQuestions)
    prepare: Callable[[DeclaredTool], DeclaredTool]


def make_core(world: World, host: CallHost, options: CoreOptions) -> Core:
    """Build the core for the running event loop."""
    loop = asyncio.get_running_loop()
    buckets = {namespace: TokenBucket(limit) for namespace, limit in options.rate_limits.items()}
    return Core(
        journal=Journal(clock=world.clock, log=world.log),
        clock=world.clock,
        ids=world.ids,
        os_user=world.os_user,
        format_crash=world.format_crash,
        payloads=PayloadAccess(world.payloads, world.documents),
        timing=Timing(
            loop=loop,
            thread_id=threading.get_ident(),
            deadlines=Deadlines(loop),
            grace_period=GracePeriod(call_later=loop.call_later, after_stop=1.0, after_caller=10.0),
            random=world.random,
            default_timeout_s=options.default_timeout_s,
        ),
        durability=Durability(
            checkpoints=cast("RecoverableCalls", world.open_calls) if world.log.durable else None,
            deferred=world.open_calls,
            documents=world.documents,
            lease_s=world.lease_s,
        ),
        tools=Tools(options.hooks, buckets),
        host=host,
        policy=options.policy,
        thread=Thread(thread_id=world.thread),
        advisers=options.advisers,
        questions=options.questions,
        vault=world.vault,
    )
