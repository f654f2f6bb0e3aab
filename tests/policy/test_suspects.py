"""A tool that is cleared is never denied whatever its arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.policy.decide import Policy
from agenttool.policy.mode import PermissionMode
from agenttool.policy.rules import RuleBook
from agenttool.policy.suspects import suspects_of

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
    is_suspect = suspects_of(policy)
    for each in subjects:
        verdict = policy.standing(each)
        assert is_suspect(each.declaration, lambda each=each: each) or verdict is None or verdict.behavior != "deny"


def test_a_rule_that_denies_one_tool_leaves_others_unsuspected(subjects, rules):
    policy = Policy(book=RuleBook(rules({"behavior": "deny", "tool": "files.write"})))
    is_suspect = suspects_of(policy)
    assert [is_suspect(each.declaration, lambda each=each: each) for each in subjects] == [False, True, False]
