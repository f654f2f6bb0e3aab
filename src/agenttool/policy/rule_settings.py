"""Read rules from settings, check them against their examples, and write them back.

`RuleTable` describes the keys of a `[[rules]]` table. Every condition takes one text or a list of alternatives, and all
conditions must match:

```toml
[[rules]]
name = "keep-secrets"
behavior = "deny"
tool = "files.*"
path = ["secrets", "~/.ssh/**"]
because = "keys stay on this machine"
must_match = [{ tool = "files.read", arguments = { path = "secrets/key" } }]
must_not_match = [{ tool = "files.read", arguments = { path = "src/a.py" } }]
```

An allow matches only if it surely covers every path, command and URL of a call. A deny or an ask matches if it matches
any of them. A deny rule that may match, but not certainly, asks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Literal, cast

from agenttool.codec import json_bytes, to_json
from agenttool.config import Setting
from agenttool.config.table import Meta, Switch, Text, Texts, key, members_of, read_table
from agenttool.config.writer import toml_table
from agenttool.errors import ConfigError, RecordError
from agenttool.policy.commands import command_pattern
from agenttool.policy.fields import MatchingFields, steps_of
from agenttool.policy.matching import find_match, matches, names_caller
from agenttool.policy.paths import PathPattern, Workspace
from agenttool.policy.rules import CONDITIONS, ArgumentConditions, ArgumentTest, Rule, parse_timestamp
from agenttool.policy.subject import Subject, subject_of
from agenttool.policy.targets import Caller, CallTargets
from agenttool.policy.urls import url_pattern
from agenttool.ports.identity import GATEWAY_ROLE
from agenttool.records import (
    Behavior,
    Digest,
    InputContract,
    Json,
    JsonObject,
    Lifecycle,
    NativeMapping,
    Part,
    RuleSource,
    Timestamp,
    ToolDeclaration,
    ToolId,
    ToolKind,
)
from agenttool.records import replace as replace_record

_Behavior = Annotated[Literal["allow", "ask", "deny"], Meta(description="allow, ask or deny; write one of them")]
_Tenants = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[a-z0-9*?][a-z0-9_*?-]{0,62}$")], ...],
    Meta(min_length=1, description="a tenant: lower-case letters, digits, '-' and '_'; write it in quotes"),
]
_Namespaces = Annotated[
    tuple[str, ...], Meta(min_length=1, description="a text or a list of texts; write each in quotes")
]
_Tests = Annotated[
    dict[str, JsonObject],
    Meta(min_length=1, description='a table of JSON pointers and tests; write { "/limit" = { max = 100 } }'),
]
_Arguments = Annotated[dict[str, object], Meta(description="a table; write { NAME = value }")]
_Calls = Annotated[list[JsonObject], Meta(description='a list of calls; write [{ tool = "…", arguments = {…} }]')]


class Example(Part, frozen=True, kw_only=True):
    """A call that a rule must match, or must not; checked when the rule is loaded."""

    tool: Text
    arguments: _Arguments = key(default_factory=dict)
    kind: Text | None = None
    operation: Text | None = None
    actor: Text | None = None
    role: Texts = ()
    team: Texts = ()


class RuleTable(Part, frozen=True, kw_only=True):
    """The table `[[rules]]`: one rule. All conditions must match; the strictest of all rules that match wins.

    Attributes:
        name: the name of the rule. Default: its file and line.
        behavior: `deny`, `ask` or `allow`.
        tool: the qualified name `namespace.name`; `*` matches any characters, `?` one.
        namespace: the namespace of the tool.
        kind: the kind of the tool, such as `shell_command`.
        operation: the native id of the tool: an MCP tool name, or an `operationId`.
        actor: who makes the call, such as `agent:billing`. A deny or an ask also applies to an unknown caller.
        role: a role of `[roles]`, or behind `gateway:` a role of the caller's key or token, such as `gateway:operator`.
            A deny or an ask also applies to a caller whose key is not known.
        team: a team of `[teams]`.
        tenant: a tenant of `agenttool serve`; `*` matches any characters. Runtimes of other tenants do not have the
            rule. Outside of a server the tenant is `default`.
        path: a path below a workspace folder, an absolute path, or one below `~`; `**` matches any depth.
        command: a command; a last `*` matches any further arguments.
        url: scheme, host, port and path.
        resource: the name of a resource that the tool locks.
        argument: tests by JSON pointer: `equals`, `one_of`, `glob`, `prefix`, `min`, `max`, `present`.
        hook: makes the allow of this hook binding against other rules; only in policy settings.
        settles: the ask rules that an approver has answered for good; the runtime writes it.
        because: the reason; part of the message of a deny or a question.
        expires_at: when the rule ends.
        declaration_digest: the digest of the tool; the rule ends when the tool changes.
        optional: whether the tool may be absent. Default: an unknown name is an error at start.
        must_match: calls that the rule must match, checked when it is loaded.
        must_not_match: calls that it must not match.
    """

    name: Text | None = None
    behavior: _Behavior
    tool: Texts = ()
    namespace: _Namespaces = ()
    kind: Texts = ()
    operation: Texts = ()
    actor: Texts = ()
    role: Texts = ()
    team: Texts = ()
    tenant: _Tenants = ()
    path: Texts = ()
    command: Texts = ()
    url: Texts = ()
    resource: Texts = ()
    argument: _Tests = key(default_factory=dict)
    hook: Text | None = None
    settles: Texts = ()
    because: Text | None = None
    expires_at: Annotated[object, Meta(description="a moment; write it as 2030-01-31T12:00:00Z")] = None
    declaration_digest: Text | None = None
    optional: Switch = False
    must_match: _Calls = key(default_factory=list)
    must_not_match: _Calls = key(default_factory=list)


def read_rule(setting: Setting) -> Rule:
    """Return the rule of a setting; it is not tested on its examples.

    Raises:
        ValueError: the table is invalid; the message has the cause and the remedy, but not the place.
    """
    source = RuleSource(setting.source)
    table = read_table(setting.members, RuleTable, "a rule")
    _check_whole(table, source)
    readers = {"kind": _kind, "path": _path, "command": command_pattern, "url": url_pattern}
    conditions = {f"{name}s": tuple(map(readers.get(name, str), getattr(table, name))) for name in CONDITIONS}
    return Rule(
        **conditions,  # pyright: ignore[reportArgumentType] -- a rule checks their types itself
        ref=f"{source}:{table.name or setting.place}",
        behavior=Behavior(table.behavior),
        source=source,
        file=setting.file,
        line=setting.line,
        arguments=tuple(_argument_test(pointer, test) for pointer, test in table.argument.items()),
        hook=table.hook,
        settles=table.settles,
        because=table.because,
        expires_at=_moment(table.expires_at),
        declaration_digest=None if table.declaration_digest is None else Digest(table.declaration_digest),
        is_optional=table.optional,
    )


def rule_members(members: JsonObject) -> JsonObject:
    """Return the keys of a valid rule in one form: every list is written as a list, defaults are left out."""
    table = read_table(members, RuleTable, "a rule")
    return to_json(replace_record(table, expires_at=_moment(table.expires_at)))


def _check_whole(table: RuleTable, source: RuleSource) -> None:
    """Reject combinations of keys that would match more or less than intended."""
    of_tool = (table.tool, table.namespace, table.kind, table.operation)
    of_caller = (table.actor, table.role, table.team)
    if not any((*of_tool, *of_caller, table.path, table.command, table.url, table.resource, table.argument)):
        raise ValueError('a rule needs a condition, got none; write tool = "*" to mean every tool')
    said = f"{table.behavior} of {source}"
    if table.hook is not None and said != f"allow of {RuleSource.POLICY_SETTINGS}":
        raise ValueError(f"only an allow of policy_settings can let a hook decide, got {said}; move it")
    if table.settles and said != f"allow of {RuleSource.SESSION}":
        raise ValueError(f"only an allow of a session can settle a question, got {said}; remove it")
    if table.behavior == Behavior.ALLOW and (excepted := [path for path in table.path if path.startswith("!")]):
        raise ValueError(
            f"an allow cannot except a path, got {excepted[0]!r}; write what it allows, and a rule that asks"
        )
    bare = [tool for tool in table.tool if "." not in tool and tool != "*"]
    if table.behavior == Behavior.ALLOW and not table.namespace and bare:
        raise ValueError(
            f"an allow names its tool with its namespace, got {bare[0]!r}, which any server could offer; "
            f"write 'namespace.{bare[0]}', or add namespace = \"*\" if you mean all of them"
        )


def _kind(text: str) -> ToolKind:
    """Return a kind; an unlisted kind is valid unless it looks like a misspelled one."""
    close = [] if text in list(ToolKind) else get_close_matches(text, list(ToolKind), 1, cutoff=0.8)
    if close:
        raise ValueError(f"kind must be a tool_kind, got {text!r}; did you mean {str(close[0])!r}?")
    return ToolKind(text)


def _path(text: str) -> PathPattern:
    if "\0" in text or (text.startswith("~") and text[1:2] not in ("", "/")):
        raise ValueError(f"a path pattern begins with '/', '~/' or a name, got {text!r}; write the directory out")
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


def _argument_test(pointer: str, test: JsonObject) -> ArgumentTest:
    what = f"the test of {pointer!r}"
    if not test:
        raise ValueError(f"{what} must be a table, got {test!r}; write {{ max = 100 }}")
    _check_json(test, what)
    return ArgumentTest(
        **members_of(read_table(test, ArgumentConditions, what)), pointer=pointer, steps=steps_of(pointer)
    )


def _check_json(value: Json, what: str) -> None:
    """Reject values that are not JSON, such as a date of TOML."""
    try:
        json_bytes(value)
    except RecordError as error:
        raise ValueError(f"{what} is {error}") from error


def rule_toml(members: JsonObject) -> str:
    """Write one `[[rules]]` table; a list of one text is written as the text.

    Raises:
        ValueError: it holds a null, for which TOML has no word.
    """
    return toml_table(
        "[[rules]]",
        {
            name: value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value
            for name, value in members.items()
        },
    )


def rule_text(rule: Rule) -> str:
    """Write a rule as the `[[rules]]` table that has its effect in a settings file; its name and place are left out.

    Raises:
        ValueError: it compares an argument with null, for which TOML has no word.
    """
    members: JsonObject = {
        "behavior": rule.behavior.value,
        **rule.conditions,
        "hook": rule.hook,
        "because": rule.because,
        "expires_at": rule.expires_at,
        "declaration_digest": rule.declaration_digest,
        "optional": rule.is_optional or None,
    }
    return rule_toml({name: value for name, value in members.items() if value is not None})


EXAMPLE_WORKSPACE = Workspace(roots=("/workspace",), home="/home/user", resolve=str)
"""Where examples take place: a workspace without links, so that loading rules touches no file."""


def read_rules(settings: Iterable[Setting]) -> tuple[Rule, ...]:
    """Read rules from settings and check each against its examples.

    Raises:
        ConfigError: some are wrong; the message names each with its file and line, what was wrong and what to do.
    """
    rules: list[Rule] = []
    problems: list[str] = []
    for setting in settings:
        try:
            rule = read_rule(setting)
            found = _failed_examples(rule, setting.members)
        except ValueError as error:
            problems.append(f"{setting.place}: {error}")
            continue
        problems += [f"{setting.place}: {problem}" for problem in found]
        rules.append(rule)
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(rules)


RuleOption = Rule | Mapping[str, Json]
"""A rule of a program: a `Rule`, or the keys of a `[[rules]]` table."""


def rules_in(given: Iterable[RuleOption]) -> list[Rule]:
    """Return the rules of a program.

    Raises:
        ConfigError: one of them is no rule, or its keys are invalid.
    """
    rules: list[Rule] = []
    for number, each in enumerate(cast("Iterable[object]", given), 1):
        if isinstance(each, Rule):
            rules.append(each)
        elif isinstance(each, Mapping):
            members = dict(cast("Mapping[str, Json]", each))
            rules += read_rules([Setting(members=members, source=RuleSource.CLI_ARG, file="rules", line=number)])
        else:
            raise ConfigError(f"rules must hold Rules or tables, got a {type(each).__name__}; write a list of them")
    return rules


def _failed_examples(rule: Rule, members: JsonObject) -> list[str]:
    """Return a message for each example that the rule does not satisfy."""
    problems: list[str] = []
    for name, wanted in (("must_match", True), ("must_not_match", False)):
        for each in cast("list[JsonObject]", members.get(name, [])):
            _check_json(each, f"a call in {name}")
            example = read_table(each, Example, f"a call in {name}")
            if not _is_as_promised(rule, example, wanted=wanted):
                problems.append(
                    f"rule {rule.ref!r} {'does not match' if wanted else 'matches'} the call of {example.tool!r} with "
                    f"{example.arguments!r}, which it must{'' if wanted else ' not'}; change the rule or the example"
                )
    return problems


def _is_as_promised(rule: Rule, example: Example, *, wanted: bool) -> bool:
    """Return whether a rule matches an example as wanted; a deny that matches uncertainly passes both ways."""
    granted = tuple(each for each in example.role if each.startswith(GATEWAY_ROLE))
    roles = frozenset(example.role).difference(granted)
    caller = Caller(example.actor, roles, frozenset(example.team), granted=granted or None)
    call = CallTargets(_imagined(rule, example), cast("JsonObject", example.arguments), EXAMPLE_WORKSPACE, caller)
    match = find_match(rule, call) if not rule.is_allow else None
    is_unclear = match is not None and not match.is_certain and names_caller(rule, caller)
    return matches(rule, call) is wanted or is_unclear


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
            tool_kind=_kind(example.kind) if example.kind else next(iter(rule.kinds), ToolKind.FUNCTION),
            input_contract=InputContract(model_input_schema=schema),
            external_mappings=None if example.operation is None else (NativeMapping(native_id=example.operation),),
        )
    )
    everything = tuple((argument,) for argument in example.arguments)
    unnamed = {field: everything for field in rule.fields if not subject.fields.has(field)}
    return replace(subject, imagined=MatchingFields(places={**subject.fields.places, **unnamed}))
