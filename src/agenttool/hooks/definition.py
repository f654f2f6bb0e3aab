"""Hook definitions: from Python and from the `[[hooks]]` tables of a settings file.

```toml
[[hooks]]
name = "guard"
event = "pre_tool_use"
command = ["python3", "guard.py"]
tool = ["files.*", "web.fetch"]
```
"""

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Literal, cast

from agenttool.config.table import Meta, Switch, Text, Texts, key, read_table
from agenttool.errors import ConfigError
from agenttool.ports.hooks import HookRunner
from agenttool.records import HookEvent, JsonObject, Part, ToolDeclaration

DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hook:
    """A registered hook: its event, its tools and its timeout.

    Attributes:
        tools: patterns of qualified names, bare names or ids.
        is_trusted: whether it sees sensitive fields; other hooks see `[redacted]`, and may return that marker.
    """

    name: str
    event: HookEvent
    runner: HookRunner
    tools: tuple[str, ...] = ("*",)
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_trusted: bool = False

    def __post_init__(self) -> None:
        """Reject a hook that would never run because of a wrong type.

        Raises:
            ConfigError: the event, the tools or the timeout are invalid.
        """
        named = f"hook {self.name!r}"
        if self.event not in list(HookEvent):
            raise ConfigError(f"{named} has an unknown event, got {self.event!r}; use one of {', '.join(HookEvent)}")
        tools, timeout_s = cast("object", self.tools), cast("object", self.timeout_s)
        is_listed = isinstance(tools, Collection) and not isinstance(tools, str)
        if not is_listed or not all(isinstance(each, str) for each in cast("Collection[object]", tools)):
            raise ConfigError(f"{named} needs a list of patterns, got {tools!r}; write ['files.*']")
        if not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise ConfigError(f"{named} needs a timeout above 0 s, got {timeout_s!r}; leave it out for the default")

    def applies_to(self, declaration: ToolDeclaration) -> bool:
        """Return whether a pattern matches the qualified name, the bare name or the tool's id."""
        names = (f"{declaration.namespace}.{declaration.name}", declaration.name, declaration.tool_id)
        return any(fnmatchcase(name, pattern) for pattern in self.tools for name in names)


def hooks_of(hooks: Iterable[Hook], declaration: ToolDeclaration) -> dict[HookEvent, tuple[Hook, ...]]:
    """Return the hooks that apply to a tool by event, in the order of registration; events without hooks are absent."""
    found: dict[HookEvent, tuple[Hook, ...]] = {}
    for hook in hooks:
        if hook.applies_to(declaration):
            found[hook.event] = (*found.get(hook.event, ()), hook)
    return found


_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})

_Word = Annotated[str, Meta(min_length=1, pattern=r"\A[^\0]+\Z")]
_Events = Annotated[
    tuple[HookEvent, ...], Meta(min_length=1, description=f"one or more of {', '.join(HookEvent)}; write one of them")
]
_Command = Annotated[
    tuple[_Word, ...], Meta(min_length=1, description='a text or a list of texts; write command = ["…"]')
]
_Seconds = Annotated[float, Meta(gt=0, le=1e9, description="seconds above zero; write a number, without quotes")]
_Variables = Annotated[
    dict[Annotated[str, Meta(pattern=r"\A[^=\0]+\Z")], Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]],
    Meta(description='a table of texts; write env = { NAME = "value" }'),
]
_OnFailure = Annotated[
    Literal["fail"], Meta(description='"fail"; if a failure does not matter, let the command end with exit code 0')
]


class HookSetting(Part, frozen=True, kw_only=True):
    """The table `[[hooks]]`: a program that checks, changes or observes calls.

    Attributes:
        name: the name of the hook, which records and rules refer to.
        event: when it runs.
        command: the program and its arguments; no shell reads them. It gets the event as JSON on the standard input.
        tool: the tools that it runs for; `*` matches any characters. Default: all.
        timeout_s: how many seconds it may take.
        trusted: whether it sees sensitive fields. Default: false; it sees `[redacted]`.
        env: environment variables for the program.
        pass_env: variables of this process that the program gets, too.
        on_failure: what happens to the call if the program fails.
    """

    name: Text
    events: _Events = key(name="event")
    command: _Command
    tools: Texts = key(name="tool", default=("*",))
    timeout_s: _Seconds = DEFAULT_TIMEOUT_S
    is_trusted: Switch = key(name="trusted", default=False)
    env: _Variables = key(default_factory=dict)
    pass_env: Texts = ()
    on_failure: _OnFailure = "fail"


def read_hook(members: JsonObject) -> HookSetting:
    """Read one table; a command that is one text is split at its blanks.

    Raises:
        ValueError: the table is invalid; the message has the cause and the remedy, but not the place.
    """
    command = members.get("command")
    if not isinstance(command, str):
        return read_table(members, HookSetting, "a hook")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"command cannot be split into words: {error}; write it as a list") from error
    shell = next((word for word in words if word in _SHELL_WORDS), None)
    if shell is not None:
        advice = 'write command = ["sh", "-c", "…"] if you want one'
        raise ValueError(f"no shell reads a command, got {shell!r}; {advice}")
    return read_table({**members, "command": [*words]}, HookSetting, "a hook")
