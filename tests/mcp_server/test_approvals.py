"""Approvals inside a call: in the client, elsewhere, and the same call that continues."""

import asyncio

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_clients import NEW, Person, connected, served, text_of
from starting import begin

from agenttool import Runtime, tool
from agenttool.mcp.profiles import McpOptions
from agenttool.mcp.server import RuntimeMcpServer
from agenttool.ports.quota import PER_CALLER
from agenttool.records import PermissionDecision

SENT = []


@tool
def send(to: str) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def _nothing_sent():
    SENT.clear()


async def test_the_person_at_the_client_allows_a_call(mode):
    person = Person(decision="allow")
    async with served([send], mode, person) as (runtime, client):
        result = await client.call_tool("send", {"to": "ada"})
        assert (text_of(result), SENT) == ("sent to ada", ["ada"])
        (asked,) = person.asked
        assert "Allow local.send?" in asked
        assert '{"to":"ada"}' in asked
        assert await runtime.approvals.list() == ()
        records = [each async for each in runtime.journal.export()]
    (decision,) = [each for each in records if isinstance(each, PermissionDecision) and each.behavior == "allow"]
    assert [*decision.reason.details["approver"]] == ["claim"], "the user of the server did not answer"
    assert decision.decided_by.startswith(("the MCP client ", "an MCP client"))


@pytest.mark.parametrize("person", [Person("decline"), Person(decision="deny", message="not today")])
async def test_the_person_at_the_client_denies_a_call(mode, person):
    async with served([send], mode, person) as (_, client):
        result = await client.call_tool("send", {"to": "ada"})
    assert (result.is_error, result.meta["agenttool/error"]["error_class"], SENT) == (True, "approval_rejected", [])
    assert person.content.get("message", "") in text_of(result)


@pytest.mark.parametrize("how", ["cannot be asked", "closes the form", "may not be asked"])
async def test_a_client_without_an_answer_gets_the_place_to_approve_and_the_same_call_continues_once(mode, how):
    person = {
        "cannot be asked": None,
        "closes the form": Person("cancel"),
        "may not be asked": Person(decision="allow"),
    }
    options = {"asks_client": how != "may not be asked", "answer_command": "agenttool approvals --store x.db"}
    async with served([send], mode, person[how], **options) as (runtime, client):
        first = await client.call_tool("send", {"to": "ada"})
        assert (first.is_error, SENT) == (True, [])
        assert "agenttool approvals --store x.db" in text_of(first)
        await client.call_tool("send", {"to": "ada"})
        other = await client.call_tool("send", {"to": "eve"})
        question, of_other = await runtime.approvals.list()
        assert first.meta["agenttool/approval"] == question.approval_id
        assert other.meta["agenttool/approval"] == of_other.approval_id
        await runtime.approvals.decide(question, "allow", by="ada")
        result = await client.call_tool("send", {"to": "ada"})
        assert (text_of(result), SENT) == ("sent to ada", ["ada"])
        again = await client.call_tool("send", {"to": "ada"})
        assert (again.is_error, SENT) == (True, ["ada"])
        assert again.meta["agenttool/approval"] != question.approval_id


async def test_a_repeated_call_whose_reply_may_be_lost_asks_with_a_note_that_it_ran(mode, tmp_path):
    store = f"sqlite:{tmp_path / 'calls.db'}"
    async with served([send], mode, store=store) as (runtime, client):
        await client.call_tool("send", {"to": "ada"})
        (question,) = await runtime.approvals.list()
        assert "ran until" not in question.reason
        await runtime.approvals.decide(question, "allow", by="ada")
        first = await client.call_tool("send", {"to": "ada"})  # the client may never get this reply
    async with served([send], mode, store=store) as (runtime, client):
        again = await client.call_tool("send", {"to": "ada"})
        (repeated,) = await runtime.approvals.list()
        other = await client.call_tool("send", {"to": "eve"})
    ran = first.meta["agenttool/invocation"]
    assert "the same call of this caller was approved and ran until" in repeated.reason
    assert ran in repeated.reason
    assert "has not run again" in text_of(again)
    assert text_of(again).endswith("sent to ada")
    assert "has not run." in text_of(other)
    assert SENT == ["ada"]


async def test_the_person_at_the_client_reads_that_the_same_call_ran(mode):
    person = Person(decision="allow")
    async with served([send], mode, person) as (_, client):
        for _ in range(2):
            await client.call_tool("send", {"to": "ada"})
    assert ["allow it only if it must run a second time" in each for each in person.asked] == [False, True]


async def test_the_question_after_a_denied_call_mentions_no_run(mode):
    person = Person(decision="deny")
    async with served([send], mode, person) as (_, client):
        for _ in range(2):
            await client.call_tool("send", {"to": "ada"})
    assert ["ran until" in each for each in person.asked] == [False, False]


async def test_the_same_call_while_the_first_still_asks_is_another_call_with_its_own_question(mode):
    asked, answer = asyncio.Queue(), asyncio.Event()

    async def person(context, params):
        asked.put_nowait(params.message)
        await answer.wait()
        return types.ElicitResult(action="accept", content={"decision": "allow"})

    async with served([send], mode, person) as (runtime, client), asyncio.TaskGroup() as group:
        calls = []
        for _ in range(3):
            calls.append(group.create_task(client.call_tool("send", {"to": "ada"})))
            await asked.get()
        assert len({each.invocation_id for each in await runtime.approvals.list()}) == 3
        if mode != NEW:  # there, the client has the question and no open request
            calls[-1].cancel()
            await asyncio.wait([calls.pop()])
        answer.set()
        results = [text_of(await each) for each in calls]
    assert results == ["sent to ada"] * len(calls)
    assert len(SENT) == len(calls)


async def test_a_call_asks_its_client_although_very_many_other_questions_are_open():
    async with served([send], NEW, Person(decision="allow")) as (runtime, client):
        await asyncio.gather(*(begin(runtime, "send", {"to": str(number)}) for number in range(1_001)))
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"


async def test_a_call_that_was_approved_elsewhere_ends_while_the_client_still_asks(mode):
    asked = asyncio.Event()

    async def person(context, params):
        asked.set()
        await asyncio.sleep(60 if mode != NEW else 0.5)
        return types.ElicitResult(action="cancel")

    async def approve(runtime):
        await asked.wait()
        (question,) = await runtime.approvals.list()
        await runtime.approvals.decide(question, "allow")

    async with served([send], mode, person) as (runtime, client), asyncio.TaskGroup() as group:
        group.create_task(approve(runtime))
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"


PAGES = {"asks_client": False, "approvals_url": "https://gateway.example/approvals"}


async def test_a_client_opens_the_approval_page_and_the_call_continues_after_the_decision_there(mode):
    shown = []

    async def person(context, params):
        shown.append((params.mode, params.url))
        (question,) = await asking["runtime"].approvals.list()
        assert params.url == f"https://gateway.example/approvals/{question.approval_id}"
        asking["deciding"] = asyncio.ensure_future(asking["runtime"].approvals.decide(question, "allow", by="ada"))
        return types.ElicitResult(action="accept")

    asking = {}
    async with served([send], mode, person, **PAGES) as (runtime, client):
        asking["runtime"] = runtime
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"
        await asking["deciding"]
    assert [each for each, _ in shown] == ["url"]


@pytest.mark.parametrize("person", [None, Person("decline"), Person("cancel")])
async def test_a_client_that_does_not_open_the_approval_page_gets_its_url(mode, person):
    async with served([send], mode, person, **PAGES) as (runtime, client):
        result = await client.call_tool("send", {"to": "ada"})
        (question,) = await runtime.approvals.list()
        assert f"open https://gateway.example/approvals/{question.approval_id} or to run" in text_of(result)
        await runtime.approvals.decide(question, "allow")
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"


async def test_a_call_whose_question_has_expired_asks_again(mode):
    async with Runtime.open(tools=[send], approve="wait") as runtime, connected(runtime, mode) as client:
        runtime._core.questions.ttl_s = 0.2
        first = await client.call_tool("send", {"to": "ada"})
        ended = await runtime.calls.get(first.meta["agenttool/invocation"]).result()
        assert "no approver answered before" in ended.text
        runtime._core.questions.ttl_s = 60
        again = await client.call_tool("send", {"to": "ada"})
        (question,) = await runtime.approvals.list()
        assert again.meta["agenttool/approval"] == question.approval_id != first.meta["agenttool/approval"]
    assert SENT == []


async def test_another_actor_does_not_continue_the_call(mode):
    async with Runtime.open(tools=[send], approve="wait") as runtime:
        async with connected(runtime, mode, actor="user:ada") as client:
            await client.call_tool("send", {"to": "bob"})
        (question,) = await runtime.approvals.list()
        await runtime.approvals.decide(question, "allow")
        async with connected(runtime, mode, actor="user:eve") as client:
            assert (await client.call_tool("send", {"to": "bob"})).meta["agenttool/approval"] != question.approval_id


async def ask(client, arguments, **more):
    return await client.session.call_tool("send", arguments, allow_input_required=True, **more)


async def test_a_request_state_is_bound_to_its_call_and_its_actor():
    person = Person(decision="allow")
    async with served([send], NEW, person, actor="user:ada") as (_, client):
        asked = await ask(client, {"to": "ada"})
        assert isinstance(asked, types.InputRequiredResult)
        (key,) = asked.input_requests
        replies = {key: types.ElicitResult(action="accept", content={"decision": "allow"})}
        state = asked.request_state
        changed = state[:-2] + ("AA" if not state.endswith("AA") else "BB")
        for arguments, wrong in (({"to": "eve"}, state), ({"to": "ada"}, changed), ({"to": "ada"}, "x")):
            with pytest.raises(MCPError) as refused:
                await ask(client, arguments, input_responses=replies, request_state=wrong)
            assert refused.value.error.code == types.INVALID_PARAMS
        assert SENT == []
        for incomplete in ({}, {"other": replies[key]}):
            again = await ask(client, {"to": "ada"}, input_responses=incomplete, request_state=state)
            assert list(again.input_requests) == [key]
        ended = await ask(client, {"to": "ada"}, input_responses=replies, request_state=state)
        assert (text_of(ended), SENT) == ("sent to ada", ["ada"])


async def test_an_answer_that_is_sent_again_returns_the_recorded_result_of_its_call_to_the_same_caller(tmp_path):
    store = tmp_path / "calls.db"
    async with served([send], NEW, Person(), store=store, actor="ada") as (rt, client):
        asked = await ask(client, {"to": "ada"})
        (key,) = asked.input_requests
        replies = {key: types.ElicitResult(action="accept", content={"decision": "allow"})}
        given = {"input_responses": replies, "request_state": asked.request_state}
        first = await ask(client, {"to": "ada"}, **given)
        assert await ask(client, {"to": "ada"}, **given) == first
        async with connected(rt, NEW, Person(), actor="bob") as bobs:
            with pytest.raises(MCPError, match="of another call"):
                await ask(bobs, {"to": "ada"}, **given)
    async with served([send], NEW, Person(), store=store, actor="ada") as (_, client):
        assert await ask(client, {"to": "ada"}, **given) == first
    assert (text_of(first), SENT) == ("sent to ada", ["ada"])


async def test_a_call_that_waits_for_its_approval_continues_in_another_process(tmp_path, mode):
    store = tmp_path / "calls.db"
    async with served([send], mode, store=store) as (_, client):
        await client.call_tool("send", {"to": "ada"})
    async with served([send], mode, store=store) as (runtime, client):
        (question,) = await runtime.approvals.list()
        await runtime.approvals.decide(question, "allow")
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"
        assert (await client.call_tool("send", {"to": "ada"})).is_error
    assert SENT == ["ada"]


async def test_a_waiting_call_is_continued_in_one_of_several_processes(tmp_path, mode):
    store = tmp_path / "calls.db"
    async with served([send], mode, store=store) as (_, client):
        await client.call_tool("send", {"to": "ada"})
    async with served([send], mode, store=store) as (runtime, client), served([send], mode, store=store) as (_, other):
        (question,) = await runtime.approvals.list()
        await runtime.approvals.decide(question, "allow")
        assert text_of(await client.call_tool("send", {"to": "ada"})) == "sent to ada"
        assert "approval_required" in text_of(await other.call_tool("send", {"to": "ada"}))
    assert SENT == ["ada"]


async def test_a_form_that_was_shown_before_a_restart_is_answered_after_it(tmp_path):
    store, person = tmp_path / "calls.db", Person(decision="allow")
    async with served([send], NEW, person, store=store) as (_, client):
        asked = await ask(client, {"to": "ada"})
    async with served([send], NEW, person, store=store) as (_, client):
        (key,) = asked.input_requests
        replies = {key: types.ElicitResult(action="accept", content={"decision": "allow"})}
        ended = await ask(client, {"to": "ada"}, input_responses=replies, request_state=asked.request_state)
        assert (text_of(ended), SENT) == ("sent to ada", ["ada"])
    async with served([send], NEW, person, store=store) as (_, client):
        again = await ask(client, {"to": "ada"}, input_responses=replies, request_state=asked.request_state)
    assert (again, SENT) == (ended, ["ada"])


@pytest.mark.parametrize("thief", [{"actor": "user:eve"}, {"actor": "user:ada", "profile": "other"}, {}])
async def test_a_request_state_is_useless_to_another_actor_or_profile(thief):
    person = Person(decision="allow")
    async with served([send], NEW, person, actor="user:ada") as (runtime, client):
        asked = await ask(client, {"to": "ada"})
        replies = {
            key: types.ElicitResult(action="accept", content={"decision": "allow"}) for key in asked.input_requests
        }
        async with connected(runtime, NEW, person, **thief) as other:
            with pytest.raises(MCPError, match="requestState"):
                await ask(other, {"to": "ada"}, input_responses=replies, request_state=asked.request_state)
            # Replies without the state answer no question of another call.
            again = await ask(other, {"to": "ada"}, input_responses=replies)
            assert not set(again.input_requests) & set(replies)
    assert SENT == []


async def test_a_request_state_that_has_expired_is_refused(monkeypatch):
    monkeypatch.setattr("agenttool.mcp.state.STATE_SECONDS", -1.0)
    async with served([send], NEW, Person(decision="allow")) as (_, client):
        asked = await ask(client, {"to": "ada"})
        replies = {
            key: types.ElicitResult(action="accept", content={"decision": "allow"}) for key in asked.input_requests
        }
        with pytest.raises(MCPError, match="has expired"):
            await ask(client, {"to": "ada"}, input_responses=replies, request_state=asked.request_state)
    assert SENT == []


async def test_a_call_that_ended_and_whose_client_did_not_come_back_is_dropped(monkeypatch):
    monkeypatch.setitem(PER_CALLER, "MCP requests", 1)
    async with (
        Runtime.open(tools=[send], approve="wait") as runtime,
        RuntimeMcpServer.open(runtime, McpOptions()) as server,
        Client(server.lowlevel, mode=NEW, elicitation_callback=Person(decision="allow")) as client,
    ):
        await ask(client, {"to": "ada"})
        (question,) = await runtime.approvals.list()
        await runtime.approvals.decide(question, "allow")
        async with asyncio.timeout(60):
            await asyncio.wait([each.task for each in server._exchanges.values()])
        assert text_of(await client.call_tool("send", {"to": "bob"})) == "sent to bob"
        assert server._exchanges.values() == ()


async def test_a_caller_whose_requests_all_wait_for_its_client_is_refused_another(monkeypatch):
    monkeypatch.setitem(PER_CALLER, "MCP requests", 1)
    async with served([send], NEW, Person(decision="allow")) as (_, client):
        await ask(client, {"to": "ada"})
        with pytest.raises(MCPError, match="this caller has 1 MCP requests, which is the limit"):
            await ask(client, {"to": "bob"})
