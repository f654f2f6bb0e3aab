"""The options of `@tool`; an option that is left out has its fail-closed default."""

import re
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import TypedDict, cast, get_type_hints

from agenttool.config.table import suggestion
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
        if name not in _RULES:
            raise ConfigError(f"a tool has no option {name!r}, got it for {function}(); {suggestion(name, _RULES)}")
        is_valid, wanted = _RULES[name]
        if not is_valid(value):
            raise ConfigError(f"{name} of {function}() must be {wanted}, got {value!r}; correct it")


_Rule = tuple[Callable[[object], bool], str]
"""Whether a value is valid, and what a value must be."""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _instance_of(kind: type, wanted: str) -> _Rule:
    return lambda value: isinstance(value, kind), wanted


def _word_of(words: type[ClosedEnum] | type[OpenEnum]) -> _Rule:
    return lambda value: value in list(words), f"one of {', '.join(words)}"


def _list_of(is_valid: Callable[[object], bool], wanted: str) -> _Rule:
    return lambda value: isinstance(value, list | tuple) and all(map(is_valid, cast("list[object]", value))), wanted


_RULE_OF_TYPE: dict[object, _Rule] = {
    str: (_is_text, "text"),
    bool: _instance_of(bool, "true or false"),
    int: (_is_count, "a whole number, 0 or more"),
    float: (_is_seconds, "a number of seconds above 0"),
    RateLimit: _instance_of(RateLimit, "a RateLimit"),
    Sequence[str]: _list_of(_is_text, "a list of texts"),
    Sequence[dict[str, object]]: _list_of(lambda value: isinstance(value, dict), "a list of objects"),
    **dict.fromkeys((Check, Normalize, Locks), (callable, "a function")),
    **{words: _word_of(words) for words in (ToolKind, Lifecycle, InterruptBehavior, RiskLevel)},
    Sequence[AccessKind]: _list_of(_word_of(AccessKind)[0], f"a list of words out of {', '.join(AccessKind)}"),
    Sequence[WriteEffect]: _list_of(_word_of(WriteEffect)[0], f"a list of words out of {', '.join(WriteEffect)}"),
}
_RULES = {name: _RULE_OF_TYPE[kind] for name, kind in get_type_hints(ToolOptions).items()}

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
            advice = suggestion(name, sorted(known) or ["none"])
            raise ConfigError(f"{function}() has no field {name!r} that could be sensitive; {advice}")


def _takes_any_name(schema: JsonObject) -> bool:
    """Return whether a value may have members that the schema does not list."""
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        return schema.get("additionalProperties") is not False
    is_unconstrained = not ({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & schema.keys())
    return is_unconstrained and "properties" not in schema
