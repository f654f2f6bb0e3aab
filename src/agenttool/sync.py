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
from concurrent.futures import CancelledError
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from agenttool.adapters.function_calling.tool_payload import PayloadTool
from agenttool.agent.attached_sources import AttachedSources
from agenttool.agent.call_access import CallAccess, CallHandle
from agenttool.agent.journal_view import JournalView
from agenttool.agent.surface_access import SurfaceAccess
from agenttool.durable.approval_queue import ApprovalQueue
from agenttool.durable.deferred_results import DeferredCalls, PromptQueue
from agenttool.errors import ConfigError
from agenttool.ports.deferred import Thread
from agenttool.providers import ModelTools
from agenttool.records import AbsentTool, InvocationStatus, JsonObject, ToolId, ToolResult, ToolSurface
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
    """Run a coroutine on an event loop in another thread and wait for its result; Ctrl-C cancels it.

    Raises:
        ConfigError: the runtime or client is closed, or was closed meanwhile.
    """
    if loop.is_closed():
        work.close()
        raise ConfigError("this runtime or client is closed; open another one")
    running = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return running.result()
    except CancelledError:
        raise ConfigError("this runtime or client was closed meanwhile; open another one") from None
    finally:
        running.cancel()  # after Ctrl-C; a coroutine that has ended is not affected


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
        items, reading = method(self.target, *args, **kwargs), asyncio.Lock()

        async def following() -> tuple[_T, ...]:
            async with reading:
                async for item in items:
                    return (item,)
            return ()

        async def close() -> None:
            async with reading:  # after Ctrl-C, the last read may take a moment to end
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


class SyncCallHandle(LoopProxy[CallHandle]):
    """A call that was started, for code without an event loop.

    Attributes:
        id: as `CallHandle.id`.
    """

    def __init__(self, target: CallHandle, loop: asyncio.AbstractEventLoop) -> None:
        """Take the handle and its event loop."""
        super().__init__(target, loop)
        self.id = target.id

    def __repr__(self) -> str:
        """Return the id and the status, if that can be read."""
        return self._read(self.target.__repr__)

    @property
    def status(self) -> InvocationStatus:
        """Its status now."""
        return self._read(lambda: self.target.status)

    @property
    def tool_id(self) -> ToolId:
        """The id of its tool."""
        return self._read(lambda: self.target.tool_id)

    @property
    def stored_result(self) -> ToolResult | None:
        """The result of a call that was started and has ended in this process, once it is stored; else None."""
        return self.target.stored_result

    result = awaited(CallHandle.result)
    progress = iterated(CallHandle.progress)
    cancel = awaited(CallHandle.cancel)

    def idle(self) -> Self:
        """Return this handle once the call has ended or waits, as `CallHandle.idle` does."""
        run_on(self.loop, self.target.idle())
        return self

    def _read(self, read: Callable[[], _T]) -> _T:
        """Return what is read on the event loop, whose journal other threads may not read; here once it has ended."""
        if self.loop.is_closed():
            return read()

        async def work() -> _T:
            return read()

        return run_on(self.loop, work())


def _sync_handle(target: CallHandle, loop: asyncio.AbstractEventLoop) -> SyncCallHandle:
    return SyncCallHandle(target, loop)


class SyncCalls(LoopProxy[CallAccess]):
    """`rt.calls` for code without an event loop."""

    start = _wrapped(awaited(CallAccess.start), _sync_handle)
    get = _wrapped(_called(CallAccess.get), _sync_handle)
    new_id = _called(CallAccess.new_id)
    open_ids = _called(CallAccess.open_ids)
    interrupt = _called(CallAccess.interrupt)
    recover = awaited(CallAccess.recover)
    may_read = awaited(CallAccess.may_read)

    @property
    def thread(self) -> Thread:
        """The conversation of the calls."""
        return self.target.thread

    @property
    def shared(self) -> JsonObject:
        """A copy of the context that calls share and tools change."""
        return self.target.shared


class SyncSurfaces(LoopProxy[SurfaceAccess]):
    """`rt.surfaces` for code without an event loop."""

    find = _called(SurfaceAccess.find)
    forget = _called(SurfaceAccess.forget)
    current = _called(SurfaceAccess.current)
    refresh = _called(SurfaceAccess.refresh)
    offered = _called(SurfaceAccess.offered)
    default = _called(SurfaceAccess.default)
    tool_names = _called(SurfaceAccess.tool_names)
    offer_read_result = _called(SurfaceAccess.offer_read_result)
    prepare_search = awaited(SurfaceAccess.prepare_search)
    change = awaited(SurfaceAccess.change)


class SyncApprovals(LoopProxy[ApprovalQueue]):
    """`rt.approvals` for code without an event loop."""

    list = awaited(ApprovalQueue.list)
    get = awaited(ApprovalQueue.get)
    of_call = awaited(ApprovalQueue.of_call)
    within = awaited(ApprovalQueue.within)
    is_open = awaited(ApprovalQueue.is_open)
    closed = awaited(ApprovalQueue.closed)
    is_for_people = _called(ApprovalQueue.is_for_people)
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
        calls: as `Runtime.calls`.
        surfaces: as `Runtime.surfaces`.
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
        self.calls = SyncCalls(target.calls, loop)
        self.surfaces = SyncSurfaces(target.surfaces, loop)
        self.approvals = SyncApprovals(target.approvals, loop)
        self.journal = SyncJournal(target.journal, loop)
        self.deferred = SyncDeferred(target.deferred, loop)
        self.prompts = SyncPrompts(target.prompts, loop)
        self.sources = SyncSources(target.sources, loop)

    call = awaited(Runtime.call)
    batch = awaited(Runtime.batch)
    stream_batch = iterated(Runtime.stream_batch)
    start = _wrapped(awaited(Runtime.start), _sync_handle)
    cancel = awaited(Runtime.cancel)
    reload = awaited(Runtime.reload)
    declare = _called(Runtime.declare)
    retire = _called(Runtime.retire)
    surface = awaited(Runtime.surface)
    search = awaited(Runtime.search)
    load = awaited(Runtime.load)
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
