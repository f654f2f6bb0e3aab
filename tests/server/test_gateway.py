"""The HTTP API as programs use it: calls, approvals, identities, and what each identity may see."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

import pytest
from starlette.testclient import TestClient

from agenttool import Context, Media, Runtime, tool
from agenttool.errors import StoreError
from agenttool.ports.identity import AccessRole
from agenttool.ports.quota import PER_CALLER
from agenttool.server.grants import GrantKind
from agenttool.stores.sqlite.writer import Writer

HERE = {"base_url": "http://127.0.0.1:8642", "client": ("127.0.0.1", 50_000)}
OWN_PAGE = {"origin": "http://127.0.0.1:8642", "sec-fetch-site": "same-origin"}


@tool(namespace="math", read_only=True, open_world=False)
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@tool(namespace="mail")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(namespace="text", read_only=True, open_world=False)
def long_text(lines: int) -> str:
    """Return many lines."""
    return "\n".join(f"line {number}" for number in range(lines))


@tool(namespace="text", read_only=True, open_world=False)
def labelled(media_type: str) -> Media:
    """Return bytes with a media type."""
    return Media(b"\0\1\2", media_type)


@pytest.fixture(params=["memory", "sqlite"])
def http(request, make_app, tmp_path):
    """A program on this machine, and a server whose journal is in memory or in a file."""
    file = None if request.param == "memory" else tmp_path / "calls.db"
    place = "memory:" if file is None else f"sqlite:{file}"
    app = make_app(lambda: Runtime.open(store=place, tools=[add, send, long_text, labelled], approve="wait"), file=file)
    with TestClient(app, **HERE) as client:
        yield client


def key_of(http, subject, *roles, tenant="default"):
    grants = http.app.state.served.grants
    add_key = partial(
        grants.add,
        GrantKind.KEY,
        subject=subject,
        roles=[AccessRole(each) for each in roles],
        created_by="test",
        tenant=tenant,
    )
    return {"authorization": f"Bearer {http.portal.call(add_key)[0]}"}


def call(http, name, arguments, headers=None, **query):
    return http.post("/v1/calls", json={"tool": name, "arguments": arguments}, headers=headers, params=query)


def answer(http, approval, word, headers, **more):
    body = {"answer": word, "shown_digest": approval["shown_digest"], **more}
    return http.post(f"/v1/approvals/{approval['approval_id']}", json=body, headers=headers)


def test_a_call_returns_its_result_and_is_listed(http):
    made = call(http, "add", {"a": 19, "b": 23})
    state = made.json()
    assert (made.status_code, state["status"], state["result"]["structured_content"]) == (200, "succeeded", 42)
    (listed,) = http.get("/v1/calls").json()["items"]
    assert (listed["invocation_id"], listed["actor"], listed["summary"]) == (state["invocation_id"], "local", "42")
    detail = http.get(f"/v1/calls/{state['invocation_id']}").json()
    assert detail["invocation"]["model_input"] == {"a": 19, "b": 23}
    assert [each["name"] for each in detail["phases"]][-1] == "succeeded"


@pytest.mark.parametrize("levels", [150, 400, 1000])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/calls", '{"tool": "add", "arguments": %s}'),
        ("/v1/batches", '{"calls": [{"tool": "add", "arguments": %s}]}'),
        ("/v1/policy/try", '{"tool": "add", "arguments": %s}'),
        ("/v1/policy/matches", '{"rule": %s}'),
        ("/v1/surfaces", '{"role": %s}'),
    ],
)
def test_a_body_that_is_nested_too_deeply_is_refused(http, path, body, levels):
    everybody = key_of(http, "user:bob", "caller", "operator")
    content = body % ('{"a":' * levels + "1" + "}" * levels)
    answered = http.post(path, content=content, headers={**everybody, "content-type": "application/json"})
    assert (answered.status_code, answered.headers["content-type"]) == (400, "application/problem+json")
    assert "flatten it" in answered.json()["detail"]


def test_a_call_that_fails_is_a_result(http):
    state = call(http, "add", {"a": "x"})
    assert (state.status_code, state.json()["result"]["is_error"]) == (200, True)


def test_a_repeated_request_with_a_key_returns_the_first_call(http):
    key = {"idempotency-key": "once"}
    first, second = (call(http, "add", {"a": 1}, key).json() for _ in range(2))
    assert first["invocation_id"] == second["invocation_id"]
    other = call(http, "add", {"a": 2}, key)
    assert (other.status_code, other.json()["reason"]) == (409, "idempotency_conflict")


def test_an_approval_goes_from_the_caller_to_the_approver_and_back(http):
    waiting = call(http, "send", {"to": "ada"})
    state = waiting.json()
    assert (waiting.status_code, state["status"]) == (202, "awaiting_approval")
    bob, eve = key_of(http, "user:bob", "approver"), key_of(http, "user:eve", "approver")
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    assert (approval["actor"], approval["input"], approval["can_answer"]) == ("local", {"to": "ada"}, True)
    unseen = {**approval, "shown_digest": "sha256:" + "0" * 64}
    assert answer(http, unseen, "allow", bob).json()["reason"] == "other_question"
    assert answer(http, approval, "allow", bob).json()["by"] == "user:bob"
    http.get(f"/v1/calls/{state['invocation_id']}", params={"wait": 30})
    late = answer(http, approval, "deny", eve)
    assert (late.status_code, late.json()["reason"], late.json()["answered_by"]) == (409, "answered", "user:bob")
    closed = http.get(f"/v1/approvals/{approval['approval_id']}", headers=eve)
    assert (closed.status_code, closed.json()["answered_by"]) == (410, "user:bob")
    detail = http.get(waiting.headers["location"], params={"wait": 30}).json()
    assert detail["result"]["content"][0]["text"] == "sent to ada"
    (decision,) = [each for each in detail["records"] if each.get("decided_by")]
    assert decision["reason"]["details"]["approver"]["principal"]["subject"] == "user:bob"


def test_the_loser_of_a_race_learns_who_answered_before_the_call_continues(http):
    call(http, "send", {"to": "ada"})
    bob, eve = key_of(http, "user:bob", "approver"), key_of(http, "user:eve", "approver")
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    with ThreadPoolExecutor() as pool:
        answers = [*pool.map(lambda by: answer(http, approval, "allow", by), [bob, eve])]
    won, lost = sorted(answers, key=lambda each: each.status_code)
    assert (won.status_code, lost.status_code, lost.json()["reason"]) == (200, 409, "answered")
    assert lost.json()["answered_by"] == won.json()["by"]


def test_the_answer_to_a_call_that_was_canceled_is_gone(http):
    state, bob = call(http, "send", {"to": "ada"}).json(), key_of(http, "user:bob", "approver")
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    assert http.post(f"/v1/calls/{state['invocation_id']}/cancel").json()["accepted"]
    http.get(f"/v1/calls/{state['invocation_id']}", params={"wait": 30})
    path = f"/v1/approvals/{approval['approval_id']}"
    refused = (answer(http, approval, "allow", bob), http.get(path, headers=bob))
    assert [(each.status_code, each.json()["reason"]) for each in refused] == [(410, "withdrawn")] * 2
    unknown = http.get("/v1/approvals/apr_0-1", headers=bob)
    assert (unknown.status_code, unknown.json()["reason"]) == (404, "unknown")


def test_an_edit_is_checked_before_it_is_accepted_and_then_runs(http):
    state, bob = call(http, "send", {"to": "ada"}).json(), key_of(http, "user:bob", "approver")
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    wrong = answer(http, approval, "allow", bob, input={"to": 3})
    assert (wrong.status_code, wrong.json()["pointer"], wrong.json()["reason"]) == (422, "/input/to", "bad_input")
    checked = http.post(f"/v1/approvals/{approval['approval_id']}/check", json={"input": {}}, headers=bob).json()
    assert [each["pointer"] for each in checked["errors"]] == ["/to"]
    assert answer(http, approval, "allow", bob, input={"to": "grace"}).status_code == 200
    ended = http.get(f"/v1/calls/{state['invocation_id']}", params={"wait": 30}).json()
    assert ended["result"]["content"][0]["text"] == "sent to grace"


def test_an_approver_remembers_a_suggested_rule_and_only_an_operator_another(http):
    bob = key_of(http, "user:bob", "approver")
    ann = key_of(http, "user:ann", "approver", "operator")
    wide = {"rule": {"behavior": "allow", "tool": "*"}, "scope": "session"}
    call(http, "send", {"to": "ada"})
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    refused = answer(http, approval, "allow", bob, remember=wide)
    problem = refused.json()
    assert (refused.status_code, problem["reason"], problem["pointer"]) == (422, "bad_rule", "/remember/rule")
    assert http.get("/v1/approvals", headers=bob).json()["items"][0]["approval_id"] == approval["approval_id"]
    expiring = {**approval["suggested_updates"][0]["rule"], "expires_at": "2999-01-01T00:00:00Z"}
    suggested = {**wide, "rule": expiring}
    assert answer(http, approval, "allow", bob, remember=suggested).status_code == 200
    waiting = call(http, "send", {"to": "grace"}).json()["approval_id"]
    approval = http.get(f"/v1/approvals/{waiting}", headers=ann).json()
    assert answer(http, approval, "allow", ann, remember=wide).status_code == 200


def test_a_local_program_without_a_key_cannot_approve(http):
    call(http, "send", {"to": "ada"})
    bob = key_of(http, "user:bob", "approver")
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    assert http.get("/v1/approvals").status_code == HTTPStatus.FORBIDDEN
    assert answer(http, approval, "allow", None).status_code == HTTPStatus.FORBIDDEN
    assert http.get("/v1/approvals", headers=bob).json()["items"][0]["approval_id"] == approval["approval_id"]
    for method, path in (("GET", "/v1/keys"), ("GET", "/v1/rules"), ("GET", "/v1/approvals"), ("GET", "/v1/stats")):
        assert http.request(method, path).status_code == HTTPStatus.FORBIDDEN


def test_an_approver_does_not_answer_for_its_own_call(http):
    both = key_of(http, "user:bob", "caller", "approver")
    call(http, "send", {"to": "ada"}, both)
    (approval,) = http.get("/v1/approvals", headers=both).json()["items"]
    assert (approval["can_answer"], bool(approval["why_not"])) == (False, True)
    refused = answer(http, approval, "allow", both)
    assert (refused.status_code, refused.json()["reason"]) == (403, "own_call")


def test_a_caller_with_too_many_surfaces_replaces_its_oldest_and_none_of_others(http, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "surfaces", 3)
    ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")

    def created(headers):
        return http.post("/v1/surfaces", json={"only": ["add"]}, headers=headers).headers["location"]

    other, own = created(bob), [created(ada) for _ in range(5)]
    assert [http.get(each, headers=ada).status_code for each in own] == [404, 404, 200, 200, 200]
    assert http.get(other, headers=bob).status_code == HTTPStatus.OK


def test_a_caller_with_many_conversations_loses_its_oldest_and_none_of_others(make_app, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "conversations", 2)

    @tool(read_only=True, open_world=False, changes_context=True)
    async def count(ctx: Context) -> int:
        """Count the calls of a conversation."""
        ctx.change_shared({"count": ctx.shared.get("count", 0) + 1})
        return ctx.shared.get("count", 0)

    with TestClient(make_app(lambda: Runtime.open(tools=[count])), **HERE) as http:
        ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")

        def counted(headers, thread):
            body = {"tool": "count", "arguments": {}, "thread": thread}
            return http.post("/v1/calls", json=body, headers=headers).json()["result"]["structured_content"]

        first = [counted(bob, "a"), counted(ada, "a"), counted(ada, "b"), counted(ada, "c")]
        assert [*first, counted(bob, "a"), counted(ada, "c"), counted(ada, "a")] == [0, 0, 0, 0, 1, 1, 0]


def test_a_caller_that_logs_in_often_ends_its_oldest_sessions_and_none_of_others(http, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "console sessions", 2)
    for subject, count in (("user:bob", 1), ("user:ada", 4)):
        key = key_of(http, subject, "operator")["authorization"].removeprefix("Bearer ")
        for _ in range(count):
            assert http.post("/v1/login", json={"key": key}, headers=OWN_PAGE).is_success
    listed = http.portal.call(http.app.state.served.grants.list, GrantKind.SESSION)
    assert sorted(each.subject for each in listed) == ["user:ada", "user:ada", "user:bob"]


@pytest.mark.parametrize(
    "body",
    [{"only": ["x"] * 1001}, {"refs": ["x"] * 101}, {"role": {"name": "x" * 30_000}}, {"model": {"a": "x" * 30_000}}],
)
def test_a_surface_with_very_long_lists_is_refused(http, body):
    assert http.post("/v1/surfaces", json=body).status_code == HTTPStatus.BAD_REQUEST


def test_a_caller_with_too_many_open_calls_is_refused_and_others_are_not(http, monkeypatch):
    monkeypatch.setitem(PER_CALLER, "open calls", 3)
    ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")
    made = [call(http, "send", {"to": "x"}, ada) for _ in range(5)]
    assert [each.status_code for each in made] == [202, 202, 202, 429, 429]
    batch = {"calls": [{"tool": "send", "arguments": {"to": "x"}}]}
    assert http.post("/v1/batches", json=batch, headers=ada).status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert call(http, "send", {"to": "x"}, bob).status_code == HTTPStatus.ACCEPTED
    first = f"/v1/calls/{made[0].json()['invocation_id']}"
    assert http.post(f"{first}/cancel", headers=ada).is_success
    assert http.get(first, params={"wait": 60}, headers=ada).json()["status"] == "canceled"
    assert call(http, "send", {"to": "x"}, ada).status_code == HTTPStatus.ACCEPTED


def test_a_caller_sees_its_own_calls_only(http):
    ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")
    made = call(http, "add", {"a": 1}, ada).json()["invocation_id"]
    assert [each["invocation_id"] for each in http.get("/v1/calls", headers=ada).json()["items"]] == [made]
    assert http.get("/v1/calls", headers=bob).json()["items"] == []
    for headers in (bob, None):
        assert http.get(f"/v1/calls/{made}", headers=headers).status_code == HTTPStatus.NOT_FOUND
        assert http.post(f"/v1/calls/{made}/cancel", headers=headers).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize("query", [{}, {"containing": "4711"}, {"tool": "add"}, {"actor": "agent:ada"}])
def test_no_filter_shows_a_caller_the_calls_of_others(http, query):
    ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")
    own = call(http, "add", {"a": 4711}, ada).json()["invocation_id"]
    for _ in range(2):
        call(http, "add", {"a": 4711}, bob)
    assert http.get("/v1/calls", params={**query, "limit": 1}).json() == {"items": [], "next_cursor": None}
    (found,) = http.get("/v1/calls", params={**query, "limit": 2}, headers=ada).json()["items"]
    assert found["invocation_id"] == own


@pytest.mark.parametrize("given", ["image/png\r\nset-cookie: a=b", "image/\u0439", "\0", "a" * 2000, "image/x; é"])
def test_bytes_with_an_invalid_media_type_are_returned_as_octets(http, given):
    made = call(http, "labelled", {"media_type": given}).json()["invocation_id"]
    (payload,) = http.get(f"/v1/calls/{made}").json()["payloads"]
    whole = http.get(f"/v1/results/{made}/payloads/{payload['digest']}")
    assert (whole.status_code, whole.content) == (200, b"\0\1\2")
    assert whole.headers["content-type"] == payload["media_type"] == "application/octet-stream"


def test_stored_output_is_returned_by_the_call_that_owns_it_only(http):
    bob = key_of(http, "agent:bob", "caller")
    made = call(http, "long_text", {"lines": 20_000}).json()["invocation_id"]
    (payload,) = http.get(f"/v1/calls/{made}").json()["payloads"]
    path = f"/v1/results/{made}/payloads/{payload['digest']}"
    whole = http.get(path)
    assert (whole.status_code, whole.headers["x-content-type-options"]) == (200, "nosniff")
    assert "attachment" in whole.headers["content-disposition"]
    part = http.get(path, headers={"range": "bytes=0-5"})
    assert (part.status_code, part.content) == (206, whole.content[:6])
    size = len(whole.content)
    for given, start in (("-5", size - 5), (f"-{2 * size}", 0), (f"{size - 3}-", size - 3)):
        end = http.get(path, headers={"range": f"bytes={given}"})
        assert (end.status_code, end.content) == (206, whole.content[start:])
        assert end.headers["content-range"] == f"bytes {start}-{size - 1}/{size}"
    for given in ("-0", "5-2", f"{size}-"):
        refused = http.get(path, headers={"range": f"bytes={given}"})
        assert (refused.status_code, refused.headers["content-range"]) == (416, f"bytes */{size}")
    assert http.get(path, headers=bob).status_code == HTTPStatus.NOT_FOUND
    other = call(http, "add", {"a": 1}, bob).json()["invocation_id"]
    stolen = http.get(f"/v1/results/{other}/payloads/{payload['digest']}", headers=bob)
    assert stolen.status_code == HTTPStatus.NOT_FOUND


def test_a_key_that_was_not_used_before_works_while_the_disk_is_full(http, monkeypatch):
    head = key_of(http, "user:bob", "operator")

    def refuse(*_, **__):
        raise StoreError("the disk is full")

    monkeypatch.setattr(Writer, "commit", refuse)
    assert http.get("/v1/status", headers=head).status_code == 200


def test_a_body_with_a_member_twice_is_refused(http):
    state, bob = call(http, "send", {"to": "ada"}).json(), key_of(http, "user:bob", "approver", "caller")
    (approval,) = http.get("/v1/approvals", headers=bob).json()["items"]
    bodies = {
        "/v1/calls": '{"tool": "math.add", "tool": "mail.send", "arguments": {"to": "eve"}}',
        "/v1/batches": '{"calls": [{"tool": "math.add", "tool": "mail.send", "arguments": {}}]}',
        f"/v1/approvals/{approval['approval_id']}": '{"answer": "deny", "answer": "allow", "shown_digest": "x"}',
        f"/v1/approvals/{approval['approval_id']}/check": '{"input": {"to": "ada", "to": "eve"}}',
    }
    for path, body in bodies.items():
        refused = http.post(path, content=body, headers={**bob, "content-type": "application/json"})
        assert (path, refused.status_code, "twice" in refused.text) == (path, 400, True)
    assert http.get(f"/v1/calls/{state['invocation_id']}").json()["status"] == "awaiting_approval"


def test_a_revoked_key_is_refused_at_once(http):
    operator, ada = key_of(http, "user:op", "operator"), key_of(http, "agent:ada", "caller")
    assert http.get("/v1/me", headers=ada).json()["subject"] == "agent:ada"
    keys = http.get("/v1/keys", headers=operator).json()["items"]
    (key_id,) = [each["key_id"] for each in keys if each["subject"] == "agent:ada"]
    assert http.delete(f"/v1/keys/{key_id}", headers=operator).status_code == HTTPStatus.NO_CONTENT
    refused = http.get("/v1/me", headers=ada)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


def login(http):
    grants = http.app.state.served.grants
    make = partial(
        grants.add, GrantKind.LOGIN, subject="user:ada", roles=[*AccessRole], created_by="test", lifetime_s=60
    )
    token = http.portal.call(make)[0]
    return token, http.post("/v1/login", json={"token": token}, headers=OWN_PAGE)


def test_a_login_link_opens_one_session_that_only_the_console_can_use(http):
    token, logged_in = login(http)
    cookie = logged_in.headers["set-cookie"]
    assert logged_in.json()["roles"] == ["approver", "auditor", "caller", "operator"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert http.post("/v1/login", json={"token": token}, headers=OWN_PAGE).status_code == HTTPStatus.UNAUTHORIZED
    page_key = logged_in.json()["page_key"]
    session = {"cookie": cookie.partition(";")[0], "agenttool-page-key": page_key, **OWN_PAGE}
    assert http.get("/v1/me", headers=session).json()["kind"] == "session"
    assert http.post("/v1/policy/try", json={"tool": "add"}, headers=session).status_code == HTTPStatus.OK
    for origin in ("http://127.0.0.1:3000", "http://localhost:8642", "https://127.0.0.1:8642", "null"):
        foreign = {**session, "origin": origin}
        assert http.post("/v1/policy/try", json={"tool": "add"}, headers=foreign).status_code == HTTPStatus.FORBIDDEN
    without = {"cookie": session["cookie"], "agenttool-page-key": page_key}
    assert http.post("/v1/policy/try", json={"tool": "add"}, headers=without).status_code == HTTPStatus.FORBIDDEN
    as_form = {**session, "content-type": "text/plain"}
    assert http.post("/v1/policy/try", content=b"{}", headers=as_form).status_code == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    assert http.post("/v1/logout", headers=session).status_code == HTTPStatus.NO_CONTENT
    assert http.get("/v1/me", headers=session).status_code == HTTPStatus.UNAUTHORIZED


def test_the_cookie_of_a_session_alone_proves_nothing(http):
    logged_in = login(http)[1]
    cookie, page_key = logged_in.headers["set-cookie"].partition(";")[0], logged_in.json()["page_key"]
    assert page_key not in cookie
    for headers in ({}, {"agenttool-page-key": "A" * len(page_key)}, {"agenttool-page-key": ""}):
        sent = {"cookie": cookie, **OWN_PAGE, **headers}
        assert http.get("/v1/approvals", headers=sent).status_code in {401, 403}
        assert http.get("/v1/me", headers=sent).json().get("kind") != "session"
    http.cookies.clear()
    assert http.get("/v1/me", headers={**OWN_PAGE, "agenttool-page-key": page_key}).json()["kind"] == "local"
    token = cookie.partition("=")[2]
    for bearer in (token, token + page_key):
        refused = http.get("/v1/me", headers={"authorization": f"Bearer {bearer}"})
        assert refused.status_code == HTTPStatus.UNAUTHORIZED


def test_rules_and_statistics_describe_what_happened(http):
    call(http, "add", {"a": 1})
    auditor = key_of(http, "user:ida", "auditor")
    stats = http.get("/v1/stats", params={"window_s": 60, "buckets": 3}, headers=auditor).json()
    assert (stats["totals"]["calls"], len(stats["buckets"]), stats["now"]["running"]) == (1, 3, 0)
    tried = http.post("/v1/policy/try", json={"tool": "send", "arguments": {"to": "x"}}, headers=auditor).json()
    assert (tried["behavior"], tried["errors"]) == ("ask", [])
    rule = {"rule": {"tool": "math.add"}}
    assert http.post("/v1/policy/matches", json=rule, headers=auditor).json()["matched"] == 1
    assert http.post("/v1/keys", json={"subject": "x", "roles": ["caller"]}, headers=auditor).status_code == 403


def test_counters_are_for_operators_and_auditors(http):
    for role in ("operator", "auditor"):
        assert "agenttool_open_calls 0" in http.get("/metrics", headers=key_of(http, "user:bob", role)).text
    for headers in (None, key_of(http, "agent:ada", "caller"), key_of(http, "user:eve", "approver")):
        assert http.get("/metrics", headers=headers).status_code == HTTPStatus.FORBIDDEN


def test_the_status_counts_the_own_calls_and_only_operators_and_auditors_see_more(http):
    call(http, "send", {"to": "ada"})
    for headers, count in ((None, 1), (key_of(http, "agent:ada", "caller"), 0), (key_of(http, "eve", "approver"), 0)):
        own = {"is_healthy": True, "open_calls": count, "approvals": count}
        assert http.get("/v1/status", headers=headers).json() == own
    for headers in (key_of(http, "user:bob", "operator"), key_of(http, "user:aud", "auditor")):
        found = http.get("/v1/status", headers=headers).json()
        assert (found["approvals"], found["waiting"], found["store_fault"]) == (1, [], None)


def test_a_logout_without_the_key_of_the_page_is_refused_and_ends_no_session(http):
    logged_in = login(http)[1]
    cookie, page_key = logged_in.headers["set-cookie"].partition(";")[0], logged_in.json()["page_key"]
    for sent in ({}, {"agenttool-page-key": "A" * len(page_key)}):
        refused = http.post("/v1/logout", headers={"cookie": cookie, **OWN_PAGE, **sent})
        assert (refused.status_code, "Max-Age=0" in refused.headers["set-cookie"]) == (401, True)
    session = {"cookie": cookie, "agenttool-page-key": page_key, **OWN_PAGE}
    assert http.get("/v1/me", headers=session).json()["kind"] == "session"
    assert http.post("/v1/logout", headers=session).status_code == HTTPStatus.NO_CONTENT
    assert http.post("/v1/logout", headers=session).status_code == HTTPStatus.UNAUTHORIZED


def test_stored_output_is_read_back_only_in_its_conversation_and_by_its_caller(http):
    ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")

    def run(tool, arguments, headers, thread):
        body = {"tool": tool, "arguments": arguments} | ({} if thread is None else {"thread": thread})
        return http.post("/v1/calls", json=body, headers=headers).json()

    def can_read(headers, thread, digest):
        arguments = {"payload_id": f"payload:{digest}"}
        return run("agenttool.read_result", arguments, headers, thread)["status"] == "succeeded"

    for thread, other in ((None, "plan"), ("plan", None)):
        made = run("long_text", {"lines": 60_000 + len(thread or "")}, ada, thread)
        (payload,) = http.get(f"/v1/calls/{made['invocation_id']}", headers=ada).json()["payloads"]
        readers = [(ada, thread), (ada, other), (bob, thread), (None, thread)]
        assert [can_read(*each, payload["digest"]) for each in readers] == [True, False, False, False]


def test_a_part_of_an_id_finds_all_calls_that_have_it_and_that_the_caller_may_see(http):
    ada, bob = key_of(http, "agent:ada", "caller"), key_of(http, "agent:bob", "caller")
    body = {"tool": "math.add", "arguments": {"a": 1}}
    ids = [http.post("/v1/calls", json=body, headers=ada).json()["invocation_id"] for _ in range(3)]

    def found(part, headers, **more):
        items = http.get("/v1/calls", params={"id_part": part, **more}, headers=headers).json()["items"]
        return [each["invocation_id"] for each in items]

    first = ids[0]
    assert [found(part, ada) for part in (first, first[4:], first[-12:], f"dec_{first[4:]}-1")] == [[first]] * 4
    assert found("inv_", ada) == ids[::-1]
    assert (found("inv_", ada, limit=1), found("inv_", ada, open=True)) == ([ids[2]], [])
    assert [found(part, bob) for part in (first, "inv_")] == [[], []]


def test_a_stopping_server_refuses_new_requests(http):
    http.portal.call(_drain, http.app.state.served)
    refused = http.get("/v1/me")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")


async def _drain(served):
    served.drain()


def test_a_call_whose_body_arrives_while_the_server_stops_is_refused_and_not_recorded(http):
    sent, body = [], b'{"tool": "math.add", "arguments": {"a": 1}}'

    async def receive():
        http.app.state.served.drain()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    async def post():
        headers = [(b"host", b"127.0.0.1:8642"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/calls", "query_string": b"", "headers": headers}
        await http.app.state.served({**scope, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8642)}, receive, send)

    before = http.portal.call(_count_records, http.app.state.runtime)
    http.portal.call(post)
    assert (sent[0]["status"], (b"retry-after", b"2") in sent[0]["headers"]) == (503, True)
    assert json.loads(sent[1]["body"])["detail"].startswith("the server is stopping")
    assert http.portal.call(_count_records, http.app.state.runtime) == before


async def _count_records(runtime):
    return len([each async for each in runtime.journal.export()])


def test_the_description_lists_every_route(http):
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert "post" in document["paths"]["/v1/approvals/{approval_id}"]
    assert json.dumps(document).count("application/problem+json") > len(document["paths"])


def test_a_large_response_is_compressed_if_the_client_accepts_it(http):
    reply = http.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert reply.headers["content-encoding"] == "gzip"
    assert reply.json() == http.get("/openapi.json", headers={"accept-encoding": "identity"}).json()


@asynccontextmanager
async def served_events(make_app, serve_app, file):
    """Serve a runtime, and give it with a key that reads events and a function that opens a stream with that key."""
    app = make_app(lambda: Runtime.open(store=f"sqlite:{file}", tools=[add], approve="wait"), file=file)
    async with serve_app(app) as url:
        grants = app.state.served.grants
        token, grant = await grants.add(
            GrantKind.KEY, subject="user:ida", roles=[AccessRole.AUDITOR], created_by="test"
        )
        host, port = url.removeprefix("http://").split(":")

        async def stream(last=""):
            reader, writer = await asyncio.open_connection(host, int(port))
            lines = f"GET /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n{last}\r\n"
            writer.write(lines.encode())
            return reader, writer

        yield app.state.runtime, partial(grants.revoke, GrantKind.KEY, grant.grant_id), stream


async def until(reader, text):
    """Read until a text comes."""
    found = b""
    async with asyncio.timeout(60):
        while text not in found:
            found += await reader.read(4096) or pytest.fail(str(found))
    return found


async def test_events_continue_where_a_reader_stopped(make_app, serve_app, tmp_path):
    async with served_events(make_app, serve_app, tmp_path / "calls.db") as (runtime, _, stream):
        reader, writer = await stream()
        await until(reader, b"event: ready")
        made = await runtime.call("add", {"a": 1})
        seen = await until(reader, made.invocation_id.encode())
        assert b'"a"' not in seen, "no arguments"
        writer.close()
        unseen = (await runtime.call("add", {"a": 2})).invocation_id.encode()
        again, other = await stream("Last-Event-ID: 1\r\n")
        assert made.invocation_id.encode() in await until(again, unseen)
        assert unseen not in await until(again, (await runtime.call("add", {"a": 3})).invocation_id.encode())
        other.close()
        for wrong in ("999999", "abc"):
            ahead, third = await stream(f"Last-Event-ID: {wrong}\r\n")
            await until(ahead, b"event: reset")
            third.close()


@pytest.mark.parametrize("is_busy", [False, True])
async def test_an_event_stream_ends_when_its_key_is_revoked(make_app, serve_app, tmp_path, is_busy):
    async with served_events(make_app, serve_app, tmp_path / "calls.db") as (runtime, revoke, stream):

        async def call_again_and_again():
            while True:
                await runtime.call("add", {"a": 1})
                await asyncio.sleep(0.1)

        reader, writer = await stream()
        await until(reader, b"event: ready")
        calls = asyncio.create_task(call_again_and_again() if is_busy else asyncio.sleep(0))
        await revoke()
        await until(reader, b'"reason":"revoked"')
        calls.cancel()
        writer.close()


async def test_no_race_opens_more_event_streams_than_one_key_may_have(make_app, serve_app):
    app = make_app(lambda: Runtime.open(store="memory:", tools=[add]))
    async with serve_app(app) as url:
        token, _ = await app.state.served.grants.add(
            GrantKind.KEY, subject="user:ida", roles=[AccessRole.AUDITOR], created_by="test"
        )
        host, port = url.removeprefix("http://").split(":")

        async def stream():
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"GET /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            return (await reader.readline()).split()[1], writer

        opened = await asyncio.gather(*(stream() for _ in range(12)))
        assert sorted(status for status, _ in opened) == [b"200"] * 8 + [b"429"] * 4
        status = None
        async with asyncio.timeout(60):
            while status != b"200":  # the server notices the end of a stream a moment later
                for _, writer in opened:
                    writer.close()
                opened = [await stream()]
                status = opened[0][0]
        opened[0][1].close()


@pytest.mark.parametrize("key", ["k" * 256, "a\tb"])
def test_an_idempotency_key_that_is_too_long_or_not_printable_is_refused(http, key):
    refused = call(http, "add", {"a": 1}, {"idempotency-key": key})
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
    assert "1 to 255 printable" in refused.json()["detail"]


def test_half_a_character_in_a_body_or_a_path_is_no_error_of_the_server(http):
    for body in (r'{"tool": "\ud800"}', r'{"tool": "add", "arguments": {"\ud800": 1}}'):
        refused = http.post("/v1/calls", content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
    for path in ("/v1/calls/%ed%a0%80", "/v1/tools/%ed%a0%80"):
        assert http.get(path).status_code == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("/v1/calls", '{"tool":7', "Input data was truncated, at line 1, column 10"),
        ("/v1/calls", '{"tool": 7,\n "arguments": }', "JSON is malformed: invalid character, at line 2, column 15"),
        ("/v1/calls", '{"unknown": 1', "Input data was truncated, at line 1, column 14"),
        ("/v1/batches", '{"calls": [{"tool": 7}', "Input data was truncated, at line 1, column 23"),
    ],
)
def test_a_body_that_is_no_json_is_reported_with_the_position_before_any_member(http, path, body, fault):
    refused = http.post(path, content=body, headers={"content-type": "application/json"})
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
    problem = refused.json()
    assert problem["detail"] == f"the body must be JSON: {fault}; complete or repair it"
    assert problem["pointer"] == ""


def test_a_query_with_too_many_parameters_is_refused(http):
    refused = http.get("/v1/tools?" + "&".join(f"p{number}=1" for number in range(101)))
    assert (refused.status_code, refused.json()["detail"]) == (400, "send at most 100 query parameters")


def test_the_openapi_document_describes_objects_records_times_tags_and_examples(http):
    document = http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    assert schemas["CallBody"]["properties"]["arguments"]["additionalProperties"] is True
    assert {"$ref": "#/components/schemas/ToolResult"} in schemas["CallReply"]["properties"]["result"]["anyOf"]
    assert "structured_content" in schemas["ToolResult"]["properties"]
    assert schemas["SurfaceScope"]["type"] == "string"  # the standard lets it have other values than those listed
    assert "enum" not in schemas["SurfaceScope"]
    assert schemas["CallSummary"]["properties"]["began"]["format"] == "date-time"
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert {tag for each in operations for tag in each["tags"]} == {each["name"] for each in document["tags"]}
    bodies = [each["requestBody"]["content"]["application/json"] for each in operations if "requestBody" in each]
    assert all("example" in each for each in bodies)

    def json_reply(path, method):
        found = next(iter(document["paths"][path][method]["responses"].items()))[1]
        return found["content"]["application/json"]["schema"]

    assert json_reply("/v1/search", "post") == {"$ref": "#/components/schemas/ToolSearchResult"}
    assert json_reply("/v1/surfaces", "post") == {"$ref": "#/components/schemas/ToolSurface"}
    assert json_reply("/v1/status", "get") == {"$ref": "#/components/schemas/StatusReply"}
