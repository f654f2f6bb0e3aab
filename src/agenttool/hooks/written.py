"""A `[[hooks]]` table of a settings file, read: a hook that is an external command.

```toml
[[hooks]]
name = "guard"                      # how records, faults and rules call it
event = "pre_tool_use"              # one or a list of the six places where a hook may stand
command = ["python3", "guard.py"]   # or one text, split at its blanks; no shell reads it
tool = ["files.*", "web.fetch"]     # namespace.name, bare name or id; `*` any run, `?` one character; all if not given
timeout_s = 5                       # 10 if not given
trusted = true                      # sees sensitive fields as they are; false if not given
env = { MODE = "strict" }           # what its environment holds besides PATH, the locale and the time zone
pass_env = ["HOME"]                 # what it gets of the environment of this process
on_failure = "fail"                 # the only way: a hook that fails fails its call
```
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NoReturn

from agenttool.hooks.match import DEFAULT_TIMEOUT_S
from agenttool.records import HookEvent, Json, JsonObject

MEMBERS = ("name", "event", "command", "tool", "timeout_s", "trusted", "env", "pass_env", "on_failure")
"""Everything that may be written in a hook."""

_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenHook:
    """A hook as a settings file has it."""

    name: str
    events: tuple[HookEvent, ...]
    command: tuple[str, ...]
    tools: tuple[str, ...] = ("*",)
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_trusted: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_env: tuple[str, ...] = ()


def read_hook(members: JsonObject) -> WrittenHook:
    """Read one table.

    Raises:
        ValueError: it is wrong; the message says what and what to do, and not where.
    """
    for name in members:
        if name not in MEMBERS:
            close = get_close_matches(name, MEMBERS, 1)
            advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(MEMBERS)}"
            raise ValueError(f"a hook has no {name!r}; {advice}")
    if members.get("on_failure", "fail") != "fail":
        advice = "if it does not matter that the command fails, let the command itself end with exit code 0"
        _refuse('on_failure must be "fail"', members["on_failure"], advice)
    return WrittenHook(
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
        _refuse("no hook stands there", text, f"use one of {', '.join(HookEvent)}")
    return HookEvent(text)


def _command(value: Json) -> tuple[str, ...]:
    """Read the words of a command; what only a shell would understand is refused rather than passed on as words."""
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
