"""Joins everything: settings and tools in, a runtime out. The only file that knows every room."""

import os.path
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

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
from agenttool.ports.tool import DeclaredTool
from agenttool.runtime import Runtime as _Runtime
from agenttool.runtime import World
from agenttool.stores.memory import MemoryLog, MemoryPayloads
from agenttool.world import SystemClock, UniqueIds

Tool = DeclaredTool | FunctionTool[..., object] | Callable[..., object]


class Runtime(_Runtime):
    """Governed tool calls: `async with Runtime.open(tools=[...]) as rt`."""

    @classmethod
    def open(
        cls,
        *,
        store: str = "memory:",
        tools: Iterable[Tool] = (),
        rules: str | Path | Iterable[Rule] = (),
        hooks: Iterable[Hook] = (),
        mode: str | None = None,
        interactive: bool | None = None,
    ) -> Self:
        """Make a runtime for the running event loop.

        Args:
            store: where the journal is kept; only `memory:` so far.
            tools: decorated functions, plain functions, or tools declared by records.
            rules: a settings file with `[[rules]]`, or rules.
            hooks: in the order they are asked.
            mode: how much goes without asking, such as `default` or `read_only`.
            interactive: whether anybody can be asked; if not, a question is a deny.

        Raises:
            ConfigError: something about the tools, the rules or the store is wrong.
        """
        if store not in ("memory:", "memory"):
            raise ConfigError(f"no store answers to {store!r}; use 'memory:'")
        config = read_config(rules) if isinstance(rules, str | Path) else Config()
        book = RuleBook(_rules_of(config) if isinstance(rules, str | Path) else rules)
        wanted = PermissionMode(mode or config.mode or PermissionMode.DEFAULT)
        if not wanted.is_listed:
            raise ConfigError(f"no permission mode is called {str(wanted)!r}; use one of {', '.join(PermissionMode)}")
        asked = config.interactive if interactive is None else interactive
        policy = Policy(
            book=book,
            mode=wanted,
            interactive=True if asked is None else asked,
            workspace=_workspace(config),
        )
        world = World(clock=SystemClock(), ids=UniqueIds(), log=MemoryLog(), payloads=MemoryPayloads())
        return cls(world, tools=[declared(each) for each in tools], hooks=hooks, policy=policy)


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


def _rules_of(config: Config) -> tuple[Rule, ...]:
    return read_rules(
        WrittenRule(members=each.members, source=each.source, file=each.file, line=each.line) for each in config.rules
    )


def _workspace(config: Config) -> Workspace:
    roots = config.workspace or (".",)
    return Workspace(
        roots=tuple(os.path.realpath(root) for root in roots), home=str(Path.home()), resolve=os.path.realpath
    )
