"""The synchronous API: a runtime on an event loop in a thread of its own, with the methods of `Runtime`.

```python
from agenttool import sync

with sync.open(tools=[read_file]) as rt:
    print(rt.call("read_file", {"path": "a.txt"}).text)
```
"""

import asyncio
import atexit
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from agenttool.adapters.function_calling.tool_payload import PayloadTool
from agenttool.errors import ConfigError
from agenttool.pipeline.approval_queue import ApprovalQueue
from agenttool.pipeline.attached_sources import AttachedSources
from agenttool.pipeline.journal_view import JournalView
from agenttool.pipeline.prompts import DeferredCalls, PromptQueue
from agenttool.ports.deferred import Thread
from agenttool.ports.stores import DocumentStore
from agenttool.providers import ModelTools
from agenttool.records import AbsentTool, JsonObject, ToolSurface
from agenttool.runtime import Runtime

_T = TypeVar("_T")
_Target = TypeVar("_Target")
_Wrapped = TypeVar("_Wrapped")
_P = ParamSpec("_P")


class LoopProxy(Generic[_Target]):
    """An object that lives on an event loop in another thread. Safe to use from several threads.

    Attributes:
        target: the asynchronous object.
        loop: its event loop.
    """

    def __init__(self, target: _Target, loop: asyncio.AbstractEventLoop) -> None:
        """Take the object and its event loop."""
        self.target = target
        self.loop = loop


def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, _T]) -> _T:
    """Run a coroutine on an event loop in another thread and wait for its result.

    Raises:
        ConfigError: the runtime or client is closed.
    """
    if loop.is_closed():
        work.close()
        raise ConfigError("this runtime or client is closed; open another one")
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def awaited(
    method: Callable[Concatenate[_Target, _P], Coroutine[object, object, _T]],
) -> Callable[Concatenate[LoopProxy[_Target], _P], _T]:
    """Return a method that calls a coroutine method on the event loop and waits for its result."""

    @wraps(method)
    def call(self: LoopProxy[_Target], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        async def work() -> _T:
            return await method(self.target, *args, **kwargs)

        return run_on(self.loop, work())

    return call


def _called(method: Callable[Concatenate[_Target, _P], _T]) -> Callable[Concatenate[LoopProxy[_Target], _P], _T]:
    """Return a method that calls a plain method on the event loop."""

    @wraps(method)
    def call(self: LoopProxy[_Target], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        async def work() -> _T:
            return method(self.target, *args, **kwargs)

        return run_on(self.loop, work())

    return call


def iterated(
    method: Callable[Concatenate[_Target, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[LoopProxy[_Target], _P], Iterator[_T]]:
    """Return a generator method that reads an asynchronous generator item by item."""

    @wraps(method)
    def iterate(self: LoopProxy[_Target], *args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        items = method(self.target, *args, **kwargs)

        async def following() -> tuple[_T, ...]:
            async for item in items:
                return (item,)
            return ()

        async def close() -> None:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

        try:
            while found := run_on(self.loop, following()):
                yield found[0]
        finally:
            if not self.loop.is_closed():
                run_on(self.loop, close())

    return iterate


def _wrapped(
    method: Callable[Concatenate[LoopProxy[_Target], _P], _T],
    wrap: Callable[[_T, asyncio.AbstractEventLoop], _Wrapped],
) -> Callable[Concatenate[LoopProxy[_Target], _P], _Wrapped]:
    """Return a method whose result is a proxy, because it lives on the event loop, too."""

    @wraps(method)
    def call(self: LoopProxy[_Target], *args: _P.args, **kwargs: _P.kwargs) -> _Wrapped:
        return wrap(method(self, *args, **kwargs), self.loop)

    return call


class SyncApprovals(LoopProxy[ApprovalQueue]):
    """`rt.approvals` for code without an event loop."""

    list = awaited(ApprovalQueue.list)
    get = awaited(ApprovalQueue.get)
    of_call = awaited(ApprovalQueue.of_call)
    closed = awaited(ApprovalQueue.closed)
    decide = awaited(ApprovalQueue.decide)
    rules = awaited(ApprovalQueue.rules)
    forget = awaited(ApprovalQueue.forget)


class SyncJournal(LoopProxy[JournalView]):
    """`rt.journal` for code without an event loop."""

    invocation = awaited(JournalView.invocation)
    checkpoint = awaited(JournalView.checkpoint)
    result = awaited(JournalView.result)
    payload = awaited(JournalView.payload)
    events = iterated(JournalView.events)
    export = iterated(JournalView.export)
    retain = awaited(JournalView.retain)


class SyncDeferred(LoopProxy[DeferredCalls]):
    """`rt.deferred` for code without an event loop."""

    list = awaited(DeferredCalls.list)
    get = awaited(DeferredCalls.get)
    unsettled = awaited(DeferredCalls.unsettled)
    deliver = awaited(DeferredCalls.deliver)
    ask = awaited(DeferredCalls.ask)


class SyncPrompts(LoopProxy[PromptQueue]):
    """`rt.prompts` for code without an event loop."""

    list = awaited(PromptQueue.list)
    choose = awaited(PromptQueue.choose)


class SyncSources(LoopProxy[AttachedSources]):
    """`rt.sources` for code without an event loop."""

    status = awaited(AttachedSources.status)
    get = _called(AttachedSources.get)
    find = _called(AttachedSources.find)
    all_of = _called(AttachedSources.all_of)
    status_of = _called(AttachedSources.status_of)

    @property
    def not_ready(self) -> frozenset[str]:
        """The names of the servers whose tools cannot be used, which are the namespaces of these tools."""
        return self.target.not_ready

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all sources."""
        return self.target.names


class SyncModelTools(LoopProxy[ModelTools]):
    """The tools of one conversation, for code without an event loop."""

    request = _called(ModelTools.request)
    answer = awaited(ModelTools.answer)
    resume = awaited(ModelTools.resume)
    repair = _called(ModelTools.repair)
    load = awaited(ModelTools.load)

    @property
    def surface(self) -> ToolSurface:
        """The surface of the last request."""
        return self.target.surface

    @property
    def is_strict(self) -> bool:
        """Whether strict schemas are sent for tools that have one."""
        return self.target.is_strict

    @is_strict.setter
    def is_strict(self, strict: bool) -> None:
        self.target.is_strict = strict

    @property
    def functions(self) -> tuple[PayloadTool, ...]:
        """The functions of a request, each with the name, the description and the schema that the provider takes."""
        return self.target.functions

    @property
    def left_out(self) -> tuple[AbsentTool, ...]:
        """The tools that the provider would reject, each with its reason; the other tools are sent."""
        return self.target.left_out

    @property
    def notes(self) -> dict[str, str]:
        """Notes on tools that are sent, by qualified name, such as why one is not strict."""
        return self.target.notes


def _sync_runtime(target: Runtime, loop: asyncio.AbstractEventLoop) -> "SyncRuntime":
    return SyncRuntime(target, loop)


class SyncRuntime(LoopProxy[Runtime]):
    """A runtime for code without an event loop: `with sync.open(tools=[...]) as rt`.

    Attributes:
        approvals: as `Runtime.approvals`.
        journal: as `Runtime.journal`.
        deferred: as `Runtime.deferred`.
        prompts: as `Runtime.prompts`.
        sources: as `Runtime.sources`.
    """

    _thread: threading.Thread | None = None

    def __init__(
        self, target: Runtime, loop: asyncio.AbstractEventLoop, thread: threading.Thread | None = None
    ) -> None:
        """Take the runtime and its event loop; and the thread of the loop, if closing the runtime ends it."""
        super().__init__(target, loop)
        if thread is not None:
            self._thread = thread
            atexit.register(self.close)
        self.approvals = SyncApprovals(target.approvals, loop)
        self.journal = SyncJournal(target.journal, loop)
        self.deferred = SyncDeferred(target.deferred, loop)
        self.prompts = SyncPrompts(target.prompts, loop)
        self.sources = SyncSources(target.sources, loop)

    call = awaited(Runtime.call)
    batch = awaited(Runtime.batch)
    stream_batch = iterated(Runtime.stream_batch)
    start = awaited(Runtime.start)
    submit = awaited(Runtime.submit)
    start_call = awaited(Runtime.start_call)
    wait = awaited(Runtime.wait)
    new_invocation_id = _called(Runtime.new_invocation_id)
    cancel = awaited(Runtime.cancel)
    cancel_all = _called(Runtime.cancel_all)
    interrupt = _called(Runtime.interrupt)
    open_calls = _called(Runtime.open_calls)
    recover = awaited(Runtime.recover)

    surface = awaited(Runtime.surface)
    find_surface = _called(Runtime.find_surface)
    default_surface = _called(Runtime.default_surface)
    offer_read_result = _called(Runtime.offer_read_result)
    may_read = awaited(Runtime.may_read)
    tool_names = _called(Runtime.tool_names)
    current = _called(Runtime.current)
    refresh = _called(Runtime.refresh)
    offered = _called(Runtime.offered)
    search = awaited(Runtime.search)
    prepare_search = awaited(Runtime.prepare_search)
    load = awaited(Runtime.load)
    change = awaited(Runtime.change)
    reload = awaited(Runtime.reload)
    declare = _called(Runtime.declare)
    retire = _called(Runtime.retire)

    run = awaited(Runtime.run)
    tools_for = _wrapped(awaited(Runtime.tools_for), SyncModelTools)
    child = _wrapped(_called(Runtime.child), _sync_runtime)
    in_thread = _wrapped(_called(Runtime.in_thread), _sync_runtime)

    def __enter__(self) -> Self:
        """Return this runtime, connected."""
        if self._thread is None:
            run_on(self.loop, self.target.__aenter__())
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Close this runtime."""
        self.close()

    def close(self) -> None:
        """Close this runtime, and its event loop if it has one of its own; closing it again does nothing."""
        if self.loop.is_closed():
            return
        try:
            run_on(self.loop, self.target.close())
        finally:
            if self._thread is not None:
                atexit.unregister(self.close)
                end_loop(self.loop, self._thread)

    @property
    def thread(self) -> Thread:
        """The conversation of the calls."""
        return self.target.thread

    @property
    def documents(self) -> DocumentStore | None:
        """Small documents beside the journal, whose methods are coroutines."""
        return self.target.documents

    @property
    def is_durable(self) -> bool:
        """Whether another process can recover the calls of this one."""
        return self.target.is_durable

    @property
    def shared(self) -> JsonObject:
        """A copy of the context that calls share and tools change."""
        return self.target.shared

    @property
    def store_fault(self) -> str | None:
        """Why the durable store could not be used at the last check, seconds ago; None if it could."""
        return self.target.store_fault


def _opens(method: Callable[_P, Runtime]) -> Callable[[Callable[..., SyncRuntime]], Callable[_P, SyncRuntime]]:
    """Return a decorator that gives a function the parameters of a method."""
    return wraps(method)


@_opens(Runtime.open)
def open(*args: object, **options: object) -> SyncRuntime:  # noqa: A001 -- `sync.open`, as `Runtime.open`
    """Open a runtime on an event loop of its own, and connect its sources; close it with `close` or a `with` block."""
    loop, thread = start_loop()

    async def start() -> Runtime:
        return await Runtime.open(*args, **options).__aenter__()

    try:
        return SyncRuntime(run_on(loop, start()), loop, thread)
    except BaseException:
        end_loop(loop, thread)
        raise


def start_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Start an event loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="agenttool-sync", daemon=True)
    thread.start()
    return loop, thread


def end_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """Stop an event loop and its thread; a caller that still waits in another thread gets a cancellation."""

    async def cancel_rest() -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    run_on(loop, cancel_rest())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
