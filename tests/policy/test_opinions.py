import pytest

from agenttool.policy.opinions import HookHint, Opinion


def hint(behavior, hook="guard"):
    return HookHint(hook=hook, hook_ref=f"hook_{hook}", behavior=behavior)


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
def test_a_hook_is_heard_and_its_allow_beats_no_rule(tool, decide, plain, hints, expected):
    verdict = decide(plain, tool(interface={"is_destructive": False}), hints=tuple(hints))
    assert verdict.behavior == expected
    assert [each["hook_ref"] for each in verdict.reason.details["hooks"]] == [each.hook_ref for each in hints]


def test_a_hooks_allow_is_not_the_approval_that_a_tool_wants(tool, decide):
    for subject in (tool(), tool(profile={"approval_required": True}, interface={"is_destructive": False})):
        assert decide([], subject, hints=(hint("allow"),)).behavior == "ask"


@pytest.mark.requirement("AT-HOOK-15")
def test_a_hook_decides_only_where_the_policy_layer_says_so(tool, decide):
    grant = {"behavior": "allow", "tool": "files.*", "hook": "guard", "name": "g", "source": "policy_settings"}
    denied = {"behavior": "deny", "tool": "*", "name": "d"}
    allowing = (hint("allow"),)
    verdict = decide([grant, denied], tool(), hints=allowing)
    assert (verdict.behavior, verdict.reason.type) == ("allow", "hook")
    assert verdict.policy_refs == ("policy_settings:g",)
    assert verdict.reason.policy_ref == "policy_settings:g"
    assert verdict.reason.beaten_rule_refs == ("project_settings:d",)
    assert decide([grant, denied], tool(), hints=(hint("allow", "other"),)).behavior == "deny"
    assert decide([grant, denied], tool(), hints=(hint("allow"), hint("deny", "other"))).behavior == "deny"
    assert decide([grant, denied], tool("db.drop"), hints=allowing).behavior == "deny"
    assert decide([grant, {**denied, "source": "policy_settings"}], tool(), hints=allowing).behavior == "deny"
    assert decide([grant], tool()).behavior == "ask"


def opinion(behavior, authority="approve", kind="classifier", **more):
    return Opinion(ref="judge", kind=kind, authority=authority, behavior=behavior, **more)


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
        ([{"behavior": "allow", "tool": "*"}], opinion(None, status="failed"), "allow"),
        ([], opinion(None, status="failed"), "ask"),
        ([], opinion("allow", kind="engine"), "allow"),
        ([{"behavior": "allow", "tool": "*"}], opinion("permit", kind="engine"), "deny"),
    ],
)
def test_an_opinion_counts_for_what_it_may(tool, decide, plain, given_opinion, expected):
    verdict = decide(plain, tool(), opinions=(given_opinion,))
    assert verdict.behavior == expected
    assert verdict.pending_classifier_check == given_opinion.check
    assert verdict.reason.details["opinions"][0]["ref"] == "judge"


def test_an_engines_deny_is_the_policy_layers(tool, decide):
    said = opinion("deny", kind="engine", policy_refs=("policy:7",), reason="forbidden by policy 7")
    verdict = decide([], tool(), opinions=(said,))
    assert (verdict.error_class, verdict.reason.type) == ("policy_blocked", "policy")
    assert verdict.policy_refs == ("judge", "policy:7")
