"""The synchronous API: a runtime on an event loop in a thread of its own.

```python
from agenttool import sync

with sync.open(tools=[read_file]) as rt:
    surface = rt.surface()
    result = rt.call("read_file", {"path": "a.txt"}, surface=surface)
```
"""

import asyncio
import threading
from collections.abc import Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, TypeVar, Unpack

from agenttool.assemble import Tool
from agenttool.errors import ConfigError
from agenttool.hooks.definition import Hook
from agenttool.pipeline.surface_options import Changes, SurfaceContext
from agenttool.policy.approvals import Answer, Answered, Question, Refused
from agenttool.policy.rules import Rule
from agenttool.ports.calls import ToolCall
from agenttool.ports.surfacing import Circumstances, SurfacePolicy
from agenttool.providers import ModelTools, ModelTurn
from agenttool.records import (
    ApprovalId,
    InvocationId,
    JsonObject,
    Record,
    SurfaceId,
    ToolInvocation,
    ToolResult,
    ToolSearchResult,
    ToolSurface,
)
from agenttool.runtime import Runtime

_T = TypeVar("_T")


class OpenOptions(TypedDict, total=False):
    """The options of `Runtime.open`."""

    store: str | None
    config: str | Path | None
    tools: Iterable[Tool]
    rules: str | Path | Iterable[Rule]
    hooks: Iterable[Hook]
    mode: str | None
    interactive: bool | None
    surface: SurfacePolicy | None
    circumstances: Circumstances | None


class ModelToolsOptions(TypedDict, total=False):
    """The options of `Runtime.tools_for`."""

    surface: ToolSurface | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    strict: bool
    native_search: bool


class SyncRuntime:
    """A runtime for code without an event loop. Safe to use from several threads."""

    def __init__(self, runtime: Runtime, loop: asyncio.AbstractEventLoop) -> None:
        """Take the runtime and its event loop."""
        self._runtime = runtime
        self._loop = loop

    def surface(
        self, scope: str = "turn", *, only: Iterable[str] | None = None, **context: Unpack[SurfaceContext]
    ) -> ToolSurface:
        """Return a new surface for a context."""
        return self._wait(self._runtime.surface(scope, only=only, **context))

    def search(self, query: str, *, surface: ToolSurface, limit: int = 10) -> ToolSearchResult:
        """Return the tools of a surface that match a query, shown or deferred."""
        return self._wait(self._runtime.search(query, surface=surface, limit=limit))

    def prepare_search(self, *, seconds: float = 60.0) -> bool:
        """Index all tools now, and wait until the search model has encoded them."""
        return self._wait(self._runtime.prepare_search(seconds=seconds))

    def load(self, surface: ToolSurface, names: Iterable[str]) -> ToolSurface:
        """Return a new surface that also shows the named tools."""
        return self._wait(self._runtime.load(surface, names))

    def current(self, surface: ToolSurface) -> ToolSurface:
        """Return the current version of a surface."""
        return self._wait(self._runtime.current(surface))

    def change(self, **changes: Unpack[Changes]) -> dict[SurfaceId, ToolSurface]:
        """Change the policy or the circumstances; return the new surfaces by the ids of those they replace."""
        return self._wait(self._runtime.change(**changes))

    def call(self, name: str, arguments: JsonObject | str | bytes, *, surface: ToolSurface | None = None) -> ToolResult:
        """Call a tool by name and wait for its result."""
        return self._wait(self._runtime.call(name, arguments, surface=surface))

    def batch(self, calls: Sequence[ToolCall], *, surface: ToolSurface | None = None) -> list[ToolResult]:
        """Call several tools and wait for all results."""
        return self._wait(self._runtime.batch(calls, surface=surface))

    def tools_for(self, provider: str, **options: Unpack[ModelToolsOptions]) -> "SyncModelTools":
        """Return the tools of a surface in the format of a model provider."""
        return SyncModelTools(self._wait(self._runtime.tools_for(provider, **options)), self._loop)

    def cancel(self, invocation_id: InvocationId) -> bool:
        """Request the cancellation of a call."""
        return self._wait(self._runtime.cancel(invocation_id))

    def approvals(self) -> tuple[Question, ...]:
        """Return the open questions."""
        return self._wait(self._runtime.approvals())

    def decide(
        self,
        approval_id: ApprovalId,
        answer: str | Answer,
        *,
        updated_input: JsonObject | None = None,
        by: str = "user",
    ) -> Answered | Refused:
        """Answer an open question."""
        return self._wait(self._runtime.decide(approval_id, answer, updated_input=updated_input, by=by))

    def invocation(self, invocation_id: InvocationId) -> ToolInvocation | None:
        """Return the current record of a call; none if it is unknown."""
        return self._wait(self._runtime.invocation(invocation_id))

    def export(self) -> list[Record]:
        """Return every record."""
        return self._wait(self._exported())

    async def _exported(self) -> list[Record]:
        return [record async for record in self._runtime.export()]

    def _wait(self, work: Coroutine[object, object, _T]) -> _T:
        if self._loop.is_closed():
            work.close()
            raise ConfigError("this runtime is closed; open another one")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class SyncModelTools:
    """The tools of one conversation, for code without an event loop."""

    def __init__(self, tools: ModelTools, loop: asyncio.AbstractEventLoop) -> None:
        """Take the tools and the event loop of their runtime."""
        self.tools = tools
        self._loop = loop

    def request(self) -> JsonObject:
        """Return the part of a model request that describes the tools."""
        return asyncio.run_coroutine_threadsafe(self._requested(), self._loop).result()

    def answer(self, reply: object) -> ModelTurn:
        """Run the calls in a model's reply, and return the messages to send back."""
        return asyncio.run_coroutine_threadsafe(self.tools.answer(reply), self._loop).result()

    async def _requested(self) -> JsonObject:
        return self.tools.request()


@contextmanager
def open(**options: Unpack[OpenOptions]) -> Generator[SyncRuntime]:  # noqa: A001 -- `sync.open`, as `Runtime.open`
    """Open a runtime on an event loop of its own; leaving the block closes it and cancels running calls.

    Raises:
        ConfigError: the tools, the rules, the hooks or the store are invalid.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="agenttool-sync", daemon=True)
    thread.start()

    async def start() -> Runtime:
        return Runtime.open(**options)

    async def stop(runtime: Runtime) -> None:
        async with runtime:
            pass
        # A caller that still waits in another thread gets a cancellation. Otherwise it would wait for a closed loop.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    try:
        runtime = asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            yield SyncRuntime(runtime, loop)
        finally:
            asyncio.run_coroutine_threadsafe(stop(runtime), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
