"""Run a tool function: a coroutine in the task of the call, a blocking function in a thread."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import cast

from agenttool.adapters.python.context import Context, Progress, joined_parts
from agenttool.adapters.python.injection import Injection, Provided, missing_objects
from agenttool.adapters.python.threads import LeftBehind, in_thread
from agenttool.ports.executor import Job
from agenttool.records import Json
from agenttool.schema.signature import Convert, FunctionKind, Signature

YIELDS_PER_PAUSE = 32
"""After so many yields the event loop runs, so that an async generator that never waits can be canceled."""

_Work = Coroutine[object, object, object]


class FunctionExecutor:
    """Runs one function. How to run it is decided once, when it is declared.

    Attributes:
        start: returns the coroutine of one run; for a plain coroutine function it is the function's own.
        module_objects: what the module that was loaded for the function provides; None if the program passed it.
    """

    module_objects: Provided | None = None

    def __init__(
        self,
        function: Callable[..., object],
        signature: Signature,
        injection: Injection | None = None,
    ) -> None:
        """Choose how to run the function; `injection` fills its injected parameters."""
        self.function = function
        self.signature = signature
        self.left_behind = LeftBehind()
        self._injection = injection
        is_filled = signature.context_parameter is not None or bool(signature.injected)
        is_direct = signature.kind is FunctionKind.COROUTINE and not is_filled
        self.start: Callable[[Job], _Work] = _direct(function, signature.arguments) if is_direct else self._start

    def _start(self, job: Job) -> _Work:
        if self.signature.injected:
            return self._run_injected(job)
        return _STARTERS[self.signature.kind](self, self._arguments(job), job)

    def _arguments(self, job: Job) -> dict[str, object]:
        convert = self.signature.arguments
        arguments: dict[str, object] = {**(job.call_input if convert is None else _converted(job, convert))}
        if self.signature.context_parameter is not None:
            arguments[self.signature.context_parameter] = Context(job)
        return arguments

    async def _run_injected(self, job: Job) -> object:
        """Run the function with its injected objects; generators are closed after it, and get its exception."""
        if self._injection is None:
            raise missing_objects(self.signature.injected)
        arguments = self._arguments(job)
        failures: list[BaseException] = []
        async with AsyncExitStack() as stack:
            try:
                arguments |= await self._injection.fill(job, stack)
                return await _STARTERS[self.signature.kind](self, arguments, job)
            except BaseException as error:
                failures.append(error)
                raise
        raise failures[0]  # a generator may not turn a failed call into a successful one

    def loaded_with(self, provide: Provided) -> "FunctionExecutor":
        """Return this executor with what the module that was loaded for it provides."""
        executor = FunctionExecutor(self.function, self.signature)
        executor.module_objects = provide
        return executor

    def providing(self, provide: Provided) -> "FunctionExecutor":
        """Return this executor with what the program, or else its module, provides for its injected parameters.

        Raises:
            ConfigError: a type is not provided, or cannot be made.
        """
        objects = {**(self.module_objects or {}), **provide}
        injection = Injection(f"{self.signature.name}()", self.signature.injected, objects)
        return FunctionExecutor(self.function, self.signature, injection)


def _direct(function: Callable[..., object], convert: Convert | None) -> Callable[[Job], _Work]:
    coroutine_of = cast("Callable[..., _Work]", function)
    if convert is None:
        return lambda job: coroutine_of(**job.call_input)
    return lambda job: coroutine_of(**_converted(job, convert))


def _converted(job: Job, convert: Convert) -> dict[str, object]:
    return job.converted() or convert(job.call_input)


async def _await(executor: FunctionExecutor, arguments: dict[str, object], job: Job) -> object:
    return await cast("_Work", executor.function(**arguments))


async def _call(executor: FunctionExecutor, arguments: dict[str, object], job: Job) -> object:
    return await in_thread(partial(executor.function, **arguments), executor.left_behind, job)


async def _generate(executor: FunctionExecutor, arguments: dict[str, object], job: Job) -> object:
    """Iterate in a worker thread, which stops between two yields after a cancellation."""
    return await in_thread(partial(_exhaust, executor.function, arguments, job), executor.left_behind, job)


def _exhaust(function: Callable[..., object], arguments: dict[str, object], job: Job) -> object:
    produced = cast("Iterator[object]", function(**arguments))
    parts = _YieldedParts(job)
    while not job.cancel.is_requested:
        try:
            parts.take(next(produced))
        except StopIteration as end:
            return joined_parts(parts.taken) if end.value is None else end.value
    cast("object", getattr(produced, "close", lambda: None)())
    return joined_parts(parts.taken)


async def _generate_async(executor: FunctionExecutor, arguments: dict[str, object], job: Job) -> object:
    parts, count = _YieldedParts(job), 0
    produced = cast("AsyncIterator[object]", executor.function(**arguments))
    try:
        async for item in produced:
            parts.take(item)
            count += 1
            if not count % YIELDS_PER_PAUSE:
                await asyncio.sleep(0)
    finally:
        await _close(produced)
    return joined_parts(parts.taken)


async def _close(produced: AsyncIterator[object]) -> None:
    """Close a generator now, in the task of the call, and not at garbage collection.

    An exception of its cleanup does not change how the call ended.
    """
    if isinstance(produced, AsyncGenerator):
        with suppress(Exception):
            await produced.aclose()


class _YieldedParts:
    """Reports each yielded progress and part at once, and keeps the parts."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.taken: list[object] = []

    def take(self, item: object) -> None:
        if isinstance(item, Progress):
            self._job.report(item.message, percent=item.percent, step=item.step)
        else:
            self._job.report(partial=cast("Json", item))
            self.taken.append(item)


_STARTERS: dict[FunctionKind, Callable[[FunctionExecutor, dict[str, object], Job], _Work]] = {
    FunctionKind.FUNCTION: _call,
    FunctionKind.COROUTINE: _await,
    FunctionKind.GENERATOR: _generate,
    FunctionKind.ASYNC_GENERATOR: _generate_async,
}
