"""A hook that is a Python function."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from agenttool.adapters.python.threads import LeftBehind, in_thread
from agenttool.ports.hooks import HookQuestion


@dataclass(frozen=True, slots=True)
class FunctionHook:
    """Runs a function as a hook: `Hook(name="guard", event=…, runner=FunctionHook(guard))`.

    A coroutine function runs in the task of the call, and must not block. A plain function runs in a thread. The call
    stops waiting for the thread at the deadline of the hook, but the thread runs to its end.
    """

    function: Callable[[HookQuestion], object]
    left_behind: LeftBehind = field(default_factory=LeftBehind)

    async def run(self, question: HookQuestion) -> object:
        """Run the function; an exception is the failure of the hook."""
        if inspect.iscoroutinefunction(self.function):
            return await cast("Awaitable[object]", self.function(question))
        return await in_thread(partial(self.function, question), self.left_behind)
