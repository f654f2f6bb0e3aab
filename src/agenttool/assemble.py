"""Joins everything: settings and tools in, a runtime out. The only file that knows every room."""

import os.path
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import random
from typing import Self, TypeVar, cast

from agenttool.adapters.python.declare import FunctionTool, declare_function
from agenttool.config import Config, read_config
from agenttool.errors import ConfigError
from agenttool.hooks.match import Hook
from agenttool.policy.decide import Policy
from agenttool.policy.mode import PermissionMode
from agenttool.policy.paths import Workspace
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.sources import read_rules
from agenttool.policy.written import WrittenRule
from agenttool.ports.limits import RateLimit
from agenttool.ports.tool import DeclaredTool
from agenttool.runtime import Runtime as _Runtime
from agenttool.runtime import World
from agenttool.stores.memory import MemoryLog, MemoryPayloads
from agenttool.world import SystemClock, UniqueIds

_T = TypeVar("_T")

Tool = DeclaredTool | FunctionTool[..., object] | Callable[..., object]


class Runtime(_Runtime):
    """Governed tool calls: `async with Runtime.open(tools=[...]) as rt`."""

    @classmethod
    def open(  # noqa: PLR0913 -- the settings of a runtime, each with a default
        cls,
        *,
        store: str = "memory:",
        tools: Iterable[Tool] = (),
        rules: str | Path | Iterable[Rule] = (),
        hooks: Iterable[Hook] = (),
        rate_limits: Mapping[str, RateLimit] | None = None,
        mode: str | None = None,
        interactive: bool | None = None,
    ) -> Self:
        """Make a runtime for the running event loop.

        Args:
            store: where the journal is kept; only `memory:` so far.
            tools: decorated functions, plain functions, or tools declared by records.
            rules: a settings file with `[[rules]]`, or rules.
            hooks: in the order they are asked.
            rate_limits: how often the tools of a namespace may be called altogether.
            mode: how much goes without asking, such as `default` or `read_only`.
            interactive: whether anybody can be asked; if not, a question is a deny.

        Raises:
            ConfigError: something about the tools, the rules or the store is wrong.
        """
        if store not in ("memory:", "memory"):
            raise ConfigError(f"no store answers to {store!r}; use 'memory:'")
        config = read_config(rules) if isinstance(rules, str | Path) else Config()
        book = RuleBook(_rules_of(config) if isinstance(rules, str | Path) else _all_of("rules", rules, Rule))
        wanted = config.mode or PermissionMode.DEFAULT if mode is None else mode
        if wanted not in list(PermissionMode):
            raise ConfigError(f"no permission mode is called {wanted!r}; use one of {', '.join(PermissionMode)}")
        if interactive not in (True, False, None):
            raise ConfigError(f"interactive must be true, false or left out, got {interactive!r}; use one of them")
        asked = config.interactive if interactive is None else interactive
        policy = Policy(
            book=book,
            mode=PermissionMode(wanted),
            interactive=True if asked is None else asked,
            workspace=_workspace(config),
        )
        world = World(clock=SystemClock(), ids=UniqueIds(), log=MemoryLog(), payloads=MemoryPayloads(), random=random)
        chosen = [declared(each) for each in _listed("tools", tools)]
        return cls(world, tools=chosen, hooks=_all_of("hooks", hooks, Hook), policy=policy, rate_limits=rate_limits)


def declared(tool: Tool) -> DeclaredTool:
    """Give the records and the code of whatever stands for a tool.

    Raises:
        ConfigError: it is no tool.
    """
    if isinstance(tool, DeclaredTool):
        return tool
    if isinstance(tool, FunctionTool):
        return tool.declared
    if callable(tool):
        return declare_function(tool, {})
    raise ConfigError(f"not a tool: {tool!r}; decorate a function with @tool")


def _listed(name: str, given: Iterable[_T]) -> list[_T]:
    """Take a list from somebody who may have forgotten the brackets.

    Raises:
        ConfigError: it is no list.
    """
    if not isinstance(cast("object", given), Iterable):
        raise ConfigError(f"{name} must be a list, got a {type(given).__name__}; put it in brackets")
    return list(given)


def _all_of(name: str, given: Iterable[_T], kind: type[_T]) -> list[_T]:
    """Take a list of one kind of thing.

    Raises:
        ConfigError: it is no list, or holds something else.
    """
    found = _listed(name, given)
    for each in found:
        if not isinstance(cast("object", each), kind):
            raise ConfigError(f"{name} must hold {kind.__name__}s only, got a {type(each).__name__}; make one of it")
    return found


def _rules_of(config: Config) -> tuple[Rule, ...]:
    return read_rules(
        WrittenRule(members=each.members, source=each.source, file=each.file, line=each.line) for each in config.rules
    )


def _workspace(config: Config) -> Workspace:
    roots = config.workspace or (".",)
    return Workspace(
        roots=tuple(os.path.realpath(root) for root in roots), home=str(Path.home()), resolve=os.path.realpath
    )
