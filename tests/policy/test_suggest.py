import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from agenttool.config import Setting
from agenttool.policy.decide import Policy
from agenttool.policy.paths import Workspace
from agenttool.policy.rule_settings import read_rules
from agenttool.policy.suggest import suggest
from agenttool.policy.votes import HookVote, PermissionMode
from agenttool.records import InputContract

names = st.text("ab*?. '\"%$~/-", min_size=1, max_size=6)
command_lines = st.lists(
    st.sampled_from(["git status", "git log -3", "echo 'a; b'", "A=1 make x", "ls *.py", "echo '*'", "cat < f",
                     "env -i ls", "bash -c 'git status'", "echo hi > out.txt", "x=1", "$x", "echo $y"]),
    min_size=1, max_size=3,
).map(" && ".join)  # fmt: skip
calls = (
    st.tuples(st.just("files.read"), st.fixed_dictionaries({"path": names}))
    | st.tuples(st.just("local.shell"), st.fixed_dictionaries({"command": command_lines}))
    | st.tuples(
        st.just("web.get"), st.fixed_dictionaries({"url": st.sampled_from(["https://e.org/a?b=c", "http://x", "??"])})
    )
    | st.tuples(st.just("git.pull"), st.fixed_dictionaries({"resource": names}))
    | st.tuples(st.just("math.add"), st.dictionaries(st.text("ab/~", max_size=3), json_values(), max_size=3))
)


def from_toml(text):
    return read_rules([Setting(members=members, source="local_settings") for members in tomllib.loads(text)["rules"]])


@pytest.fixture(scope="module")
def policies(book, workspace):
    """With or without a rule that asks; with or without anybody to ask."""
    asking = book({"behavior": "ask", "tool": "*", "name": "q"})
    return [
        Policy(book=rules, workspace=workspace, interactive=interactive)
        for rules in (book(), asking)
        for interactive in (True, False)
    ]


@given(calls, st.integers(0, 3))
def test_an_approver_that_accepts_the_suggestion_is_not_asked_again(tool, policies, now, call, which):
    name, arguments = call
    subject, policy = tool(name, tuple(arguments)), policies[which]
    verdict = policy.decide(subject, arguments, now=now)
    for update in suggest(policy, verdict, policy.targets(subject, arguments, None)):
        assert update.type == "add_rule"
        [rule] = read_rules([Setting(members={**update.rule, "name": "s"}, source="session")])
        assert policy.with_book(policy.book.with_rule(rule)).decide(subject, arguments, now=now).behavior == "allow"
        if isinstance(update.value, str):
            assert not len(policy.book)
            [pasted] = from_toml(update.value)
            assert (
                policy.with_book(policy.book.with_rule(pasted)).decide(subject, arguments, now=now).behavior == "allow"
            )


def closed(tool, name, properties, **contract):
    """Make a tool that takes no other arguments."""
    schema = {"type": "object", "properties": {each: {} for each in properties}, "additionalProperties": False}
    return tool(name, input_contract=InputContract(model_input_schema=schema, **contract))


def exactly(*tests):
    return f"argument = {{ {', '.join(tests)} }}\n"


@pytest.mark.requirement("AT-PERM-22")
@pytest.mark.parametrize(
    ("name", "arguments", "toml"),
    [
        (
            "files.read",
            {"path": "src/../src/a.py"},
            'tool = "files.read"\npath = "src/a.py"\n' + exactly('"/path" = { equals = "src/../src/a.py" }'),
        ),
        (
            "files.read",
            {"path": "/etc/hosts"},
            'tool = "files.read"\npath = "/etc/hosts"\n' + exactly('"/path" = { equals = "/etc/hosts" }'),
        ),
        (
            "local.shell",
            {"command": "git status && npm test"},
            'tool = "local.shell"\ncommand = ["git status", "npm test"]\n'
            + exactly('"/command" = { equals = "git status && npm test" }'),
        ),
        (
            "local.shell",
            {"command": "make > out"},
            'tool = "local.shell"\ncommand = "make"\npath = "out"\n'
            + exactly('"/command" = { equals = "make > out" }'),
        ),
        (
            "local.shell",
            {"command": "ls *.py"},
            'tool = "local.shell"\n' + exactly('"/command" = { equals = "ls *.py" }'),
        ),
        (
            "web.get",
            {"url": "https://e.org/a?q=1"},
            'tool = "web.get"\n' + exactly('"/url" = { equals = "https://e.org/a?q=1" }'),
        ),
        ("math.add", {"a": 1}, 'tool = "math.add"\n' + exactly('"/a" = { equals = 1 }')),
        ("math.add", {}, 'tool = "math.add"\n' + exactly('"" = { equals = {  } }')),
        ("add", {"a": 1}, 'tool = "add"\nnamespace = ""\n' + exactly('"/a" = { equals = 1 }')),
    ],
)
def test_the_suggestion_is_the_smallest_rule(tool, workspace, now, name, arguments, toml):
    subject, policy = closed(tool, name, arguments), Policy(workspace=workspace)
    [update] = suggest(policy, policy.decide(subject, arguments, now=now), policy.targets(subject, arguments, None))
    assert update.value == '[[rules]]\nbehavior = "allow"\n' + toml
    assert update.rule["declaration_digest"] == subject.declaration_digest
    assert update.destination == "session"


WRITE = {"path": "notes/a.txt", "content": "hello", "mode": "append"}
OTHER_WRITES = [
    {**WRITE, "content": "rm -rf"},
    {**WRITE, "mode": "replace"},
    {**WRITE, "path": "notes/b.txt"},
    {**WRITE, "path": "notes/a.txt/below"},
    {**WRITE, "force": True},
    {name: value for name, value in WRITE.items() if name != "mode"},
]


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("other", OTHER_WRITES)
def test_an_accepted_suggestion_allows_only_what_the_approver_saw(tool, workspace, now, is_closed, other):
    names = (*WRITE, "force")
    subject = closed(tool, "files.write", names) if is_closed else tool("files.write", names)
    policy = Policy(workspace=workspace)
    [update] = suggested(policy, subject, WRITE, now)
    [rule] = read_rules([Setting(members={**update.rule, "name": "s"}, source="session")])
    allowing = policy.with_book(policy.book.with_rule(rule))
    assert allowing.decide(subject, WRITE, now=now).behavior == "allow"
    assert allowing.decide(subject, other, now=now).behavior == "ask"


@pytest.mark.parametrize(
    ("name", "seen", "other"),
    [
        ("web.post", {"url": "https://e.org/a", "body": "x"}, {"url": "https://e.org/a", "body": "y"}),
        ("web.get", {"url": "https://e.org/a"}, {"url": "https://e.org/a/b?delete=1"}),
        ("local.shell", {"command": "ls", "cwd": "a"}, {"command": "ls", "cwd": "b"}),
        ("local.shell", {"command": "a && b"}, {"command": "b && a"}),
        ("files.move", {"from_path": "a", "to_path": "b"}, {"from_path": "b", "to_path": "a"}),
        ("git.pull", {"resource": "r", "rebase": False}, {"resource": "r", "rebase": True}),
    ],
)
def test_an_argument_beside_the_target_is_part_of_the_suggestion(tool, workspace, now, name, seen, other):
    subject, policy = closed(tool, name, seen), Policy(workspace=workspace)
    [update] = suggested(policy, subject, seen, now)
    [rule] = read_rules([Setting(members={**update.rule, "name": "s"}, source="session")])
    allowing = policy.with_book(policy.book.with_rule(rule))
    assert allowing.decide(subject, seen, now=now).behavior == "allow"
    assert allowing.decide(subject, other, now=now).behavior == "ask"


def test_a_rule_that_is_too_long_to_read_is_not_suggested(tool, workspace, now):
    subject = closed(tool, "files.write", ("path", "content"))
    assert suggested(Policy(workspace=workspace), subject, {"path": "a", "content": "x" * 10_000}, now) == ()


@pytest.mark.requirement("AT-PERM-23")
def test_a_suggestion_changes_nothing_until_it_is_accepted(tool, workspace, now):
    subject, policy = tool(), Policy(workspace=workspace)
    first = policy.decide(subject, {"path": "a"}, now=now)
    assert suggest(policy, first, policy.targets(subject, {"path": "a"}, None))
    assert policy.decide(subject, {"path": "a"}, now=now) == first


def suggested(policy, subject, arguments, now, **received):
    return suggest(
        policy, policy.decide(subject, arguments, now=now, **received), policy.targets(subject, arguments, None)
    )


@pytest.mark.parametrize("behavior", ["ask", "deny"])
def test_nothing_is_ever_suggested_against_the_policy_layer(tool, book, workspace, now, behavior):
    rules = book(
        {"behavior": behavior, "tool": "*", "source": "policy_settings"}, {"behavior": behavior, "tool": "files.*"}
    )
    assert suggested(Policy(book=rules, workspace=workspace), tool(), {"path": "a"}, now) == ()


def test_nothing_is_suggested_where_no_rule_would_help(tool, shell, workspace, now, book):
    policy = Policy(workspace=workspace)
    asked = (HookVote(hook="h", hook_ref="h1", behavior="ask"),)
    assert suggested(policy, tool(), {"path": "a"}, now, hook_votes=asked) == ()
    assert suggested(policy, shell, {"command": "eval $x"}, now) == ()
    allowed = Policy(book=book({"behavior": "allow", "tool": "*"}), workspace=workspace)
    assert suggested(allowed, tool(), {"path": "a"}, now) == ()
    strict = Policy(book=book({"behavior": "ask", "tool": "*"}), workspace=workspace)
    assert suggested(allowed.for_child().for_child(), tool(), {"path": "a"}, now) == ()
    below = Policy(book=allowed.book, workspace=workspace, parent=strict)
    assert suggested(below, tool(), {"path": "a"}, now) == ()


def test_against_a_deny_only_its_removal_is_suggested(tool, book, workspace, now):
    policy = Policy(book=book({"name": "d", "behavior": "deny", "tool": "*"}), workspace=workspace)
    [update] = suggested(policy, tool(), {"path": "a"}, now)
    assert (update.type, update.destination) == ("remove_rule", "project_settings")
    assert update.value == {"rule_ref": "project_settings:d", "origin": "project_settings, agenttool.toml:1"}
    assert policy.with_book(policy.book.without("project_settings:d")).decide(tool(), {}, now=now).behavior == "ask"


def test_against_a_mode_another_mode_is_suggested(tool, workspace, now):
    policy = Policy(mode=PermissionMode.READ_ONLY, workspace=workspace)
    [update] = suggested(policy, tool(), {"path": "a"}, now)
    assert (update.type, update.value) == ("set_mode", "default")
    assert suggested(Policy(mode=PermissionMode("odd"), workspace=workspace), tool(), {}, now) == ()


def test_a_path_outside_may_be_added_to_the_workspace(tool, harmless, workspace, now):
    rule, directory = suggested(Policy(workspace=workspace), tool(**harmless), {"path": "/data/x/a"}, now)
    assert rule.type == "add_rule"
    assert (directory.type, directory.value) == ("add_directory", "/data/x")
    wider = Workspace(roots=("/ws", "/data/x"), home="/home/me", resolve=os.path.normpath)
    assert Policy(workspace=wider).decide(tool(**harmless), {"path": "/data/x/a"}, now=now).behavior == "allow"


def test_a_sensitive_value_is_never_repeated(tool, workspace, now):
    subject = closed(tool, "bank.pay", ("token", "n"), sensitive_fields=("token",))
    [update] = suggested(Policy(workspace=workspace), subject, {"token": "s3cret", "n": 1}, now)
    assert "s3cret" not in str(update)
    assert update.rule["argument"] == {"/token": {"present": True}, "/n": {"equals": 1}}
    hidden = tool(
        "x.run",
        input_contract=InputContract(
            model_input_schema={"properties": {"command": {}}}, sensitive_fields=("/command",)
        ),
    )
    assert suggested(Policy(workspace=workspace), hidden, {"command": "login s3cret"}, now) == ()
    assert suggested(Policy(workspace=workspace), subject, {"token": "s3cret"}, now) == ()
    open_schema = {"type": "object", "properties": {"token": {"type": "string"}, "n": {}}}
    contract = InputContract(model_input_schema=open_schema, sensitive_fields=("token",))
    subject = tool("bank.pay", input_contract=contract)  # what else it is given could not be excluded
    assert suggested(Policy(workspace=workspace), subject, {"token": "s3cret", "n": 1}, now) == ()
