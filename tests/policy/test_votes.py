import pytest

from agenttool.policy.decide import Policy
from agenttool.policy.subject import EffectFacts
from agenttool.policy.votes import ExternalVote, HookVote, PermissionMode

EDITOR = {
    "interface": {"is_open_world": False},
    "profile": {
        "risk_level": "medium",
        "access_kinds": ("file_read", "file_write"),
        "write_effects": ("local_persistent",),
    },
}


@pytest.fixture
def decided(workspace, now):
    def decide(subject, arguments, mode="default", **standing):
        facts = standing.pop("facts", None)
        policy = Policy(mode=PermissionMode(mode), workspace=workspace, **standing)
        verdict = policy.decide(subject, arguments, now=now, facts=facts)
        return verdict.behavior, verdict.reason.type

    return decide


def test_by_default_everything_is_asked_about(tool, decided):
    assert decided(tool(), {"path": "a"}) == ("ask", "safety_check")
    assert decided(tool(interface={"is_destructive": False}), {"path": "a"}) == ("ask", "other")


def test_what_is_declared_harmless_in_every_respect_goes_unasked_inside_the_workspace(tool, harmless, decided):
    reader = tool("files.read", **harmless)
    assert decided(reader, {"path": "src/a"}) == ("allow", "mode")
    assert decided(reader, {"path": "/etc/passwd"}) == ("ask", "working_dir")
    assert decided(reader, {"path": "../x"}) == ("ask", "working_dir")
    assert decided(reader, {}) == ("allow", "mode")
    assert decided(tool("math.add", ("a", "b"), **harmless), {"a": 1}) == ("allow", "mode")


@pytest.mark.parametrize(
    "records",
    [
        {"interface": {"is_read_only": None}},
        {"interface": {"is_destructive": None}},
        {"interface": {"is_open_world": None}},
        {"interface": {"is_open_world": True}},
        {"profile": {"approval_required": None}},
        {"profile": {"approval_required": True}},
        {"profile": {"risk_level": "medium"}},
        {"profile": {"access_kinds": ("network",)}},
        {"profile": {"write_effects": ("local_draft",)}},
        {"profile": {"access_kinds": ("file_read",)}},
    ],
)
def test_one_doubt_about_a_tool_is_enough_to_ask(tool, harmless, decided, records):
    joined = {part: {**harmless[part], **records.get(part, {})} for part in harmless}
    assert decided(tool("math.add", ("a",), **joined), {"a": 1})[0] == "ask"


@pytest.mark.parametrize("argument", ["cmd", "cmd2", "command", "commands", "argv"])
def test_the_name_of_an_argument_alone_does_not_make_a_harmless_tool_one_that_is_asked_about(
    tool, harmless, decided, decide, argument
):
    harmless_tool = tool("math.run", (argument,), **harmless)
    assert decided(harmless_tool, {argument: "rm -rf /"}) == ("allow", "mode")
    assert decide(
        [{"behavior": "deny", "tool": "*", "command": "rm *"}], harmless_tool, {argument: "rm x"}
    ).behavior == ("deny")
    for declared in ({"tool_kind": "shell_command"}, {"profile": {"rule_matching_fields": ("command",)}}):
        records = {**harmless, **declared, "profile": {**harmless["profile"], **declared.get("profile", {})}}
        assert decided(tool("local.run", (argument,), **records), {argument: "ls"})[0] == "ask"


def test_read_only_denies_whatever_is_not_declared_to_be_read_only(tool, harmless, decided, book):
    assert decided(tool(), {"path": "a"}, "read_only") == ("deny", "mode")
    assert decided(tool(), {"path": "a"}, "read_only", book=book({"behavior": "allow", "tool": "*"})) == (
        "deny",
        "mode",
    )
    assert decided(tool(**harmless), {"path": "a"}, "read_only") == ("allow", "mode")


def test_read_only_takes_the_word_of_a_classifier_where_the_fact_is_computed(tool, decided):
    subject = tool(interface={"is_read_only": "classifier:x", "is_destructive": "classifier:x"})
    reads = EffectFacts(is_read_only=True, is_destructive=False, is_open_world=True)
    assert decided(subject, {"path": "a"}, "read_only") == ("deny", "mode")
    assert decided(subject, {"path": "a"}, "read_only", facts=reads) == ("ask", "other")
    assert decided(tool(), {"path": "a"}, "read_only", facts=reads) == ("deny", "mode")


def test_accept_edits_lets_files_of_the_workspace_be_changed(tool, decided):
    editor = tool("files.write", **EDITOR)
    assert decided(editor, {"path": "src/a"}) == ("ask", "safety_check")
    assert decided(editor, {"path": "src/a"}, "accept_edits") == ("allow", "mode")
    assert decided(editor, {"path": "/etc/hosts"}, "accept_edits")[0] == "ask"


@pytest.mark.parametrize(
    "profile",
    [
        {"approval_required": True},
        {"access_kinds": ("file_write", "network")},
        {"access_kinds": None},
        {"write_effects": ("remote_mutation",)},
        {"write_effects": None},
        {"write_effects": ("unheard_of",)},
    ],
)
def test_accept_edits_is_about_nothing_but_edits(tool, decided, profile):
    editor = tool("files.write", interface=EDITOR["interface"], profile={**EDITOR["profile"], **profile})
    assert decided(editor, {"path": "src/a"}, "accept_edits")[0] == "ask"


def test_a_mode_that_nobody_listed_lets_nothing_run(tool, harmless, decided, book):
    assert decided(tool(**harmless), {"path": "a"}, "yolo", book=book({"behavior": "allow", "tool": "*"})) == (
        "deny",
        "mode",
    )


def test_a_tool_that_needs_a_person_present_is_denied_where_there_is_none(tool, harmless, decided):
    subject = tool(interface={**harmless["interface"], "requires_user_interaction": True}, profile=harmless["profile"])
    assert decided(subject, {"path": "a"}, interactive=False) == ("deny", "mode")
    assert decided(subject, {"path": "a"}) == ("allow", "mode")


def hint(behavior, hook="guard"):
    return HookVote(hook=hook, hook_ref=f"hook_{hook}", behavior=behavior)


@pytest.mark.requirement("AT-PERM-18")
@pytest.mark.requirement("AT-HOOK-14")
@pytest.mark.parametrize(
    ("plain", "hints", "expected"),
    [
        ([{"behavior": "deny", "tool": "*"}], [hint("allow")], "deny"),
        ([{"behavior": "ask", "tool": "*"}], [hint("allow")], "ask"),
        ([{"behavior": "allow", "tool": "*"}], [hint("deny")], "deny"),
        ([{"behavior": "allow", "tool": "*"}], [hint("ask")], "ask"),
        ([{"behavior": "allow", "tool": "*"}], [hint("passthrough")], "allow"),
        ([], [hint("allow")], "allow"),
        ([], [hint("allow"), hint("passthrough", "b")], "ask"),
        ([], [hint("allow"), hint("ask", "b")], "ask"),
        ([], [hint("ask"), hint("deny", "b")], "deny"),
        ([], [hint("passthrough")], "ask"),
    ],
)
def test_a_hook_votes_and_its_allow_beats_no_rule(tool, decide, plain, hints, expected):
    verdict = decide(plain, tool(interface={"is_destructive": False}), hook_votes=tuple(hints))
    assert verdict.behavior == expected
    assert [each["hook_ref"] for each in verdict.reason.details["hooks"]] == [each.hook_ref for each in hints]


def test_a_hooks_allow_is_not_the_approval_that_a_tool_wants(tool, decide):
    for subject in (tool(), tool(profile={"approval_required": True}, interface={"is_destructive": False})):
        assert decide([], subject, hook_votes=(hint("allow"),)).behavior == "ask"


@pytest.mark.requirement("AT-HOOK-15")
def test_a_hook_decides_only_where_the_policy_layer_says_so(tool, decide):
    grant = {"behavior": "allow", "tool": "files.*", "hook": "guard", "name": "g", "source": "policy_settings"}
    denied = {"behavior": "deny", "tool": "*", "name": "d"}
    allowing = (hint("allow"),)
    verdict = decide([grant, denied], tool(), hook_votes=allowing)
    assert (verdict.behavior, verdict.reason.type) == ("allow", "hook")
    assert verdict.policy_refs == ("policy_settings:g",)
    assert verdict.reason.policy_ref == "policy_settings:g"
    assert verdict.reason.beaten_rule_refs == ("project_settings:d",)
    assert decide([grant, denied], tool(), hook_votes=(hint("allow", "other"),)).behavior == "deny"
    assert decide([grant, denied], tool(), hook_votes=(hint("allow"), hint("deny", "other"))).behavior == "deny"
    assert decide([grant, denied], tool("db.drop"), hook_votes=allowing).behavior == "deny"
    assert decide([grant, {**denied, "source": "policy_settings"}], tool(), hook_votes=allowing).behavior == "deny"
    assert decide([grant], tool()).behavior == "ask"


def opinion(behavior, authority="approve", kind="classifier", **more):
    return ExternalVote(ref="judge", kind=kind, authority=authority, behavior=behavior, **more)


@pytest.mark.requirement("AT-PERM-25")
@pytest.mark.parametrize(
    ("plain", "given_opinion", "expected"),
    [
        ([], opinion("allow"), "allow"),
        ([], opinion("deny"), "deny"),
        ([], opinion("ask"), "ask"),
        ([], opinion("passthrough"), "ask"),
        ([], opinion("allow", "deny"), "ask"),
        ([], opinion("deny", "deny"), "deny"),
        ([], opinion("allow", "recommend"), "ask"),
        ([], opinion("deny", "recommend"), "ask"),
        ([{"behavior": "allow", "tool": "*"}], opinion("deny", "recommend"), "allow"),
        ([{"behavior": "ask", "tool": "*"}], opinion("allow", "recommend"), "ask"),
        ([{"behavior": "ask", "tool": "*"}], opinion("allow"), "ask"),
        ([{"behavior": "deny", "tool": "*"}], opinion("allow"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion("deny", "deny"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, status="pending"), "ask"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, "recommend", status="pending"), "allow"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, kind="engine"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion("allow", kind="engine", status="failed"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, "deny", status="failed"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, status="failed"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion("permit"), "deny"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, "recommend", status="failed"), "allow"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None), "allow"),
        ([{"behavior": "allow", "tool": "*"}], opinion(None, "deny"), "allow"),
        ([], opinion("allow", kind="engine"), "allow"),
        ([{"behavior": "allow", "tool": "*"}], opinion("permit", kind="engine"), "deny"),
    ],
)
def test_an_opinion_counts_for_what_it_may(tool, decide, plain, given_opinion, expected):
    verdict = decide(plain, tool(), external_votes=(given_opinion,))
    assert verdict.behavior == expected
    assert verdict.pending_classifier_check == given_opinion.check
    assert verdict.reason.details["opinions"][0]["ref"] == "judge"


def test_an_engines_deny_is_the_policy_layers(tool, decide):
    said = opinion("deny", kind="engine", policy_refs=("policy:7",), reason="forbidden by policy 7")
    verdict = decide([], tool(), external_votes=(said,))
    assert (verdict.error_class, verdict.reason.type) == ("policy_blocked", "policy")
    assert verdict.policy_refs == ("judge", "policy:7")
