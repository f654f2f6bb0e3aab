"""The options of `@tool`; an option that is left out has its fail-closed default."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import TypedDict, cast

from agenttool.errors import ConfigError
from agenttool.ports.limits import RateLimit
from agenttool.ports.tool import Check, Locks, Normalize
from agenttool.records import (
    AccessKind,
    ClosedEnum,
    InterruptBehavior,
    JsonObject,
    Lifecycle,
    OpenEnum,
    RiskLevel,
    ToolKind,
    WriteEffect,
)
from agenttool.schema.traverse import properties_of, subschemas


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`."""

    name: str
    namespace: str
    title: str
    description: str
    aliases: Sequence[str]
    search_hint: str
    kind: ToolKind
    lifecycle: Lifecycle
    read_only: bool
    concurrency_safe: bool
    destructive: bool
    open_world: bool
    requires_user_interaction: bool
    interrupt_behavior: InterruptBehavior
    timeout_s: float
    idle_timeout_s: float
    idempotent: bool
    rate_limit: RateLimit
    changes_context: bool
    risk: RiskLevel
    access: Sequence[AccessKind]
    write_effects: Sequence[WriteEffect]
    approval_required: bool
    approval_reason: str
    max_inline_chars: int
    artifacts: bool
    background: bool
    should_defer: bool
    always_load: bool
    credentials: Sequence[str]
    gates: Sequence[str]
    model_requirements: Sequence[str]
    sensitive: Sequence[str]
    examples: Sequence[dict[str, object]]
    check: Check
    normalize: Normalize
    coerce: bool
    locks: Locks


def check_options(options: ToolOptions, function: str) -> None:
    """Reject an unknown option, and an option with a value of the wrong type.

    Raises:
        ConfigError: names the option, the invalid value and the remedy.
    """
    for name, value in cast("dict[str, object]", options).items():
        check = _CHECKS.get(name)
        if check is None:
            close = get_close_matches(name, _CHECKS, 1)
            advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(_CHECKS)}"
            raise ConfigError(f"a tool has no option {name!r}, got it for {function}(); {advice}")
        wanted = check(value)
        if wanted is not None:
            raise ConfigError(f"{name} of {function}() must be {wanted}, got {value!r}; correct it")


_Check = Callable[[object], str | None]
"""Returns what a value must be; none if it is valid."""


def _text(value: object) -> str | None:
    fits = isinstance(value, str) and value.encode(errors="replace").decode() == value
    return None if fits else "text"


def _seconds(value: object) -> str | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > 0
    return None if fits else "a number of seconds above 0"


def _count(value: object) -> str | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return None if fits else "a whole number, 0 or more"


def _fitting(fits: Callable[[object], bool], what: str) -> _Check:
    return lambda value: None if fits(value) else what


def _word_of(words: type[ClosedEnum] | type[OpenEnum]) -> _Check:
    return _fitting(lambda value: value in list(words), f"one of {', '.join(words)}")


def _list_of(check: _Check, what: str) -> _Check:
    def fits(value: object) -> bool:
        return isinstance(value, list | tuple) and all(check(item) is None for item in cast("list[object]", value))

    return _fitting(fits, f"a list of {what}")


_flag = _fitting(lambda value: isinstance(value, bool), "true or false")

_CHECKS: dict[str, _Check] = {
    **dict.fromkeys(("name", "namespace", "title", "description", "search_hint", "approval_reason"), _text),
    **dict.fromkeys(("aliases", "sensitive", "credentials", "gates"), _list_of(_text, "texts")),
    "model_requirements": _list_of(_text, "texts"),
    **dict.fromkeys(("read_only", "concurrency_safe", "destructive", "open_world", "requires_user_interaction"), _flag),
    **dict.fromkeys(("idempotent", "approval_required", "should_defer", "always_load"), _flag),
    **dict.fromkeys(("artifacts", "background", "changes_context", "coerce"), _flag),
    **dict.fromkeys(("check", "normalize", "locks"), _fitting(callable, "a function")),
    "kind": _word_of(ToolKind),
    "lifecycle": _word_of(Lifecycle),
    "interrupt_behavior": _word_of(InterruptBehavior),
    "risk": _word_of(RiskLevel),
    "access": _list_of(_word_of(AccessKind), f"words out of {', '.join(AccessKind)}"),
    "write_effects": _list_of(_word_of(WriteEffect), f"words out of {', '.join(WriteEffect)}"),
    "timeout_s": _seconds,
    "idle_timeout_s": _seconds,
    "rate_limit": _fitting(lambda value: isinstance(value, RateLimit), "a RateLimit"),
    "max_inline_chars": _count,
    "examples": _list_of(_fitting(lambda value: isinstance(value, dict), "an object"), "objects"),
}


_WHOLE_INPUT = ("", "$", "*", "/*")


def check_sensitive_fields(named: Iterable[str], schema: JsonObject, function: str) -> None:
    """Reject the name of a sensitive field that matches no field, because it would silently redact nothing.

    A schema that accepts fields of any name accepts any name here.

    Raises:
        ConfigError: names the unknown field and the closest known one.
    """
    known = {name for name, _ in properties_of(schema)}
    is_open = any(map(_takes_any_name, subschemas(schema)))
    for name in named:
        steps = [step for step in re.split(r"[/.\[\]]", name.removeprefix("$")) if step and step != "*"]
        is_known = name in _WHOLE_INPUT or name in known or not steps or (steps[0] in known and steps[0] != name)
        if not is_known and not is_open:
            close = get_close_matches(name, sorted(known), 1)
            advice = f"did you mean {close[0]!r}?" if close else f"use {', '.join(sorted(known)) or 'none'}"
            raise ConfigError(f"{function}() has no field {name!r} that could be sensitive; {advice}")


def _takes_any_name(schema: JsonObject) -> bool:
    """Return whether a value may have members that the schema does not list."""
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        return schema.get("additionalProperties") is not False
    is_unconstrained = not ({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & schema.keys())
    return is_unconstrained and "properties" not in schema
