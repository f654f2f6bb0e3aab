"""Rules, the tests of arguments in them, and the book that holds all rules in force."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Annotated, cast

from agenttool.codec import digest_of_bytes, to_json
from agenttool.config.table import Meta, Switch, Text, key
from agenttool.errors import ConfigError
from agenttool.policy.commands import CommandPattern, CommandPatterns
from agenttool.policy.fields import MatchingField, values_at
from agenttool.policy.paths import PathPattern, PathPatterns
from agenttool.policy.urls import UrlPattern
from agenttool.policy.wildcards import fits
from agenttool.records import UNSET, Behavior, Digest, Json, JsonObject, Part, RuleSource, Timestamp, ToolKind


def has_passed(moment: Timestamp, now: Timestamp) -> bool:
    """Return whether a time has passed; a time that equals `now` has."""
    if len(moment) == len(now) == _OWN_LENGTH and moment[10] + moment[-1] == now[10] + now[-1] == "TZ":
        return moment <= now
    return parse_timestamp(moment) <= parse_timestamp(now)


_OWN_LENGTH = len("2026-01-01T00:00:00.000000Z")
"""The length of our own timestamps, which are ordered as text."""


def parse_timestamp(text: str) -> datetime:
    """Parse a timestamp; one without an offset is in UTC.

    Raises:
        ValueError: it is not RFC 3339.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_Number = Annotated[float, Meta(description="a number; write it without quotes")]


class ArgumentConditions(Part, frozen=True, kw_only=True):
    """The conditions on one argument; all that are given must hold."""

    equals: Annotated[object, Meta(description="a JSON value; write one")] = UNSET
    one_of: Annotated[list[object], Meta(min_length=1, description="a list; write it in brackets")] | None = None
    glob: Text | None = None
    prefix: Text | None = None
    minimum: _Number | None = key(name="min", default=None)
    maximum: _Number | None = key(name="max", default=None)
    present: Switch | None = None


class ArgumentTest(ArgumentConditions, frozen=True, kw_only=True):
    """The conditions on the argument at a JSON pointer.

    A list is tested by its elements: an allow needs all of them to pass, a deny or an ask only one. A value of the
    wrong type passes no test of an allow and every range of a deny. A deny or an ask compares numbers by value, also if
    one is written as text, as a `Decimal` is.
    """

    pointer: str
    steps: tuple[str, ...]

    def __post_init__(self) -> None:
        """Reject conditions that contradict each other.

        Raises:
            ValueError: no argument can pass.
        """
        what, looks_inside = f"the test of {self.pointer!r} can never pass", self._looks_inside
        if self.equals is not UNSET and self.one_of is not None:
            raise ValueError(f"the test of {self.pointer!r} has both equals and one_of; write one of them")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"{what}: min {self.minimum:g} is above max {self.maximum:g}; exchange them")
        if self.present is False and looks_inside:
            raise ValueError(f"{what}: an absent argument has no value; take out present, or the other conditions")
        for each in self.choices:
            if not self.passes(each, doubt=True):
                raise ValueError(f"{what} for {each!r}, because of its other conditions; take out one of them")

    def covers(self, arguments: Json) -> bool:
        """Return whether the argument surely passes; a missing one passes only `present = false`."""
        values = values_at(arguments, self.steps)
        if self.present is not None and self.present is not bool(values):
            return False
        if not self._looks_inside:
            return True
        return bool(values) and all(self.passes(value, doubt=False) for value in values)

    def hits(self, arguments: Json) -> bool:
        """Return whether the argument may pass, for a deny or an ask."""
        values = values_at(arguments, self.steps)
        if self.present is not None and self.present is not bool(values):
            return False
        return not self._looks_inside or any(self.passes(value, doubt=True) for value in values)

    @property
    def _looks_inside(self) -> bool:
        return bool(self.choices) or any(
            test is not None for test in (self.glob, self.prefix, self.minimum, self.maximum)
        )

    @property
    def choices(self) -> tuple[Json, ...]:
        """The values that `equals` or `one_of` give."""
        return cast("tuple[Json, ...]", (*(self.one_of or ()),) if self.equals is UNSET else (self.equals,))

    def passes(self, value: Json, *, doubt: bool) -> bool:
        """Return whether one value passes; `doubt` is the result for a value of the wrong type."""
        choices = self.choices
        is_choice = any(json_equal(value, choice, by_value=doubt) for choice in choices)
        if isinstance(value, list) and not is_choice:
            together = any if doubt else all
            return bool(value) and together(self.passes(each, doubt=doubt) for each in value)
        return (is_choice or not choices) and self._fits_text(value, doubt) and self._fits_range(value, doubt)

    def _fits_text(self, value: Json, doubt: bool) -> bool:  # noqa: FBT001 -- private, and named where it is decided
        if self.glob is None and self.prefix is None:
            return True
        if not isinstance(value, str):
            return doubt
        return (self.glob is None or fits(self.glob, value)) and value.startswith(self.prefix or "")

    def _fits_range(self, value: Json, doubt: bool) -> bool:  # noqa: FBT001 -- private, and named where it is decided
        if self.minimum is None and self.maximum is None:
            return True
        if not isinstance(value, int | float) or isinstance(value, bool):
            return doubt
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)


def json_equal(left: Json, right: Json, *, by_value: bool = False) -> bool:
    """Compare as JSON does: `true` is not 1, and 1 is 1.0; `by_value` a number also equals a text of the same value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(json_equal(*pair, by_value=by_value) for pair in pairs)
    if isinstance(left, dict) and isinstance(right, dict):
        is_equal = (json_equal(value, right.get(name), by_value=by_value) for name, value in left.items())
        return left.keys() == right.keys() and all(is_equal)
    if by_value and {type(left), type(right)} in ({str, int}, {str, float}):
        return _number(left) == _number(right) is not None
    return left == right


def _number(value: Json) -> Decimal | None:
    """Return a number that may be written as text; none if it is not a finite number."""
    with suppress(InvalidOperation):
        number = Decimal(str(value).strip())
        return number if number.is_finite() else None
    return None


AUTHORITY = (
    RuleSource.POLICY_SETTINGS,
    RuleSource.FLAG_SETTINGS,
    RuleSource.CLI_ARG,
    RuleSource.COMMAND,
    RuleSource.LOCAL_SETTINGS,
    RuleSource.PROJECT_SETTINGS,
    RuleSource.USER_SETTINGS,
    RuleSource.SESSION,
)
"""Which source is named first among equal rules. It never makes a rule stronger: the strictest wins."""


CONDITIONS = tuple(
    "tool namespace kind operation actor role team tenant resource path command url".split()  # noqa: SIM905 -- a list of words reads best as words
)
"""The keys of a `[[rules]]` table that list patterns; the field of a rule has the plural of the key."""

_PATTERNS = {"paths": PathPattern, "commands": CommandPattern, "urls": UrlPattern, "arguments": ArgumentTest}
"""The classes of patterns that are not texts, by the field of a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: its behavior, its conditions, its source and its reason.

    All conditions must hold; several patterns of one condition are alternatives. A condition that is not given holds of
    every call.

    Attributes:
        ref: unique in the book; the source and the name, or the file and line where it has no name.
        hook: makes an allow rule say something else: that the allow of this hook stands against rules that are not
            `policy_settings`. Only `policy_settings` may say so.
        tenants: the tenants of a server whose runtimes have this rule at all; without any, all have it.
        settles: the ask rules that a person has answered for good; this allow stands against those, and no others.
        declaration_digest: the tool as it was when the rule was made; the rule no longer covers it once it has changed.
        is_optional: whether the rule is valid although no tool has the names that it gives.
    """

    ref: str
    behavior: Behavior
    source: RuleSource
    file: str | None = None
    line: int | None = None
    tools: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    kinds: tuple[ToolKind, ...] = ()
    operations: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    paths: tuple[PathPattern, ...] = ()
    commands: tuple[CommandPattern, ...] = ()
    urls: tuple[UrlPattern, ...] = ()
    resources: tuple[str, ...] = ()
    arguments: tuple[ArgumentTest, ...] = ()
    hook: str | None = None
    settles: tuple[str, ...] = ()
    because: str | None = None
    expires_at: Timestamp | None = None
    declaration_digest: Digest | None = None
    is_optional: bool = False
    command_patterns: CommandPatterns = field(init=False, repr=False, compare=False)
    path_patterns: PathPatterns = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Reject a rule that would match nothing because of a wrong type.

        Raises:
            ConfigError: its behavior is unknown, or a condition is not a tuple of patterns.
        """
        if self.behavior not in (Behavior.ALLOW, Behavior.ASK, Behavior.DENY):
            raise ConfigError(f"rule {self.ref!r} must say allow, ask or deny, got {self.behavior!r}; use one of them")
        for name in (*(f"{each}s" for each in CONDITIONS), "arguments", "settles"):
            patterns, kind = cast("tuple[object, ...]", getattr(self, name)), _PATTERNS.get(name, str)
            if type(patterns) is not tuple or not all(isinstance(each, kind) for each in patterns):
                raise ConfigError(
                    f"rule {self.ref!r}: {name} must be a tuple of {kind.__name__}, got {patterns!r}; "
                    "write it so, or read the rule with `read_rule`"
                )

        object.__setattr__(self, "command_patterns", CommandPatterns(self.commands))
        object.__setattr__(self, "path_patterns", PathPatterns(self.paths))

    @property
    def fields(self) -> tuple[MatchingField, ...]:
        """The kinds of arguments that it has patterns for."""
        patterns = (self.paths, self.commands, self.urls, self.resources)
        return tuple(field for field, given in zip(MatchingField, patterns, strict=True) if given)

    @property
    def reads_input(self) -> bool:
        """Return whether the arguments of a call matter to this rule."""
        return bool(self.fields or self.arguments)

    @property
    def covers_all_calls(self) -> bool:
        """Return whether it applies to every call of the tools that it names: of any caller, at any time."""
        return self.expires_at is None and not self.reads_input and not self.names_callers

    @property
    def names_callers(self) -> bool:
        """Return whether the caller matters to this rule."""
        return bool(self.actors or self.roles or self.teams)

    @property
    def names_tools(self) -> bool:
        """Return whether it names tools rather than applying to all."""
        return bool(self.tools or self.namespaces or self.kinds or self.operations)

    @property
    def is_allow(self) -> bool:
        """Whether it allows calls."""
        return self.behavior == Behavior.ALLOW

    @property
    def is_policy(self) -> bool:
        """Whether it is a rule of the policy layer, which no other source can override."""
        return self.source == RuleSource.POLICY_SETTINGS

    @property
    def is_user_allow(self) -> bool:
        """Whether it is an allow of the user's own settings, which the settings of a project must not extend."""
        return self.source == RuleSource.USER_SETTINGS and self.is_allow

    @property
    def place(self) -> str:
        """The file and line, or else the source, for the start of a message."""
        where = self.file or str(self.source)
        return where if self.line is None else f"{where}:{self.line}"

    @property
    def conditions(self) -> JsonObject:
        """The conditions that are given, by the keys of a `[[rules]]` table."""
        given = {name: cast("tuple[object, ...]", getattr(self, f"{name}s")) for name in CONDITIONS}
        found: JsonObject = {
            name: [str(getattr(each, "text", each)) for each in patterns]
            for name, patterns in given.items()
            if patterns
        }
        if self.arguments:
            found["argument"] = {
                test.pointer: {name: each for name, each in to_json(test).items() if name not in ("pointer", "steps")}
                for test in self.arguments
            }
        return found

    @property
    def origin(self) -> str:
        """Its source, file and line, for messages."""
        return str(self.source) if self.file is None else f"{self.source}, {self.place}"

    @property
    def authority(self) -> tuple[int, str]:
        """The order in which equal rules are named; an unlisted source comes last."""
        rank = AUTHORITY.index(self.source) if self.source in AUTHORITY else len(AUTHORITY)
        return rank, self.ref


class RuleBook:
    """All rules in force, in the order of their authority. Immutable: adding or removing a rule makes another book."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        """Store the rules, in any order.

        Raises:
            ConfigError: two of them have one name.
        """
        self._rules: dict[str, Rule] = {}
        for rule in sorted(rules, key=lambda each: each.authority):
            earlier = self._rules.get(rule.ref)
            if earlier is not None:
                raise ConfigError(
                    f"two rules are called {rule.ref!r}, at {earlier.origin} and {rule.origin}; rename one of them"
                )
            self._rules[rule.ref] = rule

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __len__(self) -> int:
        return len(self._rules)

    def get(self, ref: str) -> Rule | None:
        """Find a rule by its ref."""
        return self._rules.get(ref)

    @cached_property
    def version(self) -> Digest:
        """A digest of all rules, equal for equal books, for caches that depend on them."""
        return digest_of_bytes("\n".join(map(repr, self)).encode("utf-8", "surrogateescape"))

    def with_rule(self, *rules: Rule) -> "RuleBook":
        """Return a book with these rules as well; one of the same ref is replaced."""
        return RuleBook({**self._rules, **{rule.ref: rule for rule in rules}}.values())

    def without(self, *refs: str) -> "RuleBook":
        """Return a book without the rules of these refs."""
        return RuleBook(rule for rule in self if rule.ref not in refs)
