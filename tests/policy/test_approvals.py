from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import digest_of, read, write
from agenttool.config import Setting
from agenttool.policy.approvals import (
    Allow,
    Answered,
    Approvals,
    Approver,
    Deny,
    Edit,
    Question,
    Refused,
    Remember,
    answer_record,
    edit_stands,
    expiry_record,
    rejection,
)
from agenttool.policy.decide import Policy
from agenttool.policy.rule_settings import read_rule
from agenttool.policy.suggest import suggest
from agenttool.policy.verdict import SuggestedUpdates, decision_record
from agenttool.ports.world import OsUser
from agenttool.records import PermissionDecision, Reason, text_item

BEFORE, ASKED, LATER, END, AFTER = (f"2026-05-08T12:0{minute}:00Z" for minute in (0, 1, 2, 5, 6))
INPUT = {"path": "a", "token": "s3cret"}
ANN = Approver(os_user=OsUser(1000, "ada"), claim="ann")


@pytest.fixture
def question(tool, workspace):
    def make(approval_id="apr_1", **changed):
        subject, policy = tool(), Policy(workspace=workspace)
        verdict = policy.decide(subject, INPUT, now=ASKED)
        return Question(
            **{
                "approval_id": approval_id,
                "invocation_id": "inv_1",
                "decision_id": "dec_1",
                "tool_id": subject.declaration.tool_id,
                "tool_name": subject.qualified_name,
                "shown": {"path": "a", "token": "…"},
                "input_digest": digest_of(INPUT),
                "declaration_digest": subject.declaration_digest,
                "verdict": verdict,
                "suggestions": SuggestedUpdates(
                    partial(suggest, policy, verdict, policy.targets(subject, INPUT, None))
                ),
                "asked_at": ASKED,
                "expires_at": END,
                **changed,
            }
        )

    return make


@pytest.fixture
def approvals(question):
    found = Approvals()
    found.open(question())
    return found


def test_an_answer_is_taken_once(approvals, question):
    first = approvals.answer("apr_1", Allow(), by=Approver(claim="ann"), now=LATER)
    assert first == Answered(
        question=question(), answer=Allow(), by=Approver(claim="ann"), at=LATER, input_digest=digest_of(INPUT)
    )
    second = approvals.answer("apr_1", Deny(), by=Approver(claim="bob"), now=LATER)
    assert isinstance(second, Refused)
    assert second.reason == "answered"
    assert approvals.pending(LATER) == ()


def test_the_representation_of_an_answer_omits_an_edited_input(approvals):
    answered = approvals.answer("apr_1", Edit({"pin": "4711-0815"}), by=Approver(claim="ann"), now=LATER)
    assert answered.answer == Edit({"pin": "4711-0815"})
    assert "4711-0815" not in repr(answered)


@pytest.mark.parametrize("late", [END, AFTER])
def test_an_answer_after_the_end_is_refused_and_the_question_stays_closed(approvals, late):
    refused = approvals.answer("apr_1", Allow(), by=Approver(claim="ann"), now=late)
    assert refused.reason == "expired"
    approvals.withdraw("apr_1", late)
    assert approvals.answer("apr_1", Allow(), by=Approver(claim="ann"), now=BEFORE).reason == "expired"


def test_an_answer_to_nothing_is_refused(approvals):
    assert approvals.answer("apr_9", Allow(), by=Approver(claim="ann"), now=LATER).reason == "unknown"


def test_an_answer_to_a_call_that_was_canceled_is_refused(approvals, question):
    assert approvals.withdraw("apr_1") == question()
    assert approvals.withdraw("apr_1") is None
    assert approvals.answer("apr_1", Allow(), by=Approver(claim="ann"), now=LATER).reason == "withdrawn"


def test_questions_are_listed_until_they_end(approvals, question):
    approvals.open(question("apr_2", expires_at=LATER))
    assert [each.approval_id for each in approvals.pending(ASKED)] == ["apr_1", "apr_2"]
    assert [each.approval_id for each in approvals.pending(LATER)] == ["apr_1"]
    with pytest.raises(ValueError, match="ask under a new id"):
        approvals.open(question())
    approvals.withdraw("apr_1")
    approvals.open(question())
    assert approvals.get("apr_1") == question()
    approvals.answer("apr_1", Allow(), by=Approver(claim="ann"), now=ASKED)
    with pytest.raises(ValueError, match="ask under a new id"):
        approvals.open(question())


def test_an_edit_is_bound_to_the_edited_input(approvals):
    edited = approvals.answer("apr_1", Edit(input={"path": "b"}), by=Approver(claim="ann"), now=LATER)
    assert edited.input_digest == digest_of({"path": "b"}) != digest_of(INPUT)


def test_an_edit_that_is_no_json_is_refused_and_the_question_stays_open(approvals):
    assert (
        approvals.answer("apr_1", Edit(input={"n": {1, 2}}), by=Approver(claim="ann"), now=LATER).reason == "bad_input"
    )
    assert approvals.get("apr_1") is not None


def test_an_edit_may_hold_integers_that_canonical_json_has_no_word_for(approvals):
    edited = approvals.answer("apr_1", Edit(input={"n": 10**30}), by=Approver(claim="ann"), now=LATER)
    assert edited.answer.input == {"n": 10**30}
    assert edited.input_digest != digest_of(INPUT)


def test_an_edit_is_taken_as_it_was_when_it_was_given(approvals):
    given = {"path": ["b"]}
    edited = approvals.answer("apr_1", Edit(input=given), by=Approver(claim="ann"), now=LATER)
    given["path"].append("c")
    assert edited.answer.input == {"path": ["b"]}


@pytest.mark.parametrize(
    "rule", [{"behavior": "deny", "tool": "*"}, {"behavior": "allow"}, {"behavior": "allow", "tool": "x"}]
)
def test_a_rule_that_cannot_be_remembered_is_refused_and_the_question_stays_open(approvals, rule):
    refused = approvals.answer("apr_1", Remember(rule=rule), by=Approver(claim="ann"), now=LATER)
    assert refused.reason == "bad_rule"
    assert approvals.get("apr_1") is not None


def test_what_is_remembered_is_a_rule_of_the_session_for_this_tool_as_it_is(approvals, question):
    [suggestion] = question().suggested_updates
    answered = approvals.answer("apr_1", Remember(rule=suggestion.rule), by=Approver(claim="ann"), now=LATER)
    assert answered.rule.source == "session"
    assert answered.rule.ref == "session:apr_1"
    assert answered.rule.declaration_digest == question().declaration_digest


def test_ask_23_an_allow_that_is_remembered_sticks_even_against_the_rule_that_asked(tool, book, workspace, question):
    subject = tool()
    policy = Policy(book=book({"name": "q", "behavior": "ask", "tool": "*"}), workspace=workspace)
    verdict = policy.decide(subject, INPUT, now=ASKED)
    [suggestion] = suggest(policy, verdict, policy.targets(subject, INPUT, None))
    approvals = Approvals()
    approvals.open(question(verdict=verdict))
    sneaky = {**suggestion.rule, "settles": ["policy_settings:other"]}
    answered = approvals.answer("apr_1", Remember(rule=sneaky), by=Approver(claim="ann"), now=LATER)
    assert answered.rule.settles == ("project_settings:q",)
    after = policy.with_book(policy.book.with_rule(answered.rule))
    again = after.decide(subject, INPUT, now=LATER)
    assert (again.behavior, again.reason.beaten_rule_refs) == ("allow", ("project_settings:q",))
    assert after.decide(subject, {**INPUT, "path": "b"}, now=LATER).behavior == "ask"
    denied = after.with_book(after.book.with_rule(*book({"name": "d", "behavior": "deny", "tool": "*"})))
    assert denied.decide(subject, INPUT, now=LATER).behavior == "deny"


def test_a_question_of_the_policy_layer_is_asked_every_time(tool, book, workspace, question):
    subject = tool()
    policy = Policy(
        book=book({"name": "q", "behavior": "ask", "tool": "*"}, source="policy_settings"), workspace=workspace
    )
    approvals = Approvals()
    approvals.open(question(verdict=policy.decide(subject, INPUT, now=ASKED)))
    answered = approvals.answer(
        "apr_1", Remember(rule={"behavior": "allow", "tool": "files.read"}), by=Approver(claim="ann"), now=LATER
    )
    after = policy.with_book(policy.book.with_rule(answered.rule))
    assert after.decide(subject, INPUT, now=LATER).behavior == "ask"


def test_only_so_many_ended_questions_are_remembered(question, monkeypatch):
    monkeypatch.setattr("agenttool.policy.approvals.MAX_ENDED", 2)
    approvals = Approvals()
    for number in range(4):
        approvals.open(question(f"apr_{number}"))
        approvals.withdraw(f"apr_{number}")
    assert [
        approvals.answer(f"apr_{number}", Allow(), by=Approver(claim="a"), now=LATER).reason for number in range(4)
    ] == [
        "unknown",
        "unknown",
        "withdrawn",
        "withdrawn",
    ]


moves = st.lists(
    st.tuples(
        st.sampled_from(["allow", "deny", "withdraw", "expire", "wrong"]), st.sampled_from([ASKED, LATER, END, AFTER])
    ),
    max_size=8,
)


@given(moves)
def test_whatever_happens_a_question_is_answered_at_most_once_and_never_late(tool, now, moves):
    approvals = Approvals()
    question = Question(
        approval_id="apr_1",
        invocation_id="inv_1",
        decision_id="dec_1",
        tool_id="t",
        tool_name="t",
        shown={},
        input_digest=digest_of({}),
        declaration_digest=digest_of(1),
        verdict=Policy().decide(tool(), {}, now=now),
        asked_at=ASKED,
        expires_at=END,
    )
    approvals.open(question)
    taken = []
    for move, moment in moves:
        if move == "withdraw":
            approvals.withdraw("apr_1")
        elif move == "expire":
            approvals.withdraw("apr_1", moment)
        else:
            answer = Deny() if move == "deny" else Allow()
            said = approvals.answer("apr_1", answer, by=Approver(claim="a"), now=moment)
            taken += [said] if isinstance(said, Answered) else []
    assert len(taken) <= 1
    assert all(each.at in (ASKED, LATER) for each in taken)


PLAIN_INPUT = {"path": "a"}


@pytest.fixture
def plain_question(tool, workspace):
    subject, policy = tool(), Policy(workspace=workspace)
    return Question(
        approval_id="apr_1",
        invocation_id="inv_1",
        decision_id="dec_1",
        tool_id=subject.declaration.tool_id,
        tool_name=subject.qualified_name,
        shown=PLAIN_INPUT,
        input_digest=digest_of(PLAIN_INPUT),
        declaration_digest=subject.declaration_digest,
        verdict=policy.decide(subject, PLAIN_INPUT, now=ASKED),
        asked_at=ASKED,
        expires_at=END,
    )


@pytest.fixture
def recorded(plain_question):
    def answer(said, by=ANN):
        approvals = Approvals()
        approvals.open(plain_question)
        return answer_record(
            approvals.answer("apr_1", said, by=by, now=LATER, shown=plain_question.shown_digest),
            decision_id="dec_2",
        )

    return answer


def test_an_answer_is_a_second_decision_that_answers_the_first(recorded, plain_question):
    details = {
        "approval_id": "apr_1",
        "approver": {"claim": "ann", "os_user": {"uid": 1000, "name": "ada"}},
        "shown_digest": plain_question.shown_digest,
    }
    assert recorded(Allow(feedback="only this once")) == PermissionDecision(
        decision_id="dec_2",
        invocation_id="inv_1",
        behavior="allow",
        mode="default",
        source="permission_prompt",
        reason=Reason(
            type="permission_prompt_tool", message="ada (claims to be ann) approved the call", details=details
        ),
        user_modified=False,
        accept_feedback="only this once",
        answers="dec_1",
        input_digest=digest_of(PLAIN_INPUT),
        decided_by="ada",
        decided_at=LATER,
        expires_at=END,
    )


def test_a_refusal_keeps_its_words(recorded):
    record = recorded(Deny(message="not on a Friday"))
    assert (record.behavior, record.content_blocks) == ("deny", (text_item("not on a Friday"),))
    assert record.accept_feedback is None
    error = rejection(record)
    assert (error.error_class, error.message) == (
        "approval_rejected",
        "the approver refused the call: not on a Friday",
    )
    assert error.retry_after is None


def test_ask_09_an_edit_keeps_what_was_proposed_and_what_was_decided_apart(plain_question, recorded):
    asked = decision_record(
        plain_question.verdict,
        decision_id="dec_1",
        invocation_id="inv_1",
        decided_at=ASKED,
        input_digest=plain_question.input_digest,
    )
    edited = recorded(Edit(input={"path": "b"}, feedback="use b"))
    assert asked.input_digest == digest_of(PLAIN_INPUT)
    assert (edited.user_modified, edited.updated_input, edited.input_digest) == (
        True,
        {"path": "b"},
        digest_of({"path": "b"}),
    )
    assert edited.answers == asked.decision_id


def test_an_edited_input_is_judged_again_and_what_is_denied_stays_denied(tool, book, workspace, now):
    policy = Policy(book=book({"behavior": "deny", "tool": "*", "path": "secrets"}), workspace=workspace)
    assert edit_stands(policy.decide(tool(), {"path": "b"}, now=now))
    assert not edit_stands(policy.decide(tool(), {"path": "secrets/b"}, now=now))


def test_a_remembered_rule_can_be_read_back_from_the_record(recorded):
    record = recorded(Remember(rule={"behavior": "allow", "tool": "files.read", "path": "a"}))
    [update] = read(write(record), PermissionDecision).suggested_updates
    rule = read_rule(Setting(members=update.rule, source=update.destination))
    assert (rule.ref, rule.source, [each.text for each in rule.paths]) == ("session:apr_1", "session", ["a"])


def test_a_question_that_nobody_answered_is_a_deny_of_nobody(plain_question):
    record = expiry_record(plain_question, decision_id="dec_2", decided_at=END)
    assert (record.behavior, record.answers, record.decided_by) == ("deny", "dec_1", None)
    error = rejection(record)
    assert (error.error_class, error.error_code) == ("permission_denied", "approval_expired")
