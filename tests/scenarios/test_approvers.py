"""The approver of the program: a function, or none."""

import asyncio
import logging

import pytest
from starting import begin

from agenttool import ConfigError, Context, Runtime, ToolCall, sync, tool
from agenttool.policy.approvals import Allow, Deny, Edit, Remember
from agenttool.records import PermissionDecision


@tool
def pay(to: str, amount: int) -> str:
    return f"{to} {amount}"


@tool(read_only=True)
async def pay_two(context: Context) -> str:
    results = [await context.call("pay", {"to": to, "amount": 1}) for to in ("ada", "bob")]
    return ", ".join(each.status for each in results)


BILL = {"to": "ada", "amount": 5}


def recorded(result):
    return result.error.message if result.is_error else result.value


async def asked(rt):
    for _ in range(20_000):
        if questions := await rt.approvals.list():
            return questions
        await asyncio.sleep(0.001)
    raise TimeoutError("no question was asked")


async def run(approve, **options):
    async with Runtime.open(tools=[pay, pay_two], approve=approve, **options) as rt:
        result = await rt.call("pay", BILL)
        decisions = [
            each async for each in rt.journal.export() if each.__struct_config__.tag == "tool_permission_decision"
        ]
    return result, decisions[-1]


@pytest.mark.parametrize("answer", [True, "allow", Allow()])
async def test_a_plain_function_may_allow(answer):
    seen = []
    result, decision = await run(lambda question: seen.append((question.tool_name, question.shown)) or answer)
    assert seen == [("local.pay", BILL)]
    assert recorded(result) == "ada 5"
    assert (
        decision.reason.details["approver"]["claim"] == "the function test_a_plain_function_may_allow.<locals>.<lambda>"
    )


@pytest.mark.parametrize("answer", [False, "deny", Deny("not today"), None, 1, "yes", {"amount": 1}])
async def test_whatever_is_no_allow_denies(answer):
    result, _ = await run(lambda _: answer)
    assert result.error.error_class == "approval_rejected"


@pytest.mark.parametrize(("scope", "asked_in_all"), [("session", 2), ("store", 1)])
async def test_a_function_may_remember_its_answer_for_the_session_or_in_the_store(tmp_path, scope, asked_in_all):
    seen = []

    def remember(question):
        seen.append(question.approval_id)
        return Remember(question.suggested_updates[0].rule, scope=scope)

    for _ in range(2):
        async with Runtime.open(tools=[pay], approve=remember, store=f"sqlite:{tmp_path}/calls.db") as rt:
            assert [recorded(await rt.call("pay", BILL)) for _ in range(2)] == ["ada 5", "ada 5"]
    assert len(seen) == asked_in_all


async def test_a_coroutine_function_may_edit_and_what_it_wrote_runs():
    async def cheaper(question):
        await asyncio.sleep(0)
        return Edit({**question.shown, "amount": 1})

    result, decision = await run(cheaper)
    assert recorded(result) == "ada 1"
    assert decision.user_modified is True


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/calls.db"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("allow", "ada 5"),
        (Edit({**BILL, "amount": 1}), "ada 1"),
        ("deny", "approval_rejected"),
        (Edit({"to": "ada"}), "approval_rejected"),
        (7, "approval_rejected"),
    ],
)
async def test_a_coroutine_function_may_answer_without_a_wait(place, answer, outcome):
    async def at_once(question):
        return answer

    async with Runtime.open(tools=[pay], approve=at_once, store=place) as rt:
        result = await rt.call("pay", BILL)
        assert await rt.approvals.list() == ()
        asked, answered = [each async for each in rt.journal.export() if isinstance(each, PermissionDecision)]
    assert (result.error.error_class if result.is_error else result.value) == outcome
    assert (asked.behavior, answered.answers) == ("ask", asked.decision_id)
    assert answered.behavior == ("deny" if result.is_error else "allow")


async def test_an_approver_may_answer_by_the_queue_itself(place):
    answers = []

    async def by_queue(question):
        answers.append(await rt.approvals.decide(question, "allow", by="ada"))

    async with Runtime.open(tools=[pay], approve=by_queue, store=place) as rt:
        assert recorded(await rt.call("pay", BILL)) == "ada 5"
    assert [each.by.claim for each in answers] == ["ada"]


async def test_an_approver_may_make_a_call_that_needs_an_approval_itself(place):
    async def after_another(question):
        if question.shown == BILL:
            await rt.call("pay", {"to": "bob", "amount": 1})
        return "allow"

    async with Runtime.open(tools=[pay], approve=after_another, store=place) as rt, asyncio.timeout(10):
        assert recorded(await rt.call("pay", BILL)) == "ada 5"


async def test_an_approver_may_pass_a_question_on_to_code_that_answers_it_at_once(place):
    answers = []

    async def answer(question):
        answers.append(await rt.approvals.decide(question, "allow", by="ada"))

    async def pass_on(question):
        passed_on.append(asyncio.ensure_future(answer(question)))
        await asyncio.Event().wait()

    passed_on = []
    async with Runtime.open(tools=[pay], approve=pass_on, store=place) as rt, asyncio.timeout(10):
        assert recorded(await rt.call("pay", BILL)) == "ada 5"
    assert [each.by.claim for each in answers] == ["ada"]


async def test_an_approver_that_still_works_after_its_answer_is_canceled(place):
    ends = []

    async def continue_to_work(question):
        await rt.approvals.decide(question, "allow")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("canceled")
            raise

    async with Runtime.open(tools=[pay], approve=continue_to_work, store=place) as rt:
        assert recorded(await rt.call("pay", BILL)) == "ada 5"
    assert ends == ["canceled"]


async def test_an_approver_may_cancel_the_call_that_it_is_asked_about(place):
    async def cancel(question):
        await rt.cancel(question.invocation_id)
        return "allow"

    async with Runtime.open(tools=[pay], approve=cancel, store=place) as rt:
        result = await rt.call("pay", BILL)
    assert (result.status, result.error.error_class) == ("canceled", "canceled")


async def test_an_approver_may_cancel_a_call_of_an_earlier_process_and_make_another_one(tmp_path):
    store, others = f"sqlite:{tmp_path}/calls.db", []

    async def replace(question):
        if question.shown == BILL:
            await rt.cancel(question.invocation_id)
            others.append(await rt.call("pay", {"to": "bob", "amount": 1}))
        return "allow"

    async with Runtime.open(tools=[pay], approve="wait", store=store) as rt:
        waiting = await (await rt.start("pay", BILL)).idle()
    async with Runtime.open(tools=[pay], approve=replace, store=store) as rt, asyncio.timeout(10):
        result = await rt.calls.get(waiting.id).result()
        after = await rt.call("pay", {"to": "eve", "amount": 1})
    assert (result.status, after.value) == ("canceled", "eve 1")
    assert others == []


@pytest.mark.parametrize("answer", [Edit([1]), Edit({"to": "ada"}), Edit({"to": 1, "amount": 2})])
async def test_an_invalid_edit_ends_the_call(answer):
    result, _ = await run(lambda _: answer)
    assert result.is_error


async def test_an_approver_that_fails_denies_and_the_log_has_its_traceback(caplog):
    def broken(question):
        raise KeyError("ada")

    result, _ = await run(broken)
    assert result.error.error_class == "approval_rejected"
    assert "KeyError" in result.error.message
    assert "raise KeyError" in caplog.text


async def test_nested_calls_and_batches_ask_the_approver_too():
    seen = []
    async with Runtime.open(
        tools=[pay, pay_two], approve=lambda question: seen.append(question.shown) or "allow"
    ) as rt:
        nested = await rt.call("pay_two", {})
        batch = await rt.batch([ToolCall("pay", BILL), ToolCall("pay", {"to": "bob", "amount": 2})])
        started = await begin(rt, "pay", BILL)
        assert (await rt.calls.get(started.invocation_id).result()).value == "ada 5"
    assert nested.value == "succeeded, succeeded"
    assert [each.value for each in batch] == ["ada 5", "bob 2"]
    assert len(seen) == 5


async def test_the_first_answer_stands_from_any_approver():
    never = asyncio.Event()

    async def slow(question):
        await never.wait()

    async with Runtime.open(tools=[pay], approve=slow) as rt:
        calling = asyncio.ensure_future(rt.call("pay", BILL))
        questions = await asked(rt)
        await rt.approvals.decide(questions[0], "allow")
        assert (await calling).value == "ada 5"


async def remedies_of(rt, result):
    """Return the lines that the decision about a denied call has for the developer."""
    records = [each async for each in rt.journal.export()]
    (decision,) = [each for each in records if isinstance(each, PermissionDecision)]
    assert decision.invocation_id == result.invocation_id
    return decision.reason.details["remedies"].splitlines()


def written(lines):
    """Return lines without their comments."""
    return [line.partition("#")[0].strip() for line in lines]


async def test_without_an_approver_and_a_durable_store_a_call_is_denied_at_once_and_the_log_has_the_remedies(caplog):
    async with Runtime.open(tools=[pay]) as rt:
        result = await rt.call("pay", BILL)
        assert await rt.approvals.list() == ()
        lines = await remedies_of(rt, result)
    assert (result.status, result.error.error_class) == ("denied", "permission_denied")
    assert written(lines) == [
        "@tool(read_only=True)",
        'rules=[{"behavior": "allow", "tool": "local.pay"}]',
        "approve=ask",
    ]
    (record,) = caplog.records
    first, *logged = record.getMessage().splitlines()
    assert first.startswith("local.pay was denied: no approver is available: ")
    assert written(logged) == written(lines)


async def test_a_denial_does_not_show_the_model_how_to_avoid_an_approval():
    async with Runtime.open(tools=[pay]) as rt:
        result = await rt.call("pay", BILL)
    assert result.error.message == "no approver is available: the tool may change or destroy data"
    shown = "".join(each.text for each in result.model_facing_content)
    assert all(each not in shown for each in ("read_only", "rules=", "[[rules]]", "approve="))


IN_FILE = ["@tool(read_only=True)", "[[rules]]", 'behavior = "allow"', 'tool = "local.pay"']


@pytest.mark.parametrize(
    ("options", "text", "last"),
    [
        ({}, "", ["[store]", 'url = "sqlite:agenttool.db"']),
        ({}, "[permissions]\ninteractive = false", ["[permissions]", "interactive = true"]),
        ({"approve": "deny"}, "", ["approve=ask"]),
    ],
)
async def test_a_denial_under_a_settings_file_shows_lines_of_that_file(tmp_path, options, text, last):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    async with Runtime.open(tools=[pay], config=file, **options) as rt:
        lines = await remedies_of(rt, await rt.call("pay", BILL))
    assert written(lines) == [*IN_FILE, *last]
    assert "mine.toml" in lines[1]


async def test_a_durable_store_waits_and_the_log_has_the_command_that_answers(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "agenttool.approvals")
    async with Runtime.open(tools=[pay], store=tmp_path / "calls.db") as rt:
        calling = asyncio.ensure_future(rt.call("pay", BILL))
        questions = await asked(rt)
        (record,) = caplog.records
        assert f"local.pay waits for {questions[0].approval_id} (" in record.getMessage()
        assert record.getMessage().endswith(f"to answer: agenttool approvals --store {tmp_path}/calls.db")
        await rt.approvals.decide(questions[0].approval_id, "deny")
        assert (await calling).error.error_class == "approval_rejected"


async def test_a_call_of_a_closed_process_is_asked_about_by_the_approver_of_the_next(tmp_path):
    async with Runtime.open(tools=[pay], store=str(tmp_path / "calls.db"), approve="wait") as rt:
        started = await begin(rt, "pay", BILL)
        assert started.status == "awaiting_approval"
    async with Runtime.open(
        tools=[pay], store=str(tmp_path / "calls.db"), approve=lambda _: Edit({"to": "bob", "amount": 2})
    ) as rt:
        result = await rt.calls.get(started.invocation_id).result(30)
    assert result.value == "bob 2"


def test_sync_programs_have_approvers_too():
    with sync.open(tools=[pay], approve=lambda question: question.shown["amount"] < 10) as rt:
        assert rt.call("pay", BILL).value == "ada 5"
        assert rt.call("pay", {"to": "eve", "amount": 50}).is_error


@pytest.mark.parametrize("approve", ["ask", 7, True])
async def test_what_is_no_approver_is_refused_at_start(approve):
    with pytest.raises(ConfigError, match="approve must be a function, 'wait' or 'deny'"):
        Runtime.open(approve=approve)


@pytest.mark.parametrize("amount", [5.0, 1e21])
async def test_a_question_about_an_integer_that_was_written_as_a_float_can_be_answered(tmp_path, amount):
    async with Runtime.open(tools=[pay], store=str(tmp_path / "calls.db"), approve="wait") as rt:
        calling = asyncio.create_task(rt.call("pay", {"to": "ada", "amount": amount}))
        (question,) = await asked(rt)
        await rt.approvals.decide(question, "allow")
        assert (await calling).value == f"ada {int(amount)}"
