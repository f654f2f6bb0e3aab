"""Hook definitions: from Python and from the `[[hooks]]` tables of a settings file.

```toml
[[hooks]]
name = "guard"                      # used in records, faults and rules
event = "pre_tool_use"              # one of the six events, or a list
command = ["python3", "guard.py"]   # or one text, split at its blanks; runs without a shell
tool = ["files.*", "web.fetch"]     # namespace.name, name or id, with `*` and `?`; default: every tool
timeout_s = 5                       # default: 10
trusted = true                      # sees sensitive fields; default: false
env = { MODE = "strict" }           # added to PATH, the locale and the time zone
pass_env = ["HOME"]                 # copied from the environment of this process
on_failure = "fail"                 # the only value: a hook that fails ends its call
```
"""

import math
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NoReturn, cast

from agenttool.errors import ConfigError
from agenttool.ports.hooks import HookRunner
from agenttool.records import HookEvent, Json, JsonObject, ToolDeclaration

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
        if isinstance(self.tools, str):
            raise ConfigError(f"{named} needs a list of patterns, got the text {self.tools!r}; write [{self.tools!r}]")
        listed = cast("object", self.tools)
        if not isinstance(listed, Collection) or not all(
            isinstance(each, str) for each in cast("list[object]", listed)
        ):
            raise ConfigError(f"{named} needs a list of patterns, got {listed!r}; use texts such as 'files.*'")
        if not isinstance(cast("object", self.timeout_s), int | float) or not self.timeout_s > 0:
            raise ConfigError(
                f"{named} needs a timeout above 0 s, got {self.timeout_s!r}; leave it out for the default"
            )

    def applies_to(self, declaration: ToolDeclaration) -> bool:
        """Return whether a pattern matches the qualified name, the bare name or the tool's id."""
        names = (f"{declaration.namespace}.{declaration.name}", declaration.name, declaration.tool_id)
        return any(fnmatchcase(name, pattern) for pattern in self.tools for name in names)

    def matcher(self) -> JsonObject:
        """Return the tool patterns for the record."""
        return {"tools": list(self.tools)}


@dataclass(frozen=True, slots=True)
class HooksOfTool:
    """The hooks of one tool by event, each list in the order of registration; usually all empty."""

    by_event: dict[HookEvent, tuple[Hook, ...]] = field(default_factory=dict[HookEvent, tuple[Hook, ...]])

    def at(self, event: HookEvent) -> tuple[Hook, ...]:
        """Return the hooks of one event."""
        return self.by_event.get(event, ())


def hooks_of(hooks: Iterable[Hook], declaration: ToolDeclaration) -> HooksOfTool:
    """Return the hooks that apply to a tool, by event."""
    chosen = [hook for hook in hooks if hook.applies_to(declaration)]
    events = {hook.event for hook in chosen}
    return HooksOfTool({event: tuple(hook for hook in chosen if hook.event == event) for event in events})


MEMBERS = ("name", "event", "command", "tool", "timeout_s", "trusted", "env", "pass_env", "on_failure")
"""The valid keys of a `[[hooks]]` table."""

_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSetting:
    """One `[[hooks]]` table of a settings file."""

    name: str
    events: tuple[HookEvent, ...]
    command: tuple[str, ...]
    tools: tuple[str, ...] = ("*",)
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_trusted: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_env: tuple[str, ...] = ()


def read_hook(members: JsonObject) -> HookSetting:
    """Read one table.

    Raises:
        ValueError: the table is invalid; the message has the cause and the remedy, but not the place.
    """
    for name in members:
        if name not in MEMBERS:
            close = get_close_matches(name, MEMBERS, 1)
            advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(MEMBERS)}"
            raise ValueError(f"a hook has no {name!r}; {advice}")
    if members.get("on_failure", "fail") != "fail":
        advice = "if it does not matter that the command fails, let the command itself end with exit code 0"
        _refuse('on_failure must be "fail"', members["on_failure"], advice)
    return HookSetting(
        name=_name(members.get("name")),
        events=tuple(dict.fromkeys(_event(each) for each in _texts("event", members.get("event")))),
        command=_command(members.get("command")),
        tools=_texts("tool", members.get("tool", "*")),
        timeout_s=_seconds(members.get("timeout_s", DEFAULT_TIMEOUT_S)),
        is_trusted=_truth("trusted", members.get("trusted", False)),
        env=_variables(members.get("env", {})),
        pass_env=_texts("pass_env", members["pass_env"]) if "pass_env" in members else (),
    )


def _refuse(what: str, value: object, advice: str) -> NoReturn:
    raise ValueError(f"{what}, got {value!r}; {advice}" if value is not None else f"{what}; {advice}")


def _name(value: Json) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse("a hook needs a name", value, 'write name = "…"')
    return value


def _texts(name: str, value: Json) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    texts = tuple(each for each in listed if isinstance(each, str) and each)
    if not texts or len(texts) < len(listed):
        _refuse(f"{name} must be a text or a list of texts", value, f'write {name} = "…"')
    return texts


def _event(text: str) -> HookEvent:
    if text not in list(HookEvent):
        _refuse("event is unknown", text, f"use one of {', '.join(HookEvent)}")
    return HookEvent(text)


def _command(value: Json) -> tuple[str, ...]:
    """Return the words of a command; shell syntax is rejected, because no shell runs it."""
    words = _texts("command", value)
    if isinstance(value, str):
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"command cannot be split into words: {error}; write it as a list") from error
        shell = next((word for word in words if word in _SHELL_WORDS), None)
        if shell is not None or not words:
            _refuse("no shell reads a command", shell, 'write command = ["sh", "-c", "…"] if you want one')
    if any("\0" in word for word in words):
        _refuse("no word of a command can hold a null character", value, "take it out")
    return words


def _seconds(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        _refuse("timeout_s must be seconds above zero", value, "write a number, without quotes")
    return value


def _truth(name: str, value: Json) -> bool:
    if not isinstance(value, bool):
        _refuse(f"{name} must be true or false", value, "write one of them")
    return value


def _variables(value: Json) -> dict[str, str]:
    variables = value if isinstance(value, dict) else {}
    texts = {name: text for name, text in variables.items() if isinstance(text, str)}
    odd = [name for name, text in texts.items() if not name or "=" in name or "\0" in name + text]
    if not isinstance(value, dict) or len(texts) < len(variables) or odd:
        raise ValueError('env must map names to texts; write env = { NAME = "value" }')
    return texts
