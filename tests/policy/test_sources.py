import tomllib

import pytest

from agenttool.errors import ConfigError
from agenttool.policy import sources
from agenttool.policy.sources import read_rules
from agenttool.policy.written import WrittenRule

SECRETS = {"behavior": "deny", "tool": "files.*", "path": "secrets"}


def read(*members, **more):
    return read_rules(
        [WrittenRule(members=each, source="project_settings", file="a.toml", line=3) for each in members], **more
    )


def test_the_documented_rule_can_be_read():
    block = sources.__doc__.split("```toml")[1].split("```")[0]
    [members] = tomllib.loads(block)["rules"]
    members |= {"must_match": [], "must_not_match": []}
    [rule] = read(members)
    assert rule.ref == "project_settings:keep-secrets"
    assert rule.expires_at == "2030-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("rule", "call"),
    [
        (SECRETS, {"tool": "files.read", "arguments": {"path": "src/../secrets/key"}}),
        (SECRETS, {"tool": "files.read", "arguments": {"where": "secrets/key"}}),
        (
            {"behavior": "allow", "tool": "files.*", "path": "src/**"},
            {"tool": "files.read", "arguments": {"path": "src/a"}},
        ),
        ({"behavior": "deny", "command": "rm"}, {"tool": "x.shell", "arguments": {"command": "ls; rm x"}}),
        ({"behavior": "deny", "command": "rm"}, {"tool": "x.shell", "arguments": {"input": "ls; rm x"}}),
        ({"behavior": "deny", "operation": "issues/*"}, {"tool": "gh.x", "operation": "issues/create"}),
        ({"behavior": "deny", "kind": "shell_command"}, {"tool": "gh.x", "kind": "shell_command"}),
        ({"behavior": "allow", "tool": "read", "namespace": "files"}, {"tool": "read"}),
        ({"behavior": "deny", "tool": "*", "argument": {"/n": {"min": 5}}}, {"tool": "a.b", "arguments": {"n": 7}}),
    ],
)
def test_a_rule_keeps_its_examples(rule, call):
    read({**rule, "must_match": [call]})
    with pytest.raises(
        ConfigError, match=r"^a.toml:3: rule .* matches the call of .*, which it must not; change the rule"
    ):
        read({**rule, "must_not_match": [call]})


def test_a_rule_that_does_not_keep_an_example_is_refused():
    with pytest.raises(ConfigError, match=r"^a.toml:3: rule .* does not match the call of 'files.read'"):
        read({**SECRETS, "must_match": [{"tool": "files.read", "arguments": {"path": "src/a"}}]})


def test_an_example_of_a_known_tool_is_judged_as_that_tool(tool):
    subject = tool("files.read", {"x": {"format": "path"}, "y": {"type": "object"}})
    call = {"tool": "files.read", "arguments": {"x": "secrets/key"}}
    read({**SECRETS, "must_match": [call]}, subjects={"files.read": subject})
    with pytest.raises(ConfigError):
        read(
            {**SECRETS, "must_match": [{"tool": "files.read", "arguments": {"y": "secrets"}}]},
            subjects={"files.read": subject},
        )


def test_every_mistake_is_told_at_once_with_its_file_and_line():
    written = [
        WrittenRule(members={"behavior": "maybe"}, source="user_settings", file="u.toml", line=1),
        WrittenRule(members=SECRETS, source="user_settings", file="u.toml", line=5),
        WrittenRule(members={"behavior": "deny"}, source="cli_arg"),
        WrittenRule(members={**SECRETS, "must_match": [{"tool": "a.b"}]}, source="session", line=9),
    ]
    with pytest.raises(ConfigError) as caught:
        read_rules(written)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == ["u.toml:1", "cli_arg", "session:9"]
