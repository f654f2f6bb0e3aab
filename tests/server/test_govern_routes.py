"""The routes about rules and statistics.

A call is judged with the roles of its key, also once it waited, was resumed, or is nested.
"""

import pytest
from starlette.testclient import TestClient

from agenttool import Context, Runtime, tool
from agenttool.history import statistics
from agenttool.ports.identity import AccessRole
from agenttool.server.grants import GrantKind
from agenttool.stores.sqlite.reader import SqliteReader

HERE = {"base_url": "http://127.0.0.1:8642", "client": ("127.0.0.1", 50_000)}
OPERATORS_SEND = {"behavior": "allow", "tool": "mail.send", "role": "gateway:operator"}
ANY_KEY_NESTS = {"behavior": "allow", "tool": "mail.send_nested", "role": "gateway:*"}


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(namespace="mail")
async def send_nested(to: str, context: Context) -> str:
    """Send a letter by a nested call."""
    result = await context.call("mail.send", {"to": to})
    return "not sent" if result.is_error else "sent"


@pytest.fixture
def open_app(make_app, tmp_path):
    def open_app(*rules):
        file = tmp_path / "calls.db"
        options = {"tools": [send, send_nested], "rules": rules, "approve": "wait"}
        return TestClient(make_app(lambda: Runtime.open(store=f"sqlite:{file}", **options), file=file), **HERE)

    return open_app


def key_of(http, subject, *roles):
    async def add_key():
        granted = [AccessRole(each) for each in roles]
        return await http.app.state.served.grants.add(GrantKind.KEY, subject=subject, roles=granted, created_by="test")

    return {"authorization": f"Bearer {http.portal.call(add_key)[0]}"}


def call(http, headers=None, tool="mail.send"):
    return http.post("/v1/calls", json={"tool": tool, "arguments": {"to": "ada"}}, headers=headers).json()


def test_the_log_of_a_namespace_of_local_tools_is_empty(open_app):
    with open_app() as http:
        operator = key_of(http, "user:ada", "operator")
        assert http.get("/v1/sources/mail/log", headers=operator).json() == {"lines": []}
        assert http.get("/v1/sources/post/log", headers=operator).status_code == 404


def test_an_allow_for_a_role_of_keys_covers_no_key_without_it(open_app):
    with open_app(OPERATORS_SEND, ANY_KEY_NESTS) as http:
        operator, caller = key_of(http, "bob", "caller", "operator"), key_of(http, "bob", "caller")
        made = [call(http, headers) for headers in (operator, caller, None)]
        assert [each["status"] for each in made] == ["succeeded", "awaiting_approval", "awaiting_approval"]
        detail = http.get(f"/v1/calls/{made[0]['invocation_id']}", headers=operator).json()
        assert detail["invocation"]["actor_roles"] == ["gateway:caller", "gateway:operator"]
        nested = call(http, operator, "mail.send_nested")
        assert nested["result"]["content"] == [{"type": "text", "text": "sent"}]
        batch = {"calls": [{"tool": "mail.send", "arguments": {"to": "ada"}}]}
        for headers, status in ((operator, "succeeded"), (caller, "awaiting_approval")):
            items = http.post("/v1/batches", json=batch, headers=headers).json()["items"]
            assert [each["status"] for each in items] == [status]


def test_a_call_that_is_resumed_is_judged_with_the_roles_that_it_was_made_with(open_app):
    with open_app() as http:
        made = [call(http, key_of(http, "bob", *roles)) for roles in (["caller"], ["caller", "operator"])]
    with open_app({"behavior": "deny", "tool": "mail.send", "role": "gateway:operator"}) as http:
        approver = key_of(http, "ida", "approver")
        for approval in http.get("/v1/approvals", headers=approver).json()["items"]:
            body = {"answer": "allow", "shown_digest": approval["shown_digest"]}
            answered = http.post(f"/v1/approvals/{approval['approval_id']}", json=body, headers=approver)
            assert answered.status_code in {200, 410}  # the rule may have withdrawn the question already
        ended = [http.get(f"/v1/calls/{each['invocation_id']}?wait=30", headers=approver).json() for each in made]
        assert [each["status"] for each in ended] == ["succeeded", "denied"]


def test_a_deny_for_a_role_of_keys_holds_for_programs_whose_key_is_not_known(open_app):
    with open_app({"behavior": "deny", "tool": "mail.send", "role": "gateway:caller"}) as http:

        async def call_here():
            return await http.app.state.runtime.call("mail.send", {"to": "ada"}, actor_ref="bob")

        assert http.portal.call(call_here).error.error_class == "permission_denied"
        assert call(http, key_of(http, "bob", "caller"))["status"] == "denied"


def test_the_rules_can_be_tried_with_the_roles_of_a_key(open_app):
    with open_app(OPERATORS_SEND) as http:
        auditor = key_of(http, "ida", "auditor")

        def tried(**who):
            body = {"tool": "mail.send", "arguments": {"to": "ada"}, **who}
            return http.post("/v1/policy/try", json=body, headers=auditor)

        assert tried(actor="bob", roles=["operator"]).json()["behavior"] == "allow"
        assert tried(actor="bob", roles=["caller"]).json()["behavior"] == "ask"
        assert tried(actor="bob").json()["behavior"] == "ask"
        assert (tried(roles=["operator"]).status_code, tried(roles=["operator"]).json()["pointer"]) == (400, "/actor")
        assert tried(actor="bob", roles=["operater"]).status_code == 400


def test_a_server_that_starts_again_reads_no_call_again_for_its_statistics(open_app, monkeypatch):
    monkeypatch.setattr(statistics, "SAVE_AFTER", 3)
    rule = {"behavior": "deny", "tool": "mail.send"}

    def stats(http):
        found = http.get("/v1/stats", headers=key_of(http, "user:ida", "auditor")).json()
        return found["totals"], [each["invocation_id"] for each in found["failures"]]

    with open_app(rule) as http:
        made = [call(http)["invocation_id"] for _ in range(3)]
        before = stats(http)
        assert (before[0]["calls"], before[0]["denied"], before[1]) == (3, 3, made[::-1])
    read, ends = [], SqliteReader.ends
    monkeypatch.setattr(SqliteReader, "ends", lambda *given: (read.append(each) or each for each in ends(*given)))
    with open_app(rule) as http:
        assert stats(http) == before
        assert [each.invocation_id for each in read] == made[-1:], "only the newest, to find that it is known"
