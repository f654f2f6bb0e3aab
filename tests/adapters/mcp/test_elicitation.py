"""Questions of servers to the user, in both revisions, through approvals."""

import asyncio
import json

import pytest
from starting import begin

from agenttool import Allow, Deny, Edit, Runtime
from agenttool.adapters.mcp.server_requests import MAX_QUESTIONS

revisions = pytest.mark.parametrize("options", [(), ("modern=1",)], ids=["legacy", "modern"])


class Approver:
    """Allows every call, and completes the questions of servers."""

    def __init__(self, answer):
        self.answer = answer
        self.questions = []

    def __call__(self, question):
        if not question.tool_name.endswith("ask_user"):
            return Allow()
        self.questions.append(question.shown)
        return self.answer(question.shown)


async def asked(server, options, answer, **arguments):
    approver = Approver(answer)
    async with Runtime.open(sources=[server(*options)], approve=approver) as rt:
        result = await rt.call("fx.ask", arguments)
        offered = {each.name for each in rt.surfaces.offered(await rt.surface())}
    return result, approver.questions, offered


@revisions
async def test_an_approver_completes_the_form_of_a_server(server, options):
    result, questions, offered = await asked(server, options, lambda shown: Edit({**shown, "answer": {"name": "Ada"}}))
    assert json.loads(result.text) == [{"action": "accept", "content": {"name": "Ada"}}, "s1"]
    assert questions[0]["message"] == "Your name?"
    assert questions[0]["schema"]["required"] == ["name"]
    assert "ask_user" not in offered


@revisions
@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (lambda _: Deny(), "decline"),
        (lambda _: Allow(), "cancel"),
        (lambda shown: Edit({**shown, "answer": {"name": "A"}}), "cancel"),
    ],
    ids=["denied", "not completed", "does not fit"],
)
async def test_an_answer_that_is_refused_or_does_not_fit_is_not_sent(server, options, answer, action):
    result, _, _ = await asked(server, options, answer)
    assert json.loads(result.text)[0] == {"action": action}


async def test_a_call_has_few_questions_open_at_once_and_the_server_gets_an_error_for_more(server, caplog):
    rule = {"behavior": "allow", "tool": "fx.ask_often"}
    async with Runtime.open(sources=[server()], approve="wait", rules=[rule]) as rt:
        started = await begin(rt, "fx.ask_often", {"count": MAX_QUESTIONS + 3})
        while "questions of the server in the call" not in caplog.text:
            await asyncio.sleep(0.01)
        while len(questions := await rt.approvals.list()) < MAX_QUESTIONS:
            await asyncio.sleep(0.01)
        for question in questions:
            await rt.approvals.decide(question, "allow")
        result = await rt.calls.get(started.invocation_id).result()
    replies = json.loads(result.text)
    assert [each.get("action") for each in replies] == ["accept"] * MAX_QUESTIONS + [None] * 3
    assert "10 questions of this call are open" in replies[-1]["message"]
    assert sum("questions of the server in the call" in each.message for each in caplog.records) == 1


FIRST_SECRETS = [{"field": "api_key"}, {"field": "value", "schema": '{"title": "Your password"}'}]
SECRETS = [
    *({"field": each} for each in ("password", "apiKey", "github_token", "bank_pin", "OTP", "cardNumber", "secrets")),
    *({"schema": {"title": each}} for each in ("Card PIN", "One-time code", "Your API key", "Enter your 6-digit PIN")),
    {"schema": {"format": "password"}},
    {"schema": {"type": "integer", "title": "PIN"}},
    {"schema": {"description": "Your GitHub password"}},
]
NO_SECRETS = [
    {"field": "room", "message": "Which room for the secret Santa party?"},
    {"field": "max_tokens"},
    {"field": "password_length"},
    {"field": "spin"},
    {"schema": {"type": "integer", "description": "Your favorite number (do not give us your phone number or pin)"}},
    {"schema": {"enum": ["keep", "revoke"], "title": "What to do with the token"}},
]


@revisions
@pytest.mark.parametrize("form", FIRST_SECRETS)
async def test_a_form_that_asks_for_a_secret_is_canceled_with_the_reason_and_without_a_question(server, options, form):
    result, questions, _ = await asked(server, options, lambda _: Allow(), **form)
    reason = f"the question is not shown to the user: its form asks for {form['field']!r}"
    assert json.loads(result.text)[0] == {"action": "cancel", "_meta": {"agenttool/reason": reason}}
    assert questions == []


async def test_a_secret_is_recognized_by_the_labels_of_its_field(server):
    approver = Approver(lambda _: Deny())
    async with Runtime.open(sources=[server()], approve=approver) as rt:
        for form in SECRETS:
            await rt.call("fx.ask", as_words(form))
            assert approver.questions == [], form
        for form in NO_SECRETS:
            await rt.call("fx.ask", as_words(form))
            assert approver.questions.pop(), form


def as_words(form):
    return {"field": "value", "message": "Please?", **form, "schema": json.dumps(form.get("schema", {}))}


@revisions
async def test_a_rule_that_allows_all_tools_of_a_server_does_not_answer_its_question(server, options):
    rules = [{"behavior": "allow", "tool": "fx.*"}]
    approver = Approver(lambda shown: Edit({**shown, "answer": {"name": "Ada"}}))
    async with Runtime.open(sources=[server(*options)], approve=approver, rules=rules) as rt:
        answered = await rt.call("fx.ask", {})
    async with Runtime.open(sources=[server(*options)], rules=rules, approve="deny") as rt:
        unanswered = await rt.call("fx.ask", {})
    async with Runtime.open(
        sources=[server(*options)], approve=approver, rules=[*rules, {"behavior": "deny", "tool": "fx.ask_user"}]
    ) as rt:
        denied = await rt.call("fx.ask", {})
    assert json.loads(answered.text)[0] == {"action": "accept", "content": {"name": "Ada"}}
    assert json.loads(unanswered.text)[0] == {"action": "cancel"}
    assert json.loads(denied.text)[0] == {"action": "decline"}
    assert len(approver.questions) == 1


async def test_no_rule_is_suggested_that_would_answer_a_question(server):
    suggested = []

    def approve(question):
        suggested.append((question.tool_name, bool(question.suggested_updates)))
        return Allow()

    async with Runtime.open(sources=[server()], approve=approve) as rt:
        await rt.call("fx.ask", {})
    assert suggested == [("fx.ask", True), ("fx.ask_user", False)]


async def test_a_server_with_a_tool_of_the_name_of_the_question_still_asks(server, tmp_path):
    (tmp_path / "more.json").write_text('[{"name": "ask_user", "inputSchema": {"type": "object"}}]')
    questions = []

    def approve(question):
        questions.append(question.tool_name)
        return Edit({**question.shown, "answer": {"name": "Ada"}}) if question.tool_name == "fx.ask_user" else Allow()

    options = [server(f"definitions={tmp_path / 'more.json'}")]
    async with Runtime.open(sources=options, approve=approve) as rt:
        answered, called = await rt.call("fx.ask", {}), await rt.call("fx.ask_user_", {})
    assert json.loads(answered.text)[0] == {"action": "accept", "content": {"name": "Ada"}}
    assert called.text == "ask_user"
    assert questions == ["fx.ask", "fx.ask_user", "fx.ask_user_"]


@revisions
async def test_a_page_to_open_is_shown_to_the_approver(server, options):
    result, questions, _ = await asked(server, options, lambda _: Allow(), mode="url")
    assert json.loads(result.text)[0] == {"action": "accept"}
    key = {"key": "q"} if options else {}  # the way of the newest revision names its questions
    assert questions == [{"message": "Sign in.", "url": "https://login.example/x", **key}]
