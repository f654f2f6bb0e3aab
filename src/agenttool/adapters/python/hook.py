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
    """Asks a function: `Hook(name="guard", event=…, runner=FunctionHook(guard))`.

    A coroutine function runs where the call runs, and must not block. A plain function runs in a thread, so that one
    that blocks can be left behind at its deadline; what it is doing then, it does to the end.
    """

    function: Callable[[HookQuestion], object]
    left_behind: LeftBehind = field(default_factory=LeftBehind)

    async def run(self, question: HookQuestion) -> object:
        """Ask the function; whatever it raises is the hook's failure."""
        if inspect.iscoroutinefunction(self.function):
            return await cast("Awaitable[object]", self.function(question))
        return await in_thread(partial(self.function, question), self.left_behind)
