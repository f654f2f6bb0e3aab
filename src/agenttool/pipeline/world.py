"""The external dependencies of a runtime, and the core that is built from them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from agenttool.errors import ConfigError
from agenttool.hooks.definition import Hook
from agenttool.journal.journal import Journal
from agenttool.pipeline.core import Core
from agenttool.pipeline.tool import Tools
from agenttool.policy.decide import Policy
from agenttool.ports.advice import Adviser
from agenttool.ports.deferred import Thread
from agenttool.ports.limits import RateLimit
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.ports.stores import DocumentStore, EventLog, OpenCalls, PayloadStore
from agenttool.ports.world import Clock, IdSource
from agenttool.scheduler.drive import GracePeriod
from agenttool.scheduler.limiter import CallLimiter
from agenttool.scheduler.rate_limits import TokenBucket
from agenttool.scheduler.timeouts import Deadlines


def _no_jitter() -> float:
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The external dependencies of a runtime; `close` is called when it is closed.

    A lease is valid for `lease_s`; after that, other processes recover the calls of its owner. `thread` is the id
    of the conversation. `semantic_index` adds search by meaning.
    """

    clock: Clock
    ids: IdSource
    log: EventLog
    payloads: PayloadStore
    open_calls: OpenCalls | None = None
    shelf: DocumentStore | None = None
    close: Callable[[], Awaitable[None]] | None = None
    random: Callable[[], float] = _no_jitter
    lease_s: float = 6.0
    thread: str = "thread"
    semantic_index: SemanticIndex | None = None


def make_core(
    world: World,
    *,
    hooks: Iterable[Hook],
    policy: Policy | None,
    rate_limits: Mapping[str, RateLimit] | None,
    advisers: Iterable[Adviser],
) -> Core:
    """Build the core for the running event loop.

    Raises:
        ConfigError: the log is durable, and there is no store for checkpoints.
    """
    if world.log.durable and world.open_calls is None:
        raise ConfigError(
            "a log that outlives the process needs a place for the calls under way; give `open_calls`, too"
        )
    loop = asyncio.get_running_loop()
    standing = tuple(hooks)
    buckets = {namespace: TokenBucket(limit) for namespace, limit in (rate_limits or {}).items()}
    return Core(
        journal=Journal(clock=world.clock, log=world.log),
        now_ns=world.clock.now_ns,
        moment=world.clock.moment,
        ids=world.ids,
        payloads=world.payloads,
        policy=policy or Policy(),
        limiter=CallLimiter(),
        deadlines=Deadlines(loop),
        grace_period=GracePeriod(call_later=loop.call_later, after_stop=1.0, after_caller=10.0),
        loop=loop,
        thread_id=threading.get_ident(),
        thread=Thread(thread_id=world.thread),
        hooks=standing,
        advisers=tuple(advisers),
        durable=world.log.durable,
        open_calls=world.open_calls if world.log.durable else None,
        parked=world.open_calls,
        shelf=world.shelf,
        random=world.random,
        lease_s=world.lease_s,
        tools=Tools(standing, buckets),
    )
