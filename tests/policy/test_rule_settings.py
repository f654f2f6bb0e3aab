import inspect
import tomllib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.config import Setting
from agenttool.errors import ConfigError
from agenttool.policy import rule_settings
from agenttool.policy.rule_settings import read_rule, read_rules, rule_members, rule_toml

texts = st.sampled_from(["a", "b.c", "x*"])
several = st.lists(texts, min_size=1, max_size=2)
FULL = st.fixed_dictionaries(
    {"behavior": st.sampled_from(["ask", "deny"]), "tool": several},
    optional={
        "name": st.sampled_from(["n", "m"]),
        "namespace": several,
        "kind": st.just(["shell_command"]),
        "operation": several,
        "path": st.just(["src/**", "~/x", "/etc"]),
        "command": st.just(["git log *", "A=1 x"]),
        "url": st.just(["https://*.example.com/v1"]),
        "resource": several,
        "argument": st.just({"/a": {"equals": None}, "/b": {"one_of": [1, "x"], "present": True}, "/c": {"min": 1, "max": 2.5}}),
        "because": st.just("reasons"),
        "expires_at": st.just("2030-01-01T00:00:00Z"),
        "declaration_digest": st.just("sha256:0"),
        "must_match": st.just([{"tool": "a.b", "arguments": {"x": 1}, "kind": "function", "operation": "o"}]),
    },
)  # fmt: skip


@given(FULL, st.sampled_from([None, "f.toml"]), st.sampled_from([None, 7]))
def test_a_rule_survives_being_written_and_read_again(members, file, line):
    rule = read_rule(Setting(members=members, source="user_settings", file=file, line=line))
    assert rule_members(members) == members
    assert read_rule(Setting(members=rule_members(members), source="user_settings", file=file, line=line)) == rule


def read(members, source="project_settings"):
    return read_rule(Setting(members=members, source=source))


def test_one_text_is_a_list_of_one():
    one, other = (read({"behavior": "deny", "tool": tool, "path": path}) for tool, path in (("a", "b"), (["a"], ["b"])))
    assert one == other


def test_a_moment_of_toml_is_a_moment():
    moment = datetime(2030, 1, 31, 12, tzinfo=UTC)
    assert read({"behavior": "deny", "tool": "*", "expires_at": moment}).expires_at == "2030-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("members", "advice"),
    [
        ({}, "behavior must be allow, ask or deny"),
        ({"behavior": "passthrough", "tool": "*"}, "behavior must be allow, ask or deny"),
        ({"behavior": "deny"}, r"write tool = \"\*\" to mean every tool"),
        ({"behavior": "deny", "tools": "x"}, "did you mean 'tool'"),
        ({"behavior": "deny", "qqq": "x"}, "use one of name, behavior, tool"),
        ({"behavior": "deny", "tool": 7}, "write each in quotes"),
        ({"behavior": "deny", "tool": []}, "write each in quotes"),
        ({"behavior": "deny", "tool": ["a", 7]}, "write each in quotes"),
        ({"behavior": "deny", "tool": [""]}, "write each in quotes"),
        ({"behavior": "deny", "tool": "*", "name": ""}, "name must be a text"),
        ({"behavior": "allow", "tool": "read_file"}, "write 'namespace.read_file'"),
        ({"behavior": "allow", "tool": ["files.a", "b"]}, "write 'namespace.b'"),
        ({"behavior": "deny", "path": "~other/x"}, "write the directory out"),
        ({"behavior": "deny", "command": "a && b"}, "one pattern per command"),
        ({"behavior": "deny", "url": "https://"}, "needs a host"),
        ({"behavior": "deny", "argument": {}}, "a table of JSON pointers"),
        ({"behavior": "deny", "argument": {"limit": {"max": 1}}}, "write '/limit'"),
        ({"behavior": "deny", "argument": {"/limit": 1}}, "must be a table"),
        ({"behavior": "deny", "argument": {"/limit": {}}}, "must be a table"),
        ({"behavior": "deny", "argument": {"/limit": {"maximum": 1}}}, "did you mean 'max'"),
        ({"behavior": "deny", "argument": {"/limit": {"max": "1"}}}, "write it without quotes"),
        ({"behavior": "deny", "argument": {"/limit": {"one_of": 1}}}, "write it in brackets"),
        ({"behavior": "deny", "argument": {"/limit": {"present": 1}}}, "true or false"),
        ({"behavior": "deny", "tool": "*", "expires_at": "soon"}, "2030-01-31T12:00:00Z"),
        ({"behavior": "deny", "tool": "*", "must_match": {}}, "a list of calls"),
        ({"behavior": "deny", "tool": "*", "must_match": [7]}, "a list of calls"),
        ({"behavior": "allow", "tool": "*", "hook": "h"}, "only an allow of policy_settings"),
        ({"behavior": "allow", "tool": "*", "settles": ["x"]}, "only an allow of a session"),
    ],
)
def test_what_is_wrong_is_reported_with_what_to_do(members, advice):
    with pytest.raises(ValueError, match=advice):
        read(members)


def test_a_hook_is_made_binding_by_the_policy_layers_allow_only():
    assert read({"behavior": "allow", "tool": "*", "hook": "h"}, "policy_settings").hook == "h"
    with pytest.raises(ValueError, match="only an allow of policy_settings"):
        read({"behavior": "deny", "tool": "*", "hook": "h"}, "policy_settings")


def test_every_key_is_described():
    table = rule_settings.RuleTable
    assert [name for name in table.__struct_fields__ if f"\n    {name}: " not in inspect.getdoc(table)] == []


values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), values, max_size=4))
def test_what_is_written_can_be_read_as_toml(members):
    [read] = tomllib.loads(rule_toml(members))["rules"]
    alone = {
        name: value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value
        for name, value in members.items()
    }
    assert read == alone


def test_a_rule_reads_well():
    assert rule_toml({"behavior": "allow", "tool": ["files.read"], "argument": {"/limit": {"max": 100}}}) == (
        '[[rules]]\nbehavior = "allow"\ntool = "files.read"\nargument = { "/limit" = { max = 100 } }\n'
    )


def test_toml_has_no_null():
    with pytest.raises(ValueError, match="no null"):
        rule_toml({"a": None})


SECRETS = {"behavior": "deny", "tool": "files.*", "path": "secrets"}


def read_all(*members):
    return read_rules([Setting(members=each, source="project_settings", file="a.toml", line=3) for each in members])


def test_the_documented_rule_can_be_read():
    block = rule_settings.__doc__.split("```toml")[1].split("```")[0]
    [rule] = read_all(*tomllib.loads(block)["rules"])
    assert rule.ref == "project_settings:keep-secrets"


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
        ({"behavior": "allow", "tool": "read_all", "namespace": "files"}, {"tool": "read_all"}),
        ({"behavior": "deny", "tool": "*", "argument": {"/n": {"min": 5}}}, {"tool": "a.b", "arguments": {"n": 7}}),
    ],
)
def test_a_rule_keeps_its_examples(rule, call):
    read_all({**rule, "must_match": [call]})
    with pytest.raises(
        ConfigError, match=r"^a.toml:3: rule .* matches the call of .*, which it must not; change the rule"
    ):
        read_all({**rule, "must_not_match": [call]})


def test_a_rule_that_does_not_keep_an_example_is_refused():
    with pytest.raises(ConfigError, match=r"^a.toml:3: rule .* does not match the call of 'files.read'"):
        read_all({**SECRETS, "must_match": [{"tool": "files.read", "arguments": {"path": "src/a"}}]})


def test_an_example_that_is_no_call_is_refused():
    with pytest.raises(ConfigError, match=r"^a.toml:3: a call in must_match has no 'args'; did you mean 'arguments'"):
        read_all({**SECRETS, "must_match": [{"tool": "a", "args": {}}]})
    with pytest.raises(ConfigError, match=r"^a.toml:3: tool must be a text, got None"):
        read_all({**SECRETS, "must_match": [{"arguments": {}}]})


def test_every_mistake_is_reported_at_once_with_its_file_and_line():
    written = [
        Setting(members={"behavior": "maybe"}, source="user_settings", file="u.toml", line=1),
        Setting(members=SECRETS, source="user_settings", file="u.toml", line=5),
        Setting(members={"behavior": "deny"}, source="cli_arg"),
        Setting(members={**SECRETS, "must_match": [{"tool": "a.b"}]}, source="session", line=9),
    ]
    with pytest.raises(ConfigError) as caught:
        read_rules(written)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == ["u.toml:1", "cli_arg", "session:9"]
