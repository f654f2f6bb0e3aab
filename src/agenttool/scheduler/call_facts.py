"""The scheduling facts of one call for its input: concurrency-safe, read-only, exclusive, and its resource locks.

Facts that do not depend on the input are computed once, when a tool is declared.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, cast

from agenttool.records import (
    CALL_FACTS,
    UNREADABLE_FACT,
    UNSET,
    ContextModifierPolicy,
    Json,
    JsonObject,
    Part,
    ResourceLock,
    SchedulingFacts,
    ToolInterface,
    UnsetType,
    complete_interface,
    follow_fact,
    replace,
)

LockRule = Callable[[JsonObject], Iterable[ResourceLock | str]]
"""Returns what a call locks, from its arguments; a bare string is an exclusive lock."""

SHARED_MODES = frozenset({"read", "shared"})
"""The modes that two calls may hold at once; every other word, and none at all, means exclusive."""


Claim = tuple[str, bool]
"""A lock as the limiter uses it: the resource, and whether it is exclusive."""


def claims(locks: Iterable[ResourceLock]) -> tuple[Claim, ...]:
    """Return each locked resource once; it is exclusive if any of its locks is."""
    modes: dict[str, bool] = {}
    for lock in locks:
        if lock.resource is not None:
            modes[lock.resource] = lock.mode not in SHARED_MODES or modes.get(lock.resource, False)
    return tuple(modes.items())


def locks_of(rule: LockRule, call_input: JsonObject) -> tuple[ResourceLock, ...] | None:
    """Return what this call locks; None if the rule fails, and then the call must run alone."""
    try:
        named = [
            ResourceLock(resource=each, mode="exclusive") if isinstance(each, str) else each
            for each in rule(deepcopy(call_input))
        ]
    except Exception:  # noqa: BLE001 -- the locks are unknown then, so the call runs alone
        return None
    is_readable = all(
        isinstance(cast("object", each), ResourceLock) and isinstance(each.resource, str) for each in named
    )
    return tuple(named) if is_readable else None


Classifier = Callable[[Json], bool]
"""Computes a fact from one input. A result other than a bool, or an exception, counts as unknown."""

NO_CLASSIFIERS: Mapping[str, Classifier] = MappingProxyType({})


class CallFacts(Part, frozen=True, kw_only=True):
    """The facts of one call for the limiter and for the record (AT-SCHED-07).

    Attributes:
        record: the seven facts for the invocation; an undeclared `is_destructive` is recorded as false (G-14).
        alone: whether it is exclusive: no other call of its conversation, or on the state that its tool shares, may run
            at the same time.
        classes: which of a policy's `parallel_classes` the call belongs to, undeclared facts read strictly.
        locks: the resources that it locks, each once; none if they are unknown.
        claims_nothing: whether it can run concurrently and locks nothing.
    """

    record: SchedulingFacts
    alone: bool
    classes: frozenset[str]
    locks: tuple[Claim, ...] | None
    claims_nothing: bool = False

    def of_actor(self, actor: str | None) -> "CallFacts":
        """Return the facts of a call whose locks exclude only other calls of the same actor."""
        if actor is None:
            return self
        given = self.record.resource_locks or ()
        locks = tuple(replace(each, resource=f"{each.resource} of {actor}") for each in given)
        return replace(self, record=replace(self.record, resource_locks=locks), locks=claims(locks))


class ToolSafety(NamedTuple):
    """How to compute the facts of a tool's calls: for each fact a value, or the name of its classifier.

    Attributes:
        asked: the classifiers that must be run.
        locks: returns what a call locks; none if that does not depend on the input.
        known: the facts by the values of the four facts of the interface.
        fixed_locks: what every call locks.
        locks_by_actor: whether each actor has fixed locks of its own.
        static: the facts of every call, if they do not depend on the input.
    """

    interface: ToolInterface
    sources: tuple[bool | str, ...]
    asked: Mapping[str, Classifier]
    locks: LockRule | None
    fixed_locks: tuple[ResourceLock, ...]
    locks_by_actor: bool
    known: dict[tuple[bool, ...], CallFacts]
    static: CallFacts | None = None

    def facts_for(self, call_input: JsonObject, actor: str | None = None) -> CallFacts:
        """Return the facts of one call of an actor; call it after the last change of the input."""
        if self.static is not None:
            return self.static
        values = self._values(call_input)
        if values not in self.known:
            self.known[values] = self._build(values)
        if self.locks_by_actor:
            return self.known[values].of_actor(actor)
        return self.known[values] if self.locks is None else self._locking(self.known[values], call_input)

    def _values(self, call_input: JsonObject) -> tuple[bool, ...]:
        """Run each classifier once; a fact without a result fails closed."""
        subject = _subject(self.interface.classifier_input, call_input) if self.asked else UNSET
        answers = {name: None if subject is UNSET else _ask(classify, subject) for name, classify in self.asked.items()}
        values: list[bool] = []
        for fact, source in zip(CALL_FACTS, self.sources, strict=True):
            value = source if isinstance(source, bool) else answers[source]
            values.append(UNREADABLE_FACT[fact] if value is None else value)
        return tuple(values)

    def _locking(self, facts: CallFacts, call_input: JsonObject) -> CallFacts:
        """Add what this call locks; if the rule fails, the call runs alone."""
        locks = None if self.locks is None else locks_of(self.locks, call_input)
        if locks is None:
            record = replace(facts.record, requires_exclusive_context=True)
            return replace(facts, alone=True, locks=None, claims_nothing=False, record=record)
        return replace(
            facts,
            record=replace(facts.record, resource_locks=locks),
            locks=claims(locks),
            claims_nothing=facts.claims_nothing and not locks,
        )

    def _build(self, values: tuple[bool, ...]) -> CallFacts:
        safe, read_only, destructive, open_world = values
        # If `is_destructive` is not declared, only a read-only call is known not to be.
        unsaid = "is_destructive" in (self.interface.inferred_facts or ())
        is_member = {
            "read_only": read_only,
            "write": not read_only,
            "destructive": destructive or (unsaid and not read_only),
            "open_world": open_world,
        }
        record = SchedulingFacts(
            is_concurrency_safe=safe,
            is_read_only=read_only,
            is_destructive=destructive,
            is_open_world=open_world,
            requires_exclusive_context=False,
            interrupt_behavior=self.interface.interrupt_behavior,
            context_modifier_policy=self.interface.context_modifier_policy or ContextModifierPolicy.FORBID,
            resource_locks=self.fixed_locks,
        )
        return CallFacts(
            record=record,
            alone=not safe,
            classes=frozenset(name for name, member in is_member.items() if member),
            locks=claims(self.fixed_locks),
            claims_nothing=safe and not self.fixed_locks,
        )


def safety_of(
    interface: ToolInterface,
    *,
    classifiers: Mapping[str, Classifier] = NO_CLASSIFIERS,
    locks: LockRule | tuple[ResourceLock, ...] | None = None,
    locks_by_actor: bool = False,
) -> ToolSafety:
    """Read a tool's safety facts once, so that each call only looks them up.

    A fact that names a missing classifier, or refers to itself, takes its fail-closed value here (AT-IFACE-10).
    """
    completed = complete_interface(interface)
    sources = tuple(_source_of(completed, fact, classifiers) for fact in CALL_FACTS)
    asked = {source: classifiers[source] for source in sources if isinstance(source, str)}
    rule = locks if callable(locks) else None
    fixed = () if locks is None or callable(locks) else locks
    by_actor = locks_by_actor and bool(fixed)
    safety = ToolSafety(completed, sources, asked, rule, fixed, by_actor, known={})
    is_static = not (asked or by_actor) and rule is None
    return safety._replace(static=safety.facts_for({})) if is_static else safety


def _source_of(interface: ToolInterface, fact: str, classifiers: Mapping[str, Classifier]) -> bool | str:
    """Return the plain value of a fact, or the name of the classifier that computes it."""
    value = follow_fact(partial(getattr, interface), fact)
    if isinstance(value, bool):
        return value
    name = str(value).removeprefix("classifier:")
    return name if name != value and name in classifiers else UNREADABLE_FACT[fact]


def _subject(path: object, call_input: JsonObject) -> Json | UnsetType:
    """Return the input of classifiers: what `classifier_input` names, or the whole input (G-17)."""
    if not isinstance(path, str) or not path:
        return call_input
    steps = path.split(".")
    value: Json = call_input
    for step in steps[1:] if steps[0] == "input" else steps:
        if not isinstance(value, dict) or step not in value:
            return UNSET
        value = value[step]
    return value


def _ask(classify: Classifier, subject: Json) -> bool | None:
    try:
        answer = cast("object", classify(subject))
    except Exception:  # noqa: BLE001 -- the fact is unknown if its classifier fails, and then counts as false
        return None
    return answer if isinstance(answer, bool) else None
