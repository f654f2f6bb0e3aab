"""What is decided, and the laws that hold whatever the rules are; how rules match is tested beside `match`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.decide import Policy, deny_prefilter
from agenttool.policy.rules import RuleBook
from agenttool.policy.subject import EffectFacts
from agenttool.policy.verdict import Weight
from agenttool.policy.votes import HookVote, PermissionMode

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
SOURCES = ["user_settings", "project_settings", "local_settings", "flag_settings", "policy_settings", "cli_arg",
           "command", "session"]  # fmt: skip

paths = st.lists(st.sampled_from(["src", "secrets", "a", "..", "*", "**"]), min_size=1, max_size=3).map("/".join)
conditions = st.fixed_dictionaries(
    {"tool": st.sampled_from(["*", "files.*", "files.read", "local.shell", "other.tool"])},
    optional={
        "path": paths,
        "command": st.sampled_from(["*", "git *", "git status", "rm", "rm -rf"]),
        "argument": st.just({"/limit": {"max": 10}}),
    },
)
plain_rules = st.tuples(conditions, st.sampled_from(["allow", "ask", "deny"]), st.sampled_from(SOURCES)).map(
    lambda parts: {**parts[0], "behavior": parts[1], "source": parts[2]}
)
rule_lists = st.lists(plain_rules, max_size=6)
modes = st.sampled_from(PermissionMode)
commands = st.lists(
    st.sampled_from(["git status", "rm -r -f x", "ls", "$x", "sudo rm -rf /", "git log"]), min_size=1, max_size=3
).map(" && ".join)
hint_lists = st.lists(
    st.sampled_from(["allow", "ask", "deny", "passthrough"]).map(
        lambda behavior: HookVote(hook="h", hook_ref=f"hook_{behavior}", behavior=behavior)
    ),
    max_size=2,
).map(tuple)


@st.composite
def cases(draw):
    """A policy's rules and mode, and a call to one of two tools."""
    name = draw(st.sampled_from(["files.read", "local.shell"]))
    arguments = {"limit": draw(st.integers(0, 20))}
    arguments |= {"path": draw(paths)} if name == "files.read" else {"command": draw(commands)}
    return draw(rule_lists), draw(modes), name, arguments, draw(hint_lists)


@pytest.fixture(scope="module")
def judge(tool, rules, workspace, now):
    """Judge a case, with a parent or without."""
    subjects = {
        "files.read": tool("files.read", {"path": {"type": "string"}, "limit": {}}),
        "local.shell": tool("local.shell", {"command": {"type": "string"}, "limit": {}}, tool_kind="shell_command"),
    }

    def policy_of(plain, mode="default", *, file="agenttool.toml", **more):
        return Policy(book=RuleBook(rules(*plain, file=file)), mode=PermissionMode(mode), workspace=workspace, **more)

    def decide(plain, mode, name, arguments, hook_votes=(), **more):
        return policy_of(plain, mode, **more).decide(subjects[name], arguments, now=now, hook_votes=hook_votes)

    decide.policy_of = policy_of
    return decide


@given(cases(), plain_rules.map(lambda rule: {**rule, "behavior": "deny"}))
def test_adding_a_deny_rule_never_allows_more(judge, case, added):
    plain, *call = case
    before, after = judge(plain, *call), judge([*plain, added], *call)
    assert STRICTNESS[after.behavior] >= STRICTNESS[before.behavior]


@given(cases(), plain_rules)
def test_adding_any_rule_never_turns_a_deny_into_anything_else(judge, case, added):
    plain, *call = case
    if judge(plain, *call).behavior == "deny":
        assert judge([*plain, added], *call).behavior == "deny"


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(judge, case, rng):
    plain, *call = case
    named = [{**rule, "name": str(number)} for number, rule in enumerate(plain)]
    shuffled = named.copy()
    rng.shuffle(shuffled)
    # The place of a rule in its file is part of messages, so it is left out here.
    assert judge(named, *call, file=None) == judge(shuffled, *call, file=None)


@given(cases(), rule_lists, modes, st.booleans())
def test_ask_24_a_child_never_gets_more_than_its_parent(judge, case, own, mode, interactive):
    plain, parent_mode, *call = case
    parent = judge.policy_of(plain, parent_mode)
    child = judge.policy_of(own, mode, parent=parent, interactive=interactive)
    grandchild = child.for_child()
    _, _, name, arguments, hints = case
    above = judge(plain, parent_mode, *call)
    for policy in (child, grandchild):
        below = judge(own, mode, name, arguments, hints, parent=policy.parent, interactive=interactive)
        assert STRICTNESS[below.behavior] >= STRICTNESS[above.behavior]


@given(commands, st.lists(st.sampled_from(["git *", "git status", "ls", "rm *", "*"]), max_size=3))
def test_an_allowed_command_holds_nothing_that_a_deny_names(judge, text, allowed):
    plain = [{"behavior": "allow", "tool": "local.shell", "command": each} for each in allowed]
    denied = {"behavior": "deny", "tool": "local.shell", "command": "rm"}
    verdict = judge([*plain, denied], "default", "local.shell", {"command": text, "limit": 1})
    if verdict.behavior == "allow":
        assert "rm" not in text
        assert "$x" not in text


@given(cases(), hint_lists)
def test_a_verdict_is_never_passthrough_and_always_says_why(judge, case, hints):
    plain, mode, name, arguments, _ = case
    verdict = judge(plain, mode, name, arguments, hints)
    assert verdict.behavior in STRICTNESS
    assert verdict.reason.message
    assert verdict.reason.type.is_listed


@given(cases())
def test_where_nobody_can_be_asked_nothing_is_asked(judge, case):
    plain, *call = case
    asked, unasked = judge(plain, *call), judge(plain, *call, interactive=False)
    assert unasked.behavior == ("deny" if asked.behavior == "ask" else asked.behavior)


def test_the_strictest_rule_wins_and_the_record_names_those_it_beat(tool, book, workspace, now):
    policy = Policy(
        book=book(
            {"name": "all", "behavior": "allow", "tool": "*"},
            {"name": "look", "behavior": "ask", "tool": "files.*", "path": "**/*.pem"},
            {"name": "keep", "behavior": "deny", "tool": "files.*", "path": "secrets", "because": "keys stay here"},
        ),
        workspace=workspace,
    )
    verdict = policy.decide(tool(), {"path": "secrets/a.pem"}, now=now)
    assert (verdict.behavior, verdict.source, verdict.mode) == ("deny", "project_settings", "default")
    assert verdict.rule_refs == ("project_settings:keep",)
    assert verdict.reason.beaten_rule_refs == ("project_settings:all", "project_settings:look")
    assert verdict.reason.rule_source == "project_settings"
    assert verdict.blocked_path == "/ws/secrets/a.pem"
    assert verdict.reason.message == (
        "rule 'project_settings:keep' (project_settings, agenttool.toml:3) denies path '/ws/secrets/a.pem': keys stay here"
    )


@pytest.mark.requirement("AT-PERM-20")
@pytest.mark.parametrize("source", SOURCES)
def test_a_decision_names_the_source_of_its_rule(tool, book, workspace, now, source):
    policy = Policy(book=book({"behavior": "deny", "tool": "*"}, source=source), workspace=workspace)
    verdict = policy.decide(tool(), {}, now=now)
    assert (verdict.source, verdict.reason.rule_source) == (source, source)
    assert verdict.error_class == ("policy_blocked" if source == "policy_settings" else "permission_denied")


def test_a_tool_that_wants_approval_is_asked_about_unless_a_rule_stands(tool, book, workspace, now):
    subject = tool(profile={"approval_required": True, "approval_reason": "it costs money"})
    assert Policy(workspace=workspace).decide(subject, {}, now=now).reason.message == "it costs money"
    assert Policy(book=book({"behavior": "allow", "tool": "files.read"}), workspace=workspace).decide(
        subject, {}, now=now
    ).behavior == "allow"  # fmt: skip


@pytest.mark.requirement("AT-PERM-08")
@pytest.mark.parametrize(
    ("prompt", "plain", "expected"),
    [
        (None, [], "deny"),
        ("require", [], "deny"),
        ("avoid", [], "allow"),
        ("avoid", [{"behavior": "ask", "tool": "*"}], "deny"),
        ("avoid", [{"behavior": "deny", "tool": "*"}], "deny"),
        ("require", [{"behavior": "allow", "tool": "*"}], "allow"),
    ],
)
def test_where_nobody_can_be_asked_the_profile_says_what_becomes_of_the_question(tool, decide, prompt, plain, expected):
    subject = tool(interface={"is_destructive": False}, profile={"non_interactive_prompt": prompt})
    assert decide(plain, subject, standing={"interactive": False}).behavior == expected


def test_a_harmful_call_is_never_left_unasked_by_its_profile(tool, workspace, now):
    subject = tool(profile={"non_interactive_prompt": "avoid"})
    assert Policy(workspace=workspace, interactive=False).decide(subject, {}, now=now).behavior == "deny"


def test_a_rule_holds_until_it_expires(tool, book, workspace):
    policy = Policy(
        book=book({"behavior": "allow", "tool": "files.*", "expires_at": "2026-05-08T12:00:00Z"}), workspace=workspace
    )
    before, after = (
        policy.decide(tool(), {}, now=moment) for moment in ("2026-05-08T11:59:59.999Z", "2026-05-08T12:00:00Z")
    )
    assert (before.behavior, before.expires_at) == ("allow", "2026-05-08T12:00:00Z")
    assert (after.behavior, after.expires_at) == ("ask", None)


def test_ask_25_a_remembered_rule_no_longer_covers_a_tool_whose_text_has_changed(tool, book, workspace, now):
    before, after = tool(), tool(description="also mails the file to somebody")
    remembered = {"behavior": "allow", "tool": "files.read", "declaration_digest": before.declaration_digest}
    policy = Policy(book=book(remembered, source="session"), workspace=workspace)
    assert policy.decide(before, {}, now=now).behavior == "allow"
    assert policy.decide(after, {}, now=now).behavior == "ask"


def test_ask_24_a_child_inherits_what_its_parent_may_and_loses_what_it_may_not(tool, book, workspace, now):
    parent = Policy(
        book=book({"behavior": "allow", "tool": "files.*"}, {"behavior": "deny", "tool": "files.write"}),
        workspace=workspace,
    )
    child = parent.for_child()
    assert child.decide(tool("files.read"), {}, now=now).behavior == "allow"
    generous = parent.for_child(book=book({"behavior": "allow", "tool": "*"}))
    denied = generous.decide(tool("files.write"), {}, now=now)
    assert denied.behavior == "deny"
    assert denied.reason.details["inherited"] is True
    assert generous.decide(tool("db.drop"), {}, now=now).behavior == "ask"
    background = generous.for_child(interactive=False)
    verdict = background.decide(tool("db.drop"), {}, now=now)
    assert (verdict.behavior, verdict.reason.type) == ("deny", "async_agent")


@pytest.mark.requirement("AT-PERM-09")
def test_a_rule_on_a_field_that_the_profile_does_not_list_is_reported_as_not_applicable(tool, book, workspace, now):
    subject = tool("files.fetch", ("path", "url"), profile={"rule_matching_fields": ("path",)})
    policy = Policy(
        book=book(
            {"name": "u", "behavior": "deny", "tool": "files.*", "url": "evil.example"},
            {"name": "p", "behavior": "deny", "tool": "files.*", "path": "secrets"},
            {"name": "everywhere", "behavior": "deny", "url": "evil.example"},
        ),
        workspace=workspace,
    )
    verdict = policy.decide(subject, {"path": "secrets/a", "url": "https://evil.example"}, now=now)
    assert verdict.rule_refs == ("project_settings:p",)
    assert verdict.reason.details["not_applicable"] == [{"rule_ref": "project_settings:u", "fields": ["url"]}]


def test_a_standing_deny_is_known_before_any_call(tool, book, workspace):
    policy = Policy(
        book=book({"behavior": "deny", "tool": "db.*"}, {"behavior": "allow", "tool": "db.*", "path": "x"}),
        workspace=workspace,
    )
    assert policy.standing(tool("db.drop")).weight is Weight.DENY
    assert policy.standing(tool("db.drop", ())).weight is Weight.DENY
    assert policy.standing(tool("files.read")).behavior == "ask"


@pytest.mark.requirement("AT-PERM-11")
def test_the_profile_is_a_fact_and_each_call_has_its_own_decision(tool, book, workspace, now):
    subject = tool(profile={"risk_level": "high"})
    profile = subject.profile
    decided = {
        Policy(book=book({"behavior": behavior, "tool": "files.*"}), workspace=workspace)
        .decide(subject, {}, now=now)
        .behavior
        for behavior in ("allow", "deny")
    }
    assert decided == {"allow", "deny"}
    assert subject.profile is profile


def test_a_fact_of_one_call_counts_even_where_the_answer_was_settled(tool, book, workspace, now):
    subject = tool(interface={"is_destructive": False})
    policy = Policy(workspace=workspace)
    assert policy.decide(subject, {}, now=now).weight is Weight.ASK_ANYONE
    assert policy.decide(subject, {}, now=now, facts=EffectFacts(is_destructive=True)).weight is Weight.ASK_ABOUT_HARM


def test_a_call_whose_arguments_do_not_matter_is_answered_from_memory(tool, book, workspace, now):
    policy = Policy(
        book=book({"behavior": "allow", "tool": "files.*"}, {"behavior": "deny", "path": "x", "tool": "git.*"})
    )
    subject = tool()
    assert policy.decide(subject, {"path": "a"}, now=now) is policy.decide(subject, {"path": "b"}, now=now)


def test_a_policy_remembers_only_so_many_tools(tool, book, workspace, now, monkeypatch):
    monkeypatch.setattr("agenttool.policy.decide.MAX_PLANS", 3)
    policy = Policy(book=book({"behavior": "allow", "tool": "*"}), workspace=workspace)
    assert {policy.decide(tool(f"a.t{number}"), {}, now=now).behavior for number in range(10)} == {"allow"}
    assert len(policy._plans) <= 3


written = st.lists(
    st.fixed_dictionaries(
        {"behavior": st.sampled_from(["ask", "deny"])},
        optional={
            "tool": st.sampled_from(["*", "files.*", "FILES.Read", "read", "look", "r??d", "[r]ead", "other.tool"]),
            "namespace": st.sampled_from(["files", "o*"]),
            "kind": st.just("function"),
            "path": st.just("secrets/**"),
            "expires_at": st.just("2030-01-01T00:00:00Z"),
        },
    ).filter(lambda rule: rule.keys() & {"tool", "namespace", "kind", "path"}),
    max_size=4,
)


@pytest.fixture(scope="module")
def subjects(tool):
    reads = {"is_read_only": True, "is_destructive": False}
    return [tool("files.read", aliases=("Look",), interface=reads), tool("files.write"), tool("other.[r]ead")]


@given(written, st.sampled_from([*PermissionMode, PermissionMode("odd")]), st.booleans(), st.booleans())
def test_whatever_is_denied_in_any_case_is_a_suspect(subjects, rules, plain, mode, interactive, has_parent):
    allow = {"behavior": "allow", "tool": "*"}
    policy = Policy(book=RuleBook(rules(allow, *plain)), mode=mode, interactive=interactive)
    policy = policy.for_child(book=RuleBook()) if has_parent else policy
    is_suspect = deny_prefilter(policy)
    for each in subjects:
        verdict = policy.standing(each)
        assert is_suspect(each.declaration, lambda each=each: each) or verdict is None or verdict.behavior != "deny"


def test_a_rule_that_denies_one_tool_leaves_others_unsuspected(subjects, rules):
    policy = Policy(book=RuleBook(rules({"behavior": "deny", "tool": "files.write"})))
    is_suspect = deny_prefilter(policy)
    assert [is_suspect(each.declaration, lambda each=each: each) for each in subjects] == [False, True, False]
