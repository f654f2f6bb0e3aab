from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.written import MEMBERS, WrittenRule, members_of, read_rule

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
    written = WrittenRule(members=members, source="user_settings", file=file, line=line)
    rule = read_rule(written)
    assert members_of(rule) == members
    assert read_rule(WrittenRule(members=members_of(rule), source="user_settings", file=file, line=line)) == rule


def read(members, source="project_settings"):
    return read_rule(WrittenRule(members=members, source=source))


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
        ({"behavior": "deny", "qqq": "x"}, "use name, behavior, tool"),
        ({"behavior": "deny", "tool": 7}, "write it in quotes"),
        ({"behavior": "deny", "tool": []}, "write it in quotes"),
        ({"behavior": "deny", "tool": ["a", 7]}, "write each in quotes"),
        ({"behavior": "deny", "tool": [""]}, "write each in quotes"),
        ({"behavior": "deny", "tool": "*", "name": ""}, "name must be a text"),
        ({"behavior": "allow", "tool": "read_file"}, "write 'namespace.read_file'"),
        ({"behavior": "allow", "tool": ["files.a", "b"]}, "write 'namespace.b'"),
        ({"behavior": "deny", "path": "~other/x"}, "write the directory out"),
        ({"behavior": "deny", "command": "a && b"}, "one pattern per command"),
        ({"behavior": "deny", "url": "https://"}, "needs a host"),
        ({"behavior": "deny", "argument": {}}, "must map JSON pointers"),
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
        ({"behavior": "deny", "tool": "*", "must_match": [{"arguments": {}}]}, "write both"),
        ({"behavior": "deny", "tool": "*", "must_match": [{"tool": "a", "args": {}}]}, "did you mean 'arguments'"),
        ({"behavior": "allow", "tool": "*", "hook": "h"}, "only an allow of policy_settings"),
        ({"behavior": "allow", "tool": "*", "settles": ["x"]}, "only an allow of a session"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(members, advice):
    with pytest.raises(ValueError, match=advice):
        read(members)


def test_a_hook_is_made_binding_by_the_policy_layers_allow_only():
    assert read({"behavior": "allow", "tool": "*", "hook": "h"}, "policy_settings").hook == "h"
    with pytest.raises(ValueError, match="only an allow of policy_settings"):
        read({"behavior": "deny", "tool": "*", "hook": "h"}, "policy_settings")


def test_every_member_has_a_name_in_the_documentation():
    from agenttool.policy import sources  # noqa: PLC0415 -- its docstring is what is tested

    session_only = {"hook", "settles", "declaration_digest"}
    assert [name for name in MEMBERS if f"\n{name} = " not in sources.__doc__ and name not in session_only] == []
