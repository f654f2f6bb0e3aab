import pytest

from agenttool.codec import digest_of, read, write
from agenttool.policy.answers import answer_record, approval_holds, edit_stands, expiry_record, rejection
from agenttool.policy.approvals import Allow, Approvals, Deny, Edit, Question, Remember
from agenttool.policy.decide import Policy
from agenttool.policy.verdict import decision_record
from agenttool.policy.written import WrittenRule, read_rule
from agenttool.records import PermissionDecision, Reason, replace, text_item

ASKED, LATER, END = (f"2026-05-08T12:0{minute}:00Z" for minute in (1, 2, 5))
INPUT = {"path": "a"}


@pytest.fixture
def question(tool, workspace):
    subject, policy = tool(), Policy(workspace=workspace)
    return Question(
        approval_id="apr_1",
        invocation_id="inv_1",
        decision_id="dec_1",
        tool_id=subject.declaration.tool_id,
        tool_name=subject.qualified_name,
        shown=INPUT,
        input_digest=digest_of(INPUT),
        declaration_digest=subject.declaration_digest,
        verdict=policy.decide(subject, INPUT, now=ASKED),
        asked_at=ASKED,
        expires_at=END,
    )


@pytest.fixture
def recorded(question):
    def answer(said, by="ann"):
        approvals = Approvals()
        approvals.open(question)
        return answer_record(approvals.answer("apr_1", said, by=by, now=LATER), decision_id="dec_2")

    return answer


def test_an_answer_is_a_second_decision_that_answers_the_first(recorded):
    assert recorded(Allow(feedback="only this once")) == PermissionDecision(
        decision_id="dec_2",
        invocation_id="inv_1",
        behavior="allow",
        mode="default",
        source="permission_prompt",
        reason=Reason(type="permission_prompt_tool", message="ann approved the call", details={"approval_id": "apr_1"}),
        user_modified=False,
        accept_feedback="only this once",
        answers="dec_1",
        input_digest=digest_of(INPUT),
        decided_by="ann",
        decided_at=LATER,
        expires_at=END,
    )


def test_a_refusal_keeps_its_words(recorded):
    record = recorded(Deny(message="not on a Friday"))
    assert (record.behavior, record.content_blocks) == ("deny", (text_item("not on a Friday"),))
    assert record.accept_feedback is None
    error = rejection(record)
    assert (error.error_class, error.message) == ("approval_rejected", "ann refused the call: not on a Friday")
    assert error.retry_after is None


def test_ask_09_an_edit_keeps_what_was_proposed_and_what_was_decided_apart(question, recorded):
    asked = decision_record(
        question.verdict,
        decision_id="dec_1",
        invocation_id="inv_1",
        decided_at=ASKED,
        input_digest=question.input_digest,
    )
    edited = recorded(Edit(updated_input={"path": "b"}, feedback="use b"))
    assert asked.input_digest == digest_of(INPUT)
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


def test_ask_07_an_approval_covers_the_input_that_was_approved_and_no_other(recorded):
    approved, edited = recorded(Allow()), recorded(Edit(updated_input={"path": "b"}))
    for decision, covered in ((approved, INPUT), (edited, {"path": "b"})):
        for arguments in (INPUT, {"path": "b"}, {"path": "a", "more": 1}):
            holds = approval_holds(decision, invocation_id="inv_1", input_digest=digest_of(arguments), now=LATER)
            assert holds is (arguments == covered)


def test_ask_08_a_stale_approval_is_not_honoured_and_a_fresh_one_is(recorded):
    approved = recorded(Allow())
    digest = digest_of(INPUT)
    assert approval_holds(approved, invocation_id="inv_1", input_digest=digest, now=LATER)
    assert not approval_holds(approved, invocation_id="inv_1", input_digest=digest, now=END)
    assert not approval_holds(approved, invocation_id="inv_2", input_digest=digest, now=LATER)
    assert not approval_holds(recorded(Deny()), invocation_id="inv_1", input_digest=digest, now=LATER)
    restored = read(write(approved), PermissionDecision)
    assert approval_holds(restored, invocation_id="inv_1", input_digest=digest, now=LATER)
    assert not approval_holds(
        replace(approved, input_digest=None), invocation_id="inv_1", input_digest=digest, now=LATER
    )


def test_an_edit_that_was_completed_is_bound_to_what_will_run(question):
    approvals = Approvals()
    approvals.open(question)
    answered = approvals.answer("apr_1", Edit(updated_input={"token": "…"}), by="ann", now=LATER)
    completed = digest_of({"token": "s3cret"})
    decision = answer_record(answered, decision_id="dec_2", input_digest=completed)
    assert approval_holds(decision, invocation_id="inv_1", input_digest=completed, now=LATER)


def test_a_remembered_rule_can_be_read_back_from_the_record(recorded):
    record = recorded(Remember(rule={"behavior": "allow", "tool": "files.read", "path": "a"}))
    [update] = read(write(record), PermissionDecision).suggested_updates
    rule = read_rule(WrittenRule(members=update.rule, source=update.destination))
    assert (rule.ref, rule.source, [each.text for each in rule.paths]) == ("session:apr_1", "session", ["a"])


def test_a_question_that_nobody_answered_is_a_deny_of_nobody(question):
    record = expiry_record(question, decision_id="dec_2", decided_at=END)
    assert (record.behavior, record.answers, record.decided_by) == ("deny", "dec_1", None)
    error = rejection(record)
    assert (error.error_class, error.error_code) == ("permission_denied", "approval_expired")
