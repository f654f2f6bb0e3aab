"""Questions of servers to the user, in both revisions, through approvals."""

import json

import pytest

from agenttool import Allow, Deny, Edit, Runtime

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
        offered = {each.name for each in rt.offered(await rt.surface())}
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


@revisions
@pytest.mark.parametrize(
    "form", [{"field": "api_key"}, {"field": "bank_pin"}, {"field": "value", "message": "Enter your password."}]
)
async def test_a_form_that_asks_for_a_secret_is_declined_without_a_question(server, options, form):
    result, questions, _ = await asked(server, options, lambda _: Allow(), **form)
    assert json.loads(result.text)[0] == {"action": "decline"}
    assert questions == []


async def test_a_form_about_something_that_only_sounds_like_a_secret_is_asked(server):
    _, questions, _ = await asked(server, (), lambda _: Deny(), field="max_tokens", message="How many?")
    assert len(questions) == 1


async def test_a_server_with_a_tool_of_the_name_of_the_question_still_asks(server, tmp_path):
    (tmp_path / "more.json").write_text('[{"name": "ask_user", "inputSchema": {"type": "object"}}]')
    questions = []

    def approve(question):
        questions.append(question.tool_name)
        return Edit({**question.shown, "answer": {"name": "Ada"}}) if question.tool_name == "fx.ask_user_" else Allow()

    options = [server(f"definitions={tmp_path / 'more.json'}")]
    async with Runtime.open(sources=options, approve=approve) as rt:
        answered, called = await rt.call("fx.ask", {}), await rt.call("fx.ask_user", {})
    assert json.loads(answered.text)[0] == {"action": "accept", "content": {"name": "Ada"}}
    assert called.text == "ask_user"
    assert questions == ["fx.ask", "fx.ask_user_", "fx.ask_user"]


@revisions
async def test_a_page_to_open_is_shown_to_the_approver(server, options):
    result, questions, _ = await asked(server, options, lambda _: Allow(), mode="url")
    assert json.loads(result.text)[0] == {"action": "accept"}
    assert questions == [{"message": "Sign in.", "url": "https://login.example/x"}]
