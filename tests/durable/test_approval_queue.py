import asyncio
import re

import pytest
from project_settings import write_settings
from starting import begin

from agenttool import ConfigError, Edit, Refused, Runtime, sync, tool
from agenttool.durable.stored_approvals import StoredAnswer
from agenttool.policy.approvals import Approver


@tool
async def send(words: list[str], who: str = "ada") -> str:
    """Send words. Not for reading."""
    return f"{words} to {who}"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_approver_that_changes_a_question_changes_nothing_for_the_next_one(tmp_path, kind):
    store = "memory:" if kind == "memory" else f"sqlite:{tmp_path / 'state.db'}"
    async with Runtime.open(store=store, tools=[send], approve="wait") as rt, asyncio.timeout(60):
        call = asyncio.ensure_future(rt.call("send", {"words": ["x"]}, surface=await rt.surface()))
        async for _, event in rt.journal.events():
            if event.event_type == "tool.permission.requested":
                break
        (question,) = await rt.approvals.list()
        same = await rt.approvals.get(question.approval_id)
        for each in (question, same):
            each.shown["who"] = "eve"
            each.shown["words"].append("y")
            each.suggested_updates[0].rule["tool"] = "*"
        assert (await rt.approvals.list())[0].shown == {"words": ["x"], "who": "ada"}
        again = await rt.approvals.get(question.approval_id)
        assert (again.shown, again.suggested_updates[0].rule["tool"]) == ({"words": ["x"], "who": "ada"}, "local.send")
        await rt.approvals.decide(question.approval_id, "allow")
        assert (await call).content[0].text == "['x'] to ada"


@tool
async def edit(path: str) -> str:
    """Edit a file. Not for folders."""
    return path


async def test_a_suggested_rule_is_about_the_file_that_a_link_led_to_when_the_question_was_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "before")
    async with Runtime.open(tools=[edit], approve="wait") as rt, asyncio.timeout(60):
        call = asyncio.ensure_future(rt.call("edit", {"path": str(link)}, surface=await rt.surface()))
        async for _, event in rt.journal.events():
            if event.event_type == "tool.permission.requested":
                break
        link.unlink()
        link.symlink_to(tmp_path / "after")
        (question,) = await rt.approvals.list()
        await rt.approvals.decide(question, "deny")
        await call
    assert [path.rpartition("/")[2] for path in question.suggested_updates[0].rule["path"]] == ["link", "before"]


@tool(namespace="bank", approval_required=True)
async def pay(to: str, amount: int) -> str:
    """Pay someone. Not for gifts."""
    return f"paid {amount} to {to}"


LIMIT = {"behavior": "deny", "tool": "bank.pay", "argument": {"/amount": {"min": 1000}}, "because": "that is too much"}
CALL = {"to": "ada", "amount": 5}


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return "memory:" if request.param == "memory" else tmp_path / "calls.db"


async def asked(rt):
    """Start a call that is asked about; return the question."""
    await begin(rt, "pay", CALL)
    (question,) = await rt.approvals.list()
    return question


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        ({"to": "ada", "amount": "much"}, "does not fit: at '/amount'"),
        ({"to": "ada"}, "does not fit: "),
        ({"to": "ada", "amount": 5000}, "that is too much"),
        ([1], "an edited input is a JSON object"),
    ],
)
async def test_an_edit_that_cannot_run_is_refused_at_once_and_the_question_stays_open(store, edited, message):
    async with Runtime.open(store=store, tools=[pay], rules=[LIMIT], approve="wait") as rt, asyncio.timeout(60):
        question = await asked(rt)
        refused = await rt.approvals.decide(question, "allow", input=edited)
        assert isinstance(refused, Refused)
        assert (refused.approval_id, refused.reason) == (question.approval_id, "bad_input")
        assert message in refused.message
        assert await rt.approvals.list() == (question,)
        assert await rt.journal.result(question.invocation_id) is None
        await rt.approvals.decide(question, "allow", input={"to": "ada", "amount": 6})
        assert (await rt.calls.get(question.invocation_id).result()).text == "paid 6 to ada"


async def test_an_edit_of_a_call_of_another_process_is_checked_by_a_process_that_has_the_tool(tmp_path):
    async with Runtime.open(store=tmp_path / "calls.db", tools=[pay], approve="wait") as owner:
        question = await asked(owner)
        async with Runtime.open(store=tmp_path / "calls.db", tools=[pay], rules=[LIMIT], approve="wait") as rt:
            for amount, message in (("much", "does not fit: at '/amount'"), (5000, "that is too much")):
                refused = await rt.approvals.decide(question, "allow", input={"to": "ada", "amount": amount})
                assert isinstance(refused, Refused)
                assert message in refused.message
        assert await owner.approvals.list() == (question,)


async def test_an_edit_that_a_process_without_the_tool_accepted_does_not_end_the_call(tmp_path, caplog):
    store = tmp_path / "calls.db"
    async with Runtime.open(store=store, tools=[pay], approve="wait") as owner, asyncio.timeout(60):
        question = await asked(owner)
        async with Runtime.open(store=store, approve="wait") as rt:
            await rt.approvals.decide(question, "allow", input={"to": "ada", "amount": "much"})
        async for _ in owner.journal.events():
            if found := await owner.approvals.list():
                break
        assert "the edited input of" in caplog.text
        assert found[0].approval_id != question.approval_id
        assert (found[0].invocation_id, found[0].shown) == (question.invocation_id, CALL)
        await owner.approvals.decide(found[0], "allow")
        assert (await owner.calls.get(question.invocation_id).result()).text == "paid 5 to ada"


async def test_an_answer_is_given_and_remembered_in_one_step(store):
    async with Runtime.open(store=store, tools=[pay], approve="wait") as rt, asyncio.timeout(60):
        question = await asked(rt)
        answered = await rt.approvals.decide(question, "allow", remember=1)
        assert answered.rule.ref == f"session:{question.approval_id}"
        assert (await rt.calls.get(question.invocation_id).result()).ok
        assert (await rt.call("pay", CALL)).text == "paid 5 to ada"
        assert [each.ref for each in await rt.approvals.rules()] == [answered.rule.ref]
        await begin(rt, "pay", {**CALL, "amount": 6})
        (other,) = await rt.approvals.list()
        rule = {"behavior": "allow", "tool": "bank.pay", "argument": {"/amount": {"max": 100}}}
        await rt.approvals.decide(other.approval_id, "allow", remember=rule, save="session")
        assert (await rt.calls.get(other.invocation_id).result()).ok
        assert (await rt.call("pay", {**CALL, "amount": 7})).ok


@pytest.mark.parametrize("save", ["local", "project"])
def test_a_remembered_rule_can_be_added_to_a_settings_file_also_without_an_event_loop(tmp_path, monkeypatch, save):
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path / "agenttool.toml", '[store]\nurl = "sqlite:calls.db"\n')
    with sync.open(config="auto", tools=[pay], approve="wait") as rt:
        rt.start("pay", CALL).idle()
        (question,) = rt.approvals.list()
        rt.approvals.decide(question, "allow", remember=1, save=save)
        assert rt.calls.get(question.invocation_id).result().ok
    file = tmp_path / ("agenttool.local.toml" if save == "local" else "agenttool.toml")
    assert str(question.approval_id) in file.read_text()
    with sync.open(config="auto", tools=[pay], store="memory:") as rt:
        assert rt.call("pay", CALL).text == "paid 5 to ada"
        assert rt.call("pay", {**CALL, "amount": 6}).error.error_class == "permission_denied"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"remember": 2}, "there is no suggestion 2; use a number from 1 to 1"),
        ({"remember": 1, "save": "projet"}, "rules are not added to 'projet'; did you mean 'project'"),
        ({"remember": 1, "input": {**CALL, "amount": 6}}, "only an answer that allows the call as shown"),
    ],
)
async def test_a_rule_that_cannot_be_remembered_is_an_error_and_the_question_stays_open(store, options, message):
    async with Runtime.open(store=store, tools=[pay], approve="wait") as rt:
        question = await asked(rt)
        with pytest.raises(ConfigError, match=re.escape(message)):
            await rt.approvals.decide(question, "allow", **options)
        assert await rt.approvals.list() == (question,)


async def test_no_rule_in_a_file_is_an_answer_to_the_question_of_another_rule(store):
    ask = {"name": "careful", "behavior": "ask", "tool": "bank.pay"}
    async with Runtime.open(store=store, tools=[pay], rules=[ask], approve="wait") as rt:
        question = await asked(rt)
        with pytest.raises(ConfigError, match="no rule in a file answers the question of cli_arg:careful"):
            await rt.approvals.decide(question, "allow", remember=1, save="project")


def test_the_representation_of_a_stored_answer_omits_an_edited_input():
    edit, by = Edit({"pin": "4711-0815"}), Approver(claim="ann")
    stored = StoredAnswer(answer=edit, by=by, at="2026-01-01T00:00:00Z", shown_digest=None, after=0, salt=b"")
    assert "4711-0815" not in repr(stored)
    assert "claim='ann'" in repr(stored)
