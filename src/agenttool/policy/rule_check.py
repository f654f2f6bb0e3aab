"""Find rules that can never match, because no tool has the names, arguments or values that they give.

A part of a schema that cannot be followed may describe any value, so that no valid rule is rejected.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from agenttool.errors import RecordError
from agenttool.policy.fields import MAX_DEPTH
from agenttool.policy.matching import missing_fields, names_declaration, names_tool
from agenttool.policy.rules import ArgumentTest, Rule, has_passed
from agenttool.policy.subject import Subject, qualified_name
from agenttool.policy.wildcards import fits
from agenttool.records import Json, JsonObject, RuleSource, Timestamp, ToolDeclaration
from agenttool.records import replace as replace_record
from agenttool.schema.compile import compile_schema
from agenttool.schema.recursion import resolve
from agenttool.schema.traverse import members

CheckedTool = tuple[ToolDeclaration, Callable[[], Subject]]
"""A tool and a function that returns its subject, which is built only for tools that a rule names."""

_FOR_MANY_PROGRAMS = frozenset({RuleSource.USER_SETTINGS, RuleSource.POLICY_SETTINGS})
"""The layers that name tools of several programs, so that a namespace may be absent from one of them."""

_ANY: JsonObject = {}
"""The schema of any value."""
_SHARED = ("$defs", "definitions", "$schema")
_ALSO = frozenset({"allOf", "if", "not", "$dynamicRef", "dependentSchemas", "patternProperties", "prefixItems"})
"""Keywords that this module does not follow."""


class KnownTools(NamedTuple):
    """The tools that the names of rules are compared with.

    Attributes:
        built_in: the names, with and without namespace, of the tools that the runtime declares when they are needed.
        not_ready: the namespaces of sources that are not connected.
        untried: those of them that this process does not try to connect, so that nothing is known of their tools.
    """

    tools: Sequence[CheckedTool]
    built_in: Sequence[str] = ()
    not_ready: frozenset[str] = frozenset()
    untried: frozenset[str] = frozenset()

    def may_be_absent(self, rule: Rule) -> bool:
        """Return whether the tools that a rule names may exist although they are not declared here, or not yet."""
        if rule.source in _FOR_MANY_PROGRAMS:
            known = {declaration.namespace.casefold() for declaration, _ in self.tools}
            return not known.issuperset(_namespaces(rule))
        return _may_name(rule, self.not_ready)


def _namespaces(rule: Rule) -> list[str]:
    """Return the patterns of the namespaces whose tools a rule names; a wildcard if it names none."""
    namespaces = {*rule.namespaces, *(each.rpartition(".")[0] for each in rule.tools)} - {"", "*"}
    return [each.casefold() for each in namespaces or ("*",)]


def _may_name(rule: Rule, namespaces: Iterable[str]) -> bool:
    """Return whether a rule may name a tool of one of these namespaces."""
    return any(fits(each, name.casefold()) for each in _namespaces(rule) for name in namespaces)


class UnmatchedRule(NamedTuple):
    """A rule that matches no tool, and why.

    Attributes:
        is_error: whether the rule is wrong; otherwise it has expired, or the tools that it names may be absent.
    """

    message: str
    is_error: bool


def unmatched_rules(rules: Iterable[Rule], known: KnownTools, now: Callable[[], Timestamp]) -> Iterator[UnmatchedRule]:
    """Return the rules that no call can match; rules of a session are left out.

    Each name and each value of a list is checked. An optional rule may name absent tools. Without any tool there is
    nothing to compare names with. A rule that may name a tool of an untried source is not checked.
    """
    for rule in rules:
        if rule.source == RuleSource.SESSION:
            continue
        at = f"{rule.place}: rule {rule.ref!r}"
        if rule.expires_at is not None and has_passed(rule.expires_at, now()):
            yield UnmatchedRule(
                f"{at} can never match: it expired at {rule.expires_at}; delete it, or write a later time",
                is_error=False,
            )
        elif known.tools and (
            rule.arguments or not {*rule.tools, *rule.namespaces, *rule.kinds, *rule.operations} <= {"*"}
        ):
            singles = [each for each in _single_rules(rule) if not _may_name(each, known.untried)]
            found = [(_problem(each, known), not known.may_be_absent(each)) for each in singles]
            problems = {problem: is_error for problem, is_error in found if problem is not None}
            for why, is_error in problems.items():
                state = "can never match" if is_error else "matches no tool that is known now"
                yield UnmatchedRule(f"{at} {state}: {why}", is_error)


def _single_rules(rule: Rule) -> list[Rule]:
    """Return a rule for each name and each value that a rule lists; the rule itself if it lists one of each."""
    listed = {"tools": rule.tools, "namespaces": rule.namespaces, "operations": rule.operations}
    found = [replace(rule, **{name: (each,)}) for name, given in listed.items() for each in given if len(given) > 1]
    for place, test in enumerate(rule.arguments):
        for each in test.choices if len(test.choices) > 1 else ():
            single = replace_record(test, one_of=[each])
            found.append(replace(rule, arguments=(*rule.arguments[:place], single, *rule.arguments[place + 1 :])))
    return found or [rule]


def _problem(rule: Rule, known: KnownTools) -> str | None:
    """Return why a rule matches no tool, and what to do; none if it matches one."""
    named = [
        subject()
        for declaration, subject in known.tools
        if names_declaration(rule, declaration) and names_tool(rule, subject())
    ]
    if not named:
        if rule.is_optional or any(fits(each, name) for each in rule.tools for name in known.built_in):
            return None
        return f"no tool is called {_shown(rule)}; {_similar_tools(rule, known.tools)}"
    able = [subject for subject in named if not missing_fields(rule, subject)]
    if not able:
        missing = missing_fields(rule, named[0])[0]
        what = f"the argument {missing!r}" if missing.startswith("/") else f"a {missing} argument"
        return f"{named[0].qualified_name!r} does not have {what}; {_similar_arguments(missing, named)}"
    is_allow = rule.is_allow
    reasons: list[str] = []
    for subject in able:
        never = [why for test in rule.arguments if (why := _why_never(test, subject, is_allow=is_allow)) is not None]
        if not never:
            return None
        reasons += never
    return reasons[0]


_OR_OPTIONAL = "correct it, or write optional = true if the tool may be absent"


def _shown(rule: Rule) -> str:
    given = {"": rule.tools, "namespace ": rule.namespaces, "kind ": rule.kinds, "operation ": rule.operations}
    return " in the ".join(
        kind + " or ".join(repr(str(each)) for each in patterns) for kind, patterns in given.items() if patterns
    )


def _similar_tools(rule: Rule, tools: Sequence[CheckedTool]) -> str:
    names = {qualified_name(declaration): declaration for declaration, _ in tools}
    close = [match for each in rule.tools for match in _close_names(each, [*names])]
    if not close and rule.namespaces:
        namespaces = sorted({declaration.namespace for declaration in names.values()})
        close = [match for each in rule.namespaces for match in get_close_matches(each, namespaces, 1)]
    return f"did you mean {close[0]!r}? {_OR_OPTIONAL.capitalize()}" if close else _OR_OPTIONAL


def _close_names(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the name that is most similar: of the same namespace by the rest of it, else by the whole name."""
    namespace, _, name = wanted.rpartition(".")
    same = {each.rpartition(".")[2]: each for each in names if not namespace or each.startswith(f"{namespace}.")}
    close = get_close_matches(name, same, 1)
    return [same[close[0]]] if close else get_close_matches(wanted, names, 1, cutoff=0.8)


def _similar_arguments(missing: str, named: Sequence[Subject]) -> str:
    known = sorted({f"/{name}" for subject in named for name in subject.arguments or ()})
    close = get_close_matches(missing, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(known)}" if missing.startswith("/") and known else "take the condition out"


def _why_never(test: ArgumentTest, subject: Subject, *, is_allow: bool) -> str | None:
    """Return why no call of a tool passes a test, and what to do; None if a call may pass it."""
    problems = [_why_never_by(test, schema, subject, is_allow=is_allow) for schema in subject.schemas]
    return problems[0] if problems and all(problems) else None


def _why_never_by(test: ArgumentTest, schema: JsonObject, subject: Subject, *, is_allow: bool) -> str | None:
    if test.present is False:
        return _why_never_absent(test, schema, subject)
    found: Sequence[JsonObject] = [*_alternatives(schema, schema)]
    for depth, step in enumerate(test.steps):
        below = [each for outer in found for each in _below(outer, step, schema)]
        if not below:
            names = sorted({name for outer in found for name in members(outer, "properties")})
            return _why_nothing(test, depth, names, subject)
        found = below
    found = [*_with_items(found, schema)]
    if any(_may_pass(test, each, schema, is_allow=is_allow) for each in found):
        return None
    what = f"no valid value of {test.pointer!r} of {subject.qualified_name!r} passes its test"
    return f"{what}; {_remedy_for_value(test, found, schema)}"


def _why_never_absent(test: ArgumentTest, schema: JsonObject, subject: Subject) -> str | None:
    contract = subject.declaration.input_contract
    defaults = (contract.defaults if contract is not None else None) or {}
    required = schema.get("required")
    if len(test.steps) != 1 or not (
        test.steps[0] in defaults or (isinstance(required, list) and test.steps[0] in required)
    ):
        return None
    what = f"{test.pointer!r} of {subject.qualified_name!r} is never absent"
    if test.steps[0] not in defaults:
        return f"{what}, because it is required; take the condition out"
    return f"{what}, because its default is filled in; write equals = {json.dumps(defaults[test.steps[0]])}"


def _why_nothing(test: ArgumentTest, depth: int, names: list[str], subject: Subject) -> str:
    steps = test.pointer.split("/")[1:]
    close = get_close_matches(test.steps[depth], names, 1)
    above = "".join(f"/{each}" for each in steps[:depth])
    wanted = f"{above}/{close[0]}" if close else above
    what = f"{subject.qualified_name!r} never has a value at {test.pointer!r}"
    return f"{what}; did you mean {wanted!r}?" if wanted else f"{what}; take the condition out"


def _alternatives(schema: Json, root: JsonObject, depth: int = 0) -> Iterator[JsonObject]:
    """Return the schemas of which a value fits one; references are resolved."""
    if schema is False:
        return
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        yield _ANY
    elif isinstance(reference := schema.get("$ref"), str):
        yield from _alternatives(resolve(reference, root), root, depth + 1)
    elif isinstance(choices := schema.get("anyOf", schema.get("oneOf")), list):
        for each in choices:
            yield from _alternatives(each, root, depth + 1)
    else:
        yield schema


def _types(schema: JsonObject) -> list[Json]:
    """Return the types that a schema names; an empty list if it names none."""
    kinds = schema.get("type")
    return kinds if isinstance(kinds, list) else [] if kinds is None else [kinds]


def _below(schema: JsonObject, step: str, root: JsonObject) -> Iterator[JsonObject]:
    """Return the schemas of what one step of a pointer leads to; none if it leads nowhere."""
    kinds = _types(schema)
    if not kinds or not _ALSO.isdisjoint(schema):
        yield _ANY
        return
    inner: list[Json] = []
    if "object" in kinds:
        properties, more = members(schema, "properties"), schema.get("additionalProperties", True)
        inner += properties.values() if step == "*" else [properties[step]] if step in properties else []
        inner += [more] if step == "*" or step not in properties else []
    if "array" in kinds and (step == "*" or step.isdigit()):
        inner.append(schema.get("items", True))
    for each in inner:
        yield from _alternatives(each, root)


def _with_items(schemas: Iterable[JsonObject], root: JsonObject, depth: int = 0) -> Iterator[JsonObject]:
    """Return schemas and those of their items: a list is tested by its elements."""
    for schema in schemas:
        yield schema
        if "array" in _types(schema) and depth < MAX_DEPTH:
            yield from _with_items([*_below(schema, "*", root)], root, depth + 1)


def _may_pass(test: ArgumentTest, schema: JsonObject, root: JsonObject, *, is_allow: bool) -> bool:
    listed = _listed(schema)
    if listed is not None:
        return any(test.passes(each, doubt=not is_allow) for each in listed)
    if test.choices:
        return any(_accepts(schema, root, each) for each in test.choices)
    low, high = schema.get("minimum"), schema.get("maximum")
    is_above = test.minimum is not None and isinstance(high, int | float) and high < test.minimum
    is_below = test.maximum is not None and isinstance(low, int | float) and low > test.maximum
    return not (is_above or is_below)


def _listed(schema: JsonObject) -> list[Json] | None:
    """Return the values of a schema that lists them."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) else None


def _accepts(schema: JsonObject, root: JsonObject, value: Json) -> bool:
    shared: JsonObject = {name: root[name] for name in _SHARED if name in root}
    try:
        return compile_schema({**shared, **schema}).accepts(value)
    except RecordError:
        return True


def _remedy_for_value(test: ArgumentTest, schemas: Sequence[JsonObject], root: JsonObject) -> str:
    listed = [each for schema in schemas for each in _listed(schema) or ()]
    wanted = test.choices[0] if test.choices else test.glob or test.prefix
    close = get_close_matches(str(wanted), [each for each in listed if isinstance(each, str)], 1)
    if not close and isinstance(wanted, str):
        with suppress(ValueError):  # it may be a number, true or false that was written as text
            close = [each for each in [json.loads(wanted)] if any(_accepts(schema, root, each) for schema in schemas)]
    if close:
        return f"did you mean {json.dumps(close[0])}?"
    if listed:
        return f"use one of {', '.join(map(json.dumps, listed))}"
    kinds = sorted({str(kind) for schema in schemas for kind in _types(schema)})
    return f"write a value that fits its schema ({' or '.join(kinds) or 'see its declaration'})"
