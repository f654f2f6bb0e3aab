"""Answers to approvals that are none, come twice, too late, or to no question."""

import asyncio
import os
import pwd

import pytest

from agenttool import AgentToolError, Runtime, tool
from agenttool.policy.approvals import Allow, Answered, Deny, Edit, Refused, Remember
from agenttool.records import ApprovalId, replace

USER = pwd.getpwuid(os.getuid()).pw_name
"""The operating-system user of the tests."""


class Vault:
    """A tool that asks, and counts how often it ran."""

    def __init__(self):
        self.ran = []

        @tool(approval_required=True)
        async def pay(amount: int, to: str = "ada") -> str:
            """Pay. Not for refunds."""
            self.ran.append((amount, to))
            return "paid"

        self.tool = pay


@pytest.fixture
def vault():
    return Vault()


async def answered(runtime, approval_id, answer, **options):
    """Give an answer; a wrong one is refused, by value or by an error of ours."""
    try:
        return await runtime.approvals.decide(approval_id, answer, **options)
    except AgentToolError as error:
        return error


def short(value):
    return repr(value)[:40]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        False,
        True,
        0,
        1,
        "",
        "yes",
        "ALLOW",
        " allow",
        b"allow",
        Allow,
        Deny,
        Edit,
        Answered,
        {},
        {"behavior": "allow"},
        [],
        ...,
        Allow(feedback=5),
        Allow(feedback="\ud800"),
        Edit(input=None),
        Edit(input=[1]),
        Edit(input="x"),
        Edit(input={"amount": float("nan")}),
        Edit(input={"amount": ...}),
        Remember(rule=None),
        Remember(rule={}),
        Remember(rule={"behavior": "deny", "tool": "*"}),
        Remember(rule={"behavior": "allow"}),
        Remember(rule={"behavior": "allow", "tool": "*", "nonsense": 1}),
    ],
    ids=short,
)
async def test_what_is_no_answer_decides_nothing_and_leaves_the_question_open(vault, asked, sound, answer):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        refused = await answered(runtime, question.approval_id, answer)
        assert isinstance(refused, Refused | AgentToolError), refused
        assert "; " in (refused.message if isinstance(refused, Refused) else str(refused)), "what to do"
        assert await runtime.approvals.list() == (question,)
        assert vault.ran == []
        await runtime.approvals.decide(question.approval_id, Deny(message="no"))
        result = await waiting
        await sound(runtime)
    assert vault.ran == []
    assert result.error.error_class == "approval_rejected"


@pytest.mark.parametrize("by", ["", 5, b"pat", "\ud800"])
async def test_an_answer_whose_claimed_author_is_not_text_is_rejected(vault, asked, by):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        assert (await runtime.approvals.decide(question.approval_id, "allow", by=by)).reason == "bad_answer"
        await runtime.approvals.decide(question.approval_id, "deny", by="pat")
        assert (await waiting).error.message == "the approver refused the call"
    assert vault.ran == []


@pytest.mark.parametrize("store", [None, "sqlite:calls.db"])
async def test_an_answer_to_a_question_that_is_not_the_one_shown_is_refused(vault, asked, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with Runtime.open(tools=[vault.tool], store=store, approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        other = replace(question, shown={"amount": 1})
        refused = [
            await runtime.approvals.decide(other, "allow"),
            await runtime.approvals.decide(question.approval_id, "allow", shown_digest=other.shown_digest),
        ]
        accepted = await runtime.approvals.decide(question, "allow")
        await waiting
    assert {(each.reason, "list the questions again" in each.message) for each in refused} == {("other_question", True)}
    assert (accepted.shown_digest, vault.ran) == (question.shown_digest, [(5, "ada")])


async def test_an_answer_by_id_without_a_digest_is_recorded_as_such(vault, asked):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        await runtime.approvals.decide(question.approval_id, "allow")
        await waiting
        answer = [each async for each in runtime.journal.export() if getattr(each, "decided_by", None)]
    assert [each.reason.details["shown_digest"] for each in answer] == [None]


@pytest.mark.parametrize("approval_id", ["apr_nowhere", "", None, 5, [], {}, ...], ids=short)
async def test_an_answer_to_an_unknown_question_is_refused(vault, approval_id):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        refused = await runtime.approvals.decide(approval_id, "allow")
    assert refused.reason == "unknown"
    assert "list the open ones" in refused.message


@pytest.mark.parametrize(("first", "second"), [("allow", "deny"), ("deny", "allow"), ("allow", "allow")])
async def test_the_first_answer_stands_and_the_second_is_rejected(vault, asked, sound, first, second):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        both = [await runtime.approvals.decide(question.approval_id, word, by=word) for word in (first, second)]
        result = await waiting
        again = await runtime.approvals.decide(question.approval_id, second)
        await sound(runtime)
    assert isinstance(both[0], Answered)
    assert (both[1].reason, again.reason) == ("answered", "answered")
    assert len(vault.ran) == (first == "allow")
    assert result.is_error is (first == "deny")


async def test_an_unanswered_question_expires_and_a_late_answer_is_rejected(vault, sound):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        runtime._core.questions.ttl_s = 0.02
        result = await runtime.call("pay", {"amount": 5}, surface=await runtime.surface())
        expired = (await runtime.journal.invocation(result.invocation_id)).approval_request_ref
        late = await runtime.approvals.decide(expired, "allow")
        await sound(runtime)
    assert (result.status, result.error.error_class) == ("denied", "permission_denied")
    assert result.error.error_code == "approval_expired"
    assert (late.reason, vault.ran) == ("expired", [])


async def test_an_answer_to_a_call_that_was_canceled_meanwhile_runs_nothing(vault, asked):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        assert await runtime.cancel(question.invocation_id)
        assert (await waiting).status == "canceled"
        late = await runtime.approvals.decide(question.approval_id, "allow")
    assert (late.reason, vault.ran) == ("withdrawn", [])


async def test_an_answer_that_comes_while_its_call_is_ending_is_rejected_as_too_late(vault, asked, sound):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        assert await runtime.cancel(question.invocation_id)
        late = await runtime.approvals.decide(question.approval_id, "allow")
        assert (await waiting).status == "canceled"
        await sound(runtime)
    assert (late.reason, vault.ran) == ("withdrawn", [])


async def test_an_answer_to_a_closed_runtime_is_rejected(vault, asked):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
    late = await runtime.approvals.decide(question.approval_id, "allow")
    assert (late.reason, vault.ran) == ("withdrawn", [])
    assert (await waiting).abort_reason == "runtime_shutdown"


async def test_an_edit_is_held_to_the_schema_and_to_the_rules(vault, asked, sound):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        refused = await runtime.approvals.decide(ApprovalId(question.approval_id), Edit(input={"amount": "all of it"}))
        assert "at '/amount': expected integer" in refused.message
        await runtime.approvals.decide(question, "deny")
        await waiting
        await sound(runtime)
    assert vault.ran == []


async def test_an_edit_that_moves_what_was_redacted_is_refused(asked):
    ran = []

    @tool(approval_required=True, sensitive=["/pins/*"])
    async def unlock(pins: list[str]) -> str:
        """Unlock. Not for locking."""
        ran.append(pins)
        return "open"

    async with Runtime.open(tools=[unlock], approve="wait") as runtime:
        waiting = asyncio.ensure_future(
            runtime.call("unlock", {"pins": ["4711-0815", "1234-5678"]}, surface=await runtime.surface())
        )
        (question,) = await asked(runtime)
        assert question.shown == {"pins": ["[redacted]", "[redacted]"]}
        answer = await runtime.approvals.decide(question.approval_id, "allow", input={"pins": ["[redacted]"]})
        if isinstance(answer, Refused):
            await runtime.approvals.decide(question.approval_id, "deny")
        await waiting
    assert ran == []


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        ({"pins": ["[redacted]"]}, "/pins/0"),
        ({"pins": ["[redacted]", "[redacted]", "0000-0000"]}, "/pins/0"),
        ({"pins": ["1111-1111", "[redacted]"], "door": "[redacted]"}, "/door"),
    ],
    ids=["shorter", "longer", "elsewhere"],
)
async def test_what_was_redacted_can_be_left_where_it_was_and_nowhere_else(asked, sound, edit, place):
    ran = []

    @tool(approval_required=True, sensitive=["/pins/*"])
    async def unlock(pins: list[str], door: str = "front") -> str:
        """Unlock. Not for locking."""
        ran.append((pins, door))
        return "open"

    async with Runtime.open(tools=[unlock], approve="wait") as runtime:
        sent = {"pins": ["4711-0815", "1234-5678"]}
        waiting = asyncio.ensure_future(runtime.call("unlock", sent, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        refused = await runtime.approvals.decide(question.approval_id, "allow", input=edit)
        assert refused.reason == "bad_input"
        assert repr(place) in refused.message
        edit = {"pins": ["0000-0000", "[redacted]"], "door": "back"}
        await runtime.approvals.decide(question.approval_id, "allow", input=edit)
        await waiting
        await sound(runtime)
    assert ran == [(["0000-0000", "1234-5678"], "back")]


async def test_an_edit_that_comes_to_nothing_leaves_the_answer_on_record(vault, asked, sound, tmp_path):
    store = tmp_path / "calls.db"
    async with Runtime.open(store=store, tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        async with Runtime.open(store=store, approve="wait") as other:  # without the tool, so it cannot check the edit
            await other.approvals.decide(question.approval_id, "allow", input={"amount": "all"}, by="pat")
        async for _ in runtime.journal.events():
            if found := await runtime.approvals.list():
                break
        (again,) = found
        await runtime.approvals.decide(again, "deny", by="pat")
        result = await waiting
        decisions = [each async for each in runtime.journal.export() if hasattr(each, "decided_by")]
        await sound(runtime)
    recorded = [(each.behavior, each.decided_by) for each in decisions]
    assert recorded == [("ask", None), ("allow", USER), ("ask", None), ("deny", USER)]
    assert (decisions[1].updated_input, decisions[1].answers) == ({"amount": "all"}, decisions[0].decision_id)
    assert (vault.ran, result.error.error_class) == ([], "approval_rejected")


@pytest.mark.parametrize("number", [2**53 + 1, 10**30])
async def test_an_edit_may_hold_any_integer_that_a_call_may(vault, asked, sound, number):
    async with Runtime.open(tools=[vault.tool], approve="wait") as runtime:
        waiting = asyncio.ensure_future(runtime.call("pay", {"amount": 5}, surface=await runtime.surface()))
        (question,) = await asked(runtime)
        await runtime.approvals.decide(question.approval_id, "allow", input={"amount": number})
        await waiting
        await sound(runtime)
    assert vault.ran == [(number, "ada")]
