"""Read rules from settings, check them against their examples, and write them back.

These are the keys of a `[[rules]]` table. Every condition takes one text or a list of alternatives, and all conditions
must match:

```toml
[[rules]]
name = "keep-secrets"                 # optional; else the rule goes by its file and line
behavior = "deny"                     # deny, ask or allow; the strictest of all that match wins
tool = "files.*"                      # namespace.name; `*` any run, `?` one character
namespace = "files"                   # the namespace alone
kind = "file_operation"               # the tool_kind
operation = "issues/create"           # a native id: an MCP tool name, an operationId, "POST /issues"
path = ["secrets", "~/.ssh/**"]       # below each workspace root, absolute, or below home; `**` any depth
command = "git push --force"          # one command; a last `*` is any further arguments; a list for several
url = "https://*.example.com/v1/**"   # scheme, host, port, path
resource = "repo:acme/*"
argument = { "/limit" = { max = 100 } }   # by JSON pointer: equals, one_of, glob, prefix, min, max, present
because = "keys stay on this machine"     # part of the message of a deny or a question
expires_at = 2030-01-31T12:00:00Z
must_match = [{ tool = "files.read", arguments = { path = "secrets/key" } }]
must_not_match = [{ tool = "files.read", arguments = { path = "src/a.py" } }]
```

An allow matches only if it surely covers every path, command and URL of a call. A deny or an ask matches if it matches
any of them. A deny that only cannot be ruled out asks. An allow with `hook = "name"` makes the allow of that hook
binding against other rules; only `policy_settings` may contain one.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import NoReturn, TypeVar

from agenttool.codec import json_bytes
from agenttool.errors import ConfigError, RecordError
from agenttool.policy.commands import command_pattern
from agenttool.policy.fields import MatchingField, MatchingFields, steps_of
from agenttool.policy.matching import CallTargets, find_match, matches
from agenttool.policy.paths import PathPattern, Workspace
from agenttool.policy.rules import ArgumentTest, Example, Rule, parse_timestamp
from agenttool.policy.subject import Subject, subject_of
from agenttool.policy.urls import url_pattern
from agenttool.records import (
    UNSET,
    Behavior,
    Digest,
    InputContract,
    Json,
    JsonObject,
    Lifecycle,
    NativeMapping,
    RuleSource,
    Timestamp,
    ToolDeclaration,
    ToolId,
    ToolKind,
    UnsetType,
)

_T = TypeVar("_T")

MEMBERS = (
    "name",
    "behavior",
    "tool",
    "namespace",
    "kind",
    "operation",
    "path",
    "command",
    "url",
    "resource",
    "argument",
    "hook",
    "settles",
    "because",
    "expires_at",
    "declaration_digest",
    "must_match",
    "must_not_match",
)
"""Everything that may be written in a rule."""

_TESTS = ("equals", "one_of", "glob", "prefix", "min", "max", "present")
_CONDITIONS = ("tool", "namespace", "kind", "operation", "path", "command", "url", "resource", "argument")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSetting:
    """The keys of one rule, and their file and line."""

    members: JsonObject
    source: RuleSource
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """The file and line, for messages."""
        where = self.file or str(self.source)
        return where if self.line is None else f"{where}:{self.line}"


def read_rule(written: RuleSetting) -> Rule:
    """Return the rule of a setting; its examples are not checked here.

    Raises:
        ValueError: it is wrong; the message says what and what to do, and not where.
    """
    members = written.members
    _refuse_strangers(members, MEMBERS, "a rule")
    behavior = _behavior(members.get("behavior"))
    name = _text(members, "name")
    source = RuleSource(written.source)
    _check_whole(members, behavior, source)
    return Rule(
        ref=f"{source}:{name or written.place}",
        behavior=behavior,
        source=source,
        file=written.file,
        line=written.line,
        tools=_texts(members, "tool"),
        namespaces=_texts(members, "namespace"),
        kinds=_each(_texts(members, "kind"), _kind),
        operations=_texts(members, "operation"),
        paths=_each(_texts(members, "path"), _path),
        commands=_each(_texts(members, "command"), command_pattern),
        urls=_each(_texts(members, "url"), url_pattern),
        resources=_texts(members, "resource"),
        arguments=_argument_tests(members.get("argument")),
        hook=_text(members, "hook"),
        settles=_texts(members, "settles"),
        because=_text(members, "because"),
        must_match=_examples(members, "must_match"),
        must_not_match=_examples(members, "must_not_match"),
        expires_at=_moment(members.get("expires_at")),
        declaration_digest=_digest(members),
    )


def _check_whole(members: JsonObject, behavior: Behavior, source: RuleSource) -> None:
    """Reject combinations of keys that would match more or less than intended."""
    if not any(each in members for each in _CONDITIONS):
        raise ValueError('a rule needs a condition, got none; write tool = "*" to mean every tool')
    if "hook" in members and (behavior != Behavior.ALLOW or source != RuleSource.POLICY_SETTINGS):
        raise ValueError(f"only an allow of policy_settings can let a hook decide, got {behavior} of {source}; move it")
    if "settles" in members and (behavior != Behavior.ALLOW or source != RuleSource.SESSION):
        raise ValueError(f"only an allow of a session can settle a question, got {behavior} of {source}; remove it")
    if behavior == Behavior.ALLOW and "namespace" not in members:
        for tool in _texts(members, "tool"):
            if "." not in tool and tool != "*":
                raise ValueError(
                    f"an allow names its tool with its namespace, got {tool!r}, which any server could offer; "
                    f"write 'namespace.{tool}', or add namespace = \"*\" if you mean all of them"
                )


def _refuse(what: str, value: object, advice: str) -> NoReturn:
    raise ValueError(f"{what}, got {value!r}; {advice}")


def _refuse_strangers(members: JsonObject, known: Iterable[str], what: str) -> None:
    for name in members:
        if name not in known:
            close = get_close_matches(name, list(known), 1)
            raise ValueError(
                f"{what} has no {name!r}; " + (f"did you mean {close[0]!r}?" if close else f"use {', '.join(known)}")
            )


def _behavior(value: Json) -> Behavior:
    if value not in ("allow", "ask", "deny"):
        _refuse("behavior must be allow, ask or deny", value, "write one of them")
    return Behavior(value)


def _text(members: JsonObject, name: str) -> str | None:
    value = members.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        _refuse(f"{name} must be a text", value, "write it in quotes")
    return value


def _texts(members: JsonObject, name: str) -> tuple[str, ...]:
    """Read one text or a list of them."""
    value = members.get(name, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or (name in members and not found):
        _refuse(f"{name} must be a text or a list of texts", value, "write it in quotes")
    texts = [each for each in found if isinstance(each, str) and (each or name == "namespace")]
    if len(texts) < len(found):
        _refuse(f"{name} must be a text or a list of texts", value, "write each in quotes")
    return tuple(texts)


def _each(texts: Iterable[str], read: Callable[[str], _T]) -> tuple[_T, ...]:
    return tuple(read(text) for text in texts)


def _kind(text: str) -> ToolKind:
    """Return a kind; an unlisted kind is valid unless it looks like a misspelled one."""
    close = [] if text in list(ToolKind) else get_close_matches(text, list(ToolKind), 1, cutoff=0.8)
    if close:
        _refuse("kind must be a tool_kind", text, f"did you mean {str(close[0])!r}?")
    return ToolKind(text)


def _json(value: Json, what: str) -> None:
    """Reject values that are not JSON, such as a date of TOML."""
    try:
        json_bytes(value)
    except RecordError as error:
        raise ValueError(f"{what} is {error}") from error


def _path(text: str) -> PathPattern:
    if "\0" in text or (text.startswith("~") and text[1:2] not in ("", "/")):
        _refuse("a path pattern begins with '/', '~/' or a name", text, "write the directory out")
    return PathPattern(text)


def _moment(value: object) -> Timestamp | None:
    # TOML has moments of its own.
    text = value.isoformat() if isinstance(value, datetime) else value
    if text is None:
        return None
    try:
        return Timestamp(parse_timestamp(str(text)).isoformat().replace("+00:00", "Z"))
    except ValueError as error:
        raise ValueError(f"expires_at must be a moment, got {text!r}; write it as 2030-01-31T12:00:00Z") from error


def _digest(members: JsonObject) -> Digest | None:
    text = _text(members, "declaration_digest")
    return None if text is None else Digest(text)


def _argument_tests(value: Json) -> tuple[ArgumentTest, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f'argument must map JSON pointers to tests, got {value!r}; write {{ "/limit" = {{ max = 100 }} }}'
        )
    return tuple(_argument_test(pointer, test) for pointer, test in value.items())


def _argument_test(pointer: str, test: Json) -> ArgumentTest:
    if not isinstance(test, dict) or not test:
        _refuse(f"the test of {pointer!r} must be a table", test, f"use {', '.join(_TESTS)}")
    _refuse_strangers(test, _TESTS, f"the test of {pointer!r}")
    _json(test, f"the test of {pointer!r}")
    one_of, present = test.get("one_of"), test.get("present")
    if one_of is not None and (not isinstance(one_of, list) or not one_of):
        _refuse(f"one_of of {pointer!r} must be a list", one_of, "write it in brackets")
    if present is not None and not isinstance(present, bool):
        _refuse(f"present of {pointer!r} must be true or false", present, "write one of them")
    return ArgumentTest(
        pointer=pointer,
        steps=steps_of(pointer),
        equals=test.get("equals", UNSET),
        one_of=None if one_of is None else tuple(one_of),
        glob=_text(test, "glob"),
        prefix=_text(test, "prefix"),
        minimum=_number(test, "min"),
        maximum=_number(test, "max"),
        present=present,
    )


def _number(members: JsonObject, name: str) -> float | None:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(f"{name} must be a number", value, "write it without quotes")
    return value


def _examples(members: JsonObject, name: str) -> tuple[Example, ...]:
    value = members.get(name, [])
    if not isinstance(value, list):
        _refuse(f"{name} must be a list of calls", value, 'write [{ tool = "…", arguments = {…} }]')
    return tuple(_example(each, name) for each in value)


def _example(value: Json, where: str) -> Example:
    if not isinstance(value, dict):
        _refuse(f"{where} must be a list of calls", value, 'write { tool = "…", arguments = {…} }')
    _refuse_strangers(value, ("tool", "arguments", "kind", "operation"), where)
    arguments, kind = value.get("arguments", {}), _text(value, "kind")
    tool = _text(value, "tool")
    if tool is None or not isinstance(arguments, dict):
        _refuse(f"a call in {where} needs a tool and arguments", value, "write both")
    _json(arguments, f"a call in {where}")
    return Example(
        tool=tool,
        arguments=arguments,
        kind=None if kind is None else _kind(kind),
        operation=_text(value, "operation"),
    )


def rule_members(rule: Rule) -> JsonObject:
    """Return the keys of a rule; `read_rule` returns the same rule from them."""
    name = rule.ref.removeprefix(f"{rule.source}:")
    found: JsonObject = {
        "name": name if name != _place(rule) else None,
        "behavior": str(rule.behavior),
        "tool": [*rule.tools],
        "namespace": [*rule.namespaces],
        "kind": [str(kind) for kind in rule.kinds],
        "operation": [*rule.operations],
        "path": [each.text for each in rule.paths],
        "command": [each.text for each in rule.commands],
        "url": [each.text for each in rule.urls],
        "resource": [*rule.resources],
        "argument": {test.pointer: _test_members(test) for test in rule.arguments},
        "hook": rule.hook,
        "settles": [*rule.settles],
        "because": rule.because,
        "expires_at": rule.expires_at,
        "declaration_digest": rule.declaration_digest,
        "must_match": [_example_members(each) for each in rule.must_match],
        "must_not_match": [_example_members(each) for each in rule.must_not_match],
    }
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _place(rule: Rule) -> str:
    return RuleSetting(members={}, source=rule.source, file=rule.file, line=rule.line).place


def _test_members(test: ArgumentTest) -> JsonObject:
    found: JsonObject = {
        "one_of": None if test.one_of is None else [*test.one_of],
        "glob": test.glob,
        "prefix": test.prefix,
        "min": test.minimum,
        "max": test.maximum,
        "present": test.present,
    }
    equals: JsonObject = {} if isinstance(test.equals, UnsetType) else {"equals": test.equals}
    return {**equals, **{name: value for name, value in found.items() if value is not None}}


def _example_members(example: Example) -> JsonObject:
    found: JsonObject = {
        "tool": example.tool,
        "arguments": example.arguments,
        "kind": None if example.kind is None else str(example.kind),
        "operation": example.operation,
    }
    return {name: value for name, value in found.items() if value is not None}


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def rule_toml(members: JsonObject) -> str:
    """Write one `[[rules]]` table; a list of one text is written as the text.

    Raises:
        ValueError: it holds a null, for which TOML has no word.
    """
    lines = [f"{_toml_key(name)} = {_toml_value(_single(value))}" for name, value in members.items()]
    return "\n".join(["[[rules]]", *lines, ""])


def _single(value: Json) -> Json:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml_text(name)


def _toml_text(value: str) -> str:
    # JSON's escapes are TOML's too, except for the delete character, which JSON leaves bare and TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Json) -> str:
    match value:
        case None:
            raise ValueError("TOML has no null")
        case bool():
            return "true" if value else "false"
        case str():
            return _toml_text(value)
        case int() | float():
            return repr(value)
        case list():
            return f"[{', '.join(_toml_value(each) for each in value)}]"
        case _:
            return "{ " + ", ".join(f"{_toml_key(name)} = {_toml_value(each)}" for name, each in value.items()) + " }"


EXAMPLE_WORKSPACE = Workspace(roots=("/workspace",), home="/home/user", resolve=str)
"""Where examples take place: a workspace without links, so that loading rules touches no file."""


def read_rules(written: Iterable[RuleSetting], *, subjects: Mapping[str, Subject] | None = None) -> tuple[Rule, ...]:
    """Read rules from settings and check each against its examples.

    Args:
        written: the rules in plain form, from any of the eight sources.
        subjects: tools by qualified name; an example of another tool is judged by the names of its arguments.

    Raises:
        ConfigError: some are wrong; the message names each with its file and line, what was wrong and what to do.
    """
    rules: list[Rule] = []
    problems: list[str] = []
    for each in written:
        try:
            rule = read_rule(each)
        except ValueError as error:
            problems.append(f"{each.place}: {error}")
            continue
        problems += [f"{each.place}: {problem}" for problem in wrong_examples(rule, subjects or {})]
        rules.append(rule)
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(rules)


def wrong_examples(rule: Rule, subjects: Mapping[str, Subject]) -> list[str]:
    """Return a message for each example that the rule does not satisfy."""
    promises = [(True, example) for example in rule.must_match] + [(False, example) for example in rule.must_not_match]
    return [
        f"rule {rule.ref!r} {'does not match' if wanted else 'matches'} the call of {example.tool!r} with "
        f"{example.arguments!r}, which it must{'' if wanted else ' not'}; change the rule or the example"
        for wanted, example in promises
        if not _is_as_promised(rule, example, subjects, wanted=wanted)
    ]


def _is_as_promised(rule: Rule, example: Example, subjects: Mapping[str, Subject], *, wanted: bool) -> bool:
    """Return whether a rule matches an example as wanted; a deny that only cannot be ruled out is either."""
    subject = subjects.get(example.tool) or _imagined(rule, example)
    call = CallTargets(subject, example.arguments, EXAMPLE_WORKSPACE)
    match = find_match(rule, call) if rule.behavior != Behavior.ALLOW else None
    return matches(rule, call) is wanted or (match is not None and not match.is_certain)


def _imagined(rule: Rule, example: Example) -> Subject:
    """Return a tool for an example: the names of its arguments, or the conditions of the rule, decide its fields."""
    namespace, _, name = example.tool.rpartition(".")
    if not namespace and len(rule.namespaces) == 1:
        namespace = rule.namespaces[0]
    schema: JsonObject = {"properties": {argument: {} for argument in example.arguments}}
    subject = subject_of(
        ToolDeclaration(
            tool_id=ToolId(example.tool),
            namespace=namespace,
            name=name,
            description="an example",
            lifecycle=Lifecycle.AVAILABLE,
            tool_kind=example.kind or next(iter(rule.kinds), ToolKind.FUNCTION),
            input_contract=InputContract(model_input_schema=schema),
            external_mappings=None if example.operation is None else (NativeMapping(native_id=example.operation),),
        )
    )
    everything = tuple((argument,) for argument in example.arguments)
    wanted = {
        MatchingField.PATH: rule.paths,
        MatchingField.COMMAND: rule.commands,
        MatchingField.URL: rule.urls,
        MatchingField.RESOURCE: rule.resources,
    }
    unnamed = {field: everything for field, patterns in wanted.items() if patterns and not subject.fields.has(field)}
    return replace(subject, imagined=MatchingFields(places={**subject.fields.places, **unnamed}))
