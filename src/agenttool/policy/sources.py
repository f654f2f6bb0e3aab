"""Settings to rules: read, checked against their own examples, and refused in words that help.

What may stand in a `[[rules]]` table; every condition takes one text or a list of alternatives, and all that are given
must hold:

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
because = "keys stay on this machine"     # told to whoever is refused or asked
expires_at = 2030-01-31T12:00:00Z
must_match = [{ tool = "files.read", arguments = { path = "secrets/key" } }]
must_not_match = [{ tool = "files.read", arguments = { path = "src/a.py" } }]
```

An allow holds only if it surely covers every path, command and address of a call; a deny or an ask holds if it catches
any of them, or cannot rule one out. An allow with `hook = "name"` says something else: that this hook's allow stands
against other rules; only `policy_settings` may say it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agenttool.errors import ConfigError
from agenttool.policy.call import Call
from agenttool.policy.field_names import MatchingField
from agenttool.policy.fields import Fields
from agenttool.policy.match import matches
from agenttool.policy.paths import Workspace
from agenttool.policy.rules import Example, Rule
from agenttool.policy.subject import Subject, subject_of
from agenttool.policy.written import WrittenRule, read_rule
from agenttool.records import InputContract, JsonObject, Lifecycle, NativeMapping, ToolDeclaration, ToolId, ToolKind

EXAMPLE_WORKSPACE = Workspace(roots=("/workspace",), home="/home/user", resolve=str)
"""Where examples take place: a workspace without links, so that loading rules touches no file."""


def read_rules(written: Iterable[WrittenRule], *, subjects: Mapping[str, Subject] | None = None) -> tuple[Rule, ...]:
    """Read rules from settings and hold each to its examples.

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
    """Say of each example that the rule does not keep what is wrong with it."""
    promises = [(True, example) for example in rule.must_match] + [(False, example) for example in rule.must_not_match]
    return [
        f"rule {rule.ref!r} {'does not match' if wanted else 'matches'} the call of {example.tool!r} with "
        f"{example.arguments!r}, which it must{'' if wanted else ' not'}; change the rule or the example"
        for wanted, example in promises
        if _holds(rule, example, subjects) is not wanted
    ]


def _holds(rule: Rule, example: Example, subjects: Mapping[str, Subject]) -> bool:
    subject = subjects.get(example.tool) or _imagined(rule, example)
    return matches(rule, Call(subject, example.arguments, EXAMPLE_WORKSPACE))


def _imagined(rule: Rule, example: Example) -> Subject:
    """Make up the tool of an example: its arguments are what they are called, or else what the rule is about."""
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
    return replace(subject, imagined=Fields(places={**subject.fields.places, **unnamed}))
