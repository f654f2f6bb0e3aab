"""Find rules that can never match, because no tool has the name or the arguments that they give."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from agenttool.policy.matching import missing_fields, names_declaration, names_tool
from agenttool.policy.rules import Rule
from agenttool.policy.subject import Subject, qualified_name
from agenttool.records import RuleSource, ToolDeclaration

CheckedTool = tuple[ToolDeclaration, Callable[[], Subject]]
"""A tool and a function that returns its subject, which is built only for tools that a rule names."""

_FOR_MANY_PROGRAMS = frozenset({RuleSource.USER_SETTINGS, RuleSource.POLICY_SETTINGS})
"""The layers that name tools of several programs, so that a tool may be absent from one of them."""


@dataclass(frozen=True, slots=True)
class UnmatchedRule:
    """A rule that matches no tool, and why.

    Attributes:
        is_error: whether the rule belongs to this program, so that its names must exist here.
    """

    message: str
    is_error: bool


def unmatched_rules(rules: Iterable[Rule], tools: Sequence[CheckedTool]) -> Iterator[UnmatchedRule]:
    """Return the rules that no call of these tools can match; optional rules and those of a session are left out."""
    for rule in rules:
        is_checked = (_names_some_tools(rule) or rule.arguments) and not rule.is_optional
        if is_checked and rule.source != RuleSource.SESSION:
            problem = _problem(rule, tools)
            if problem is not None:
                message = f"{rule.place}: rule {rule.ref!r} can never match: {problem}"
                yield UnmatchedRule(message, rule.source not in _FOR_MANY_PROGRAMS)


def _names_some_tools(rule: Rule) -> bool:
    return rule.names_tools and not {*rule.tools, *rule.namespaces, *rule.kinds, *rule.operations} <= {"*"}


def _problem(rule: Rule, tools: Sequence[CheckedTool]) -> str | None:
    """Return why a rule matches no tool, and what to do; none if it matches one."""
    named: list[Subject] = []
    for declaration, subject in tools:
        if names_declaration(rule, declaration) and names_tool(rule, subject()):
            if not missing_fields(rule, subject()):
                return None
            named.append(subject())
    if not named:
        return f"no tool is called {_shown(rule)}; {_similar_tools(rule, tools)}"
    missing = missing_fields(rule, named[0])[0]
    what = f"the argument {missing!r}" if missing.startswith("/") else f"a {missing} argument"
    return f"{named[0].qualified_name!r} does not have {what}; {_similar_arguments(missing, named)}"


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
