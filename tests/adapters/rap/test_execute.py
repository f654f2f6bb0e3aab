"""One call of a RAP tool: dispatch, deferred result, prompts and notices."""

import asyncio
import json
import re
import time
from contextlib import asynccontextmanager, suppress

import pytest
from starting import begin

from agenttool import Runtime
from agenttool.adapters.rap import execute
from agenttool.adapters.rap.credentials import Bearer, Signed
from agenttool.adapters.rap.settings import RapServer
from agenttool.codec import to_json
from agenttool.codec.moments import timestamp
from agenttool.durable import deferred_results, recovery
from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, ProgressStatus, RuleSource, ToolProgress

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
SEED = ("RAP-002", "RAP-021", "RAP-022", "RAP-024", "RAP-025", "RAP-026", "RAP-027", "RAP-028", "RAP-029")


@pytest.mark.requirement(*SEED)
async def test_an_invocation_has_all_eight_fields(running, tool_server):
    server = tool_server()
    async with running(server, shares_user=True, options={"thread": "plot-9"}) as rt:
        surface = await rt.surface()
        child = rt.in_thread("plot-9/sub-1").in_thread("plot-9/sub-2")
        call = await begin(
            child, "read_probe", {"bed": 12}, surface=surface, native_call_id="m-4", actor_ref="gardener-5"
        )
        sent = await server.invoked()
        assert sent.pop("callback_url").startswith("http://127.0.0.1:")
        assert sent == {
            "operation": "read_probe",
            "arguments": {"bed": 12},
            "id": call.invocation_id,
            "call_id": "m-4",
            "group_id": "plot-9/sub-2",
            "thread_ancestors": ["plot-9", "plot-9/sub-1"],
            "user_id": "gardener-5",
        }
        await begin(rt, "read_probe", {"bed": 1}, surface=surface)
        root = await server.invoked(2)
        assert root["group_id"] == "plot-9"
        assert root["id"] != sent["id"]
        assert not {"thread_ancestors", "call_id", "user_id"} & root.keys()
    (kind,) = {headers["content-type"] for headers in server.headers if "content-type" in headers}
    assert kind == "application/json"


@pytest.mark.requirement("RAP-037")
async def test_the_user_id_is_sent_only_with_shares_user(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        await begin(rt, "read_probe", {"bed": 1}, surface=await rt.surface(), actor_ref="gardener-5")
        assert "user_id" not in await server.invoked()


@pytest.mark.requirement("RAP-020", "RAP-023")
@pytest.mark.parametrize(("name", "arguments"), [("read_probe", {"bed": 0}), ("read_probe", {}), ("unheard_of", {})])
async def test_what_does_not_fit_never_leaves_the_house(running, tool_server, name, arguments):
    server = tool_server()
    async with running(server) as rt:
        result = await rt.call(name, arguments, surface=await rt.surface())
        assert result.is_error
        assert server.invocations == []


@pytest.mark.requirement("RAP-032", "RAP-404")
async def test_a_server_that_fails_is_tried_again_with_the_same_words(running, tool_server, started):
    server = tool_server()
    server.statuses["/invoke"] = [500, 503]
    async with running(server, attempts=3) as rt:
        call, invocation = await started(rt, server)
        bodies = [body for _, path, body in server.requests if path == "/invoke"]
        assert len(bodies) == 3
        assert len(set(bodies)) == 1
        await server.settle(invocation)
        assert not (await rt.calls.get(call.invocation_id).result()).is_error


@pytest.mark.requirement("RAP-032")
async def test_a_server_that_says_when_to_come_back_did_not_handle_the_call(running, tool_server, started):
    server = tool_server()
    server.statuses["/invoke"], server.reply_headers = [503, 503], [(b"retry-after", b"1")]
    async with running(server) as rt:  # the tool may not run twice
        call, invocation = await started(rt, server)
        await server.settle(invocation)
        assert not (await rt.calls.get(call.invocation_id).result()).is_error
        assert len(server.posts("/invoke")) == 3


@pytest.mark.requirement("RAP-030")
@pytest.mark.parametrize(
    "members", [{"text": "from the reply"}, {"text": "Error: no"}, {"error": "no"}, {"status": 500}]
)
async def test_the_body_of_an_acknowledgement_means_nothing(running, tool_server, started, members):
    server = tool_server()
    server.acknowledgement = {"type": "tool_result", **members}
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.settle(invocation, "from the callback")
        assert (await rt.calls.get(call.invocation_id).result()).text == "from the callback"


@pytest.mark.requirement("RAP-031", "RAP-033", "RAP-409")
@pytest.mark.parametrize("status", [400, 404, 429, 202, 204, 307])
async def test_a_refusal_is_an_error_result_at_once(running, tool_server, status):
    server = tool_server()
    server.statuses["/invoke"] = [status]
    async with running(server) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.error.error_class.value, result.error.error_code) == ("execution_failed", "not_accepted")
        assert str(status) in result.error.message
        assert [path for _, path, _ in server.requests] == ["/.well-known/rap-toolset", "/invoke"]


async def test_other_good_statuses_count_where_a_deployment_says_so(running, tool_server, started):
    server = tool_server()
    server.statuses["/invoke"] = [202]
    async with running(server, takes_any_2xx=True) as rt:
        await begin(rt, "read_probe", {"bed": 1}, surface=await rt.surface())
        assert len(await rt.deferred.list()) == 1


@pytest.mark.requirement("RAP-034")
async def test_a_dispatch_that_never_succeeds_is_an_error_result(running, tool_server):
    server = tool_server()
    server.statuses["/invoke"] = [500] * 3
    async with running(server, attempts=3) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.error.error_class.value, result.error.error_code) == (
            "dependency_unavailable",
            "not_acknowledged",
        )
        assert len(server.posts("/invoke")) == 3
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id


@pytest.mark.requirement("RAP-031")
@pytest.mark.parametrize("status", [400, 401, 429])
async def test_a_rejection_after_an_unacknowledged_attempt_is_reported_as_uncertain(running, tool_server, status):
    server = tool_server()
    server.statuses["/invoke"] = [500, status]
    async with running(server, attempts=2) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.error.error_code, result.error.retry.safe) == ("not_accepted", False)
        assert "may have taken effect" in result.model_facing_content[0].text
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id


class Forgetful:
    """Takes each signed request once, and hangs up before it answers the second one of its first connection."""

    def __init__(self):
        self.nonces, self.taken, self.refused = set(), [], 0

    async def __call__(self, reader, writer):
        is_first, received = not self.nonces, 0
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1]))
                nonce, received = re.search(r",n=(\w+)", head)[1], received + 1
                status = "401 Taken Before" if nonce in self.nonces else "200 OK"
                self.refused += nonce in self.nonces
                self.nonces.add(nonce)
                self.taken.append(body)
                if is_first and received > 1:
                    break
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()


@pytest.mark.requirement("RAP-032", "RAP-098")
async def test_a_signed_request_is_signed_again_after_a_closed_idle_connection(running, tool_server):
    """Otherwise a server that accepted the first request without an answer would reject the second as a replay."""
    door, server = Forgetful(), tool_server()
    async with await asyncio.start_server(door, "127.0.0.1", 0) as listening:
        server.manifest["endpoint"] = endpoint = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/invoke"
        signed = {"credential": Signed("a-secret-of-sixteen"), "presents_to": (endpoint,)}
        async with running(server, attempts=2, **signed) as rt:
            surface = await rt.surface()
            for bed in (1, 2):
                await begin(rt, "read_probe", {"bed": bed}, surface=surface)
            assert len(await rt.deferred.list()) == 2
    assert (len(door.taken), len(set(door.taken)), door.refused) == (3, 2, 0)


@pytest.mark.requirement("RAP-001")
async def test_each_message_of_the_runtime_is_one_json_object_in_utf_8_with_its_label(running, tool_server):
    server = tool_server(tools=[{"name": "say", "description": "Say.", "inputSchema": {"type": "object"}}])
    async with running(server, options={"thread": "beet-ä"}) as rt:
        call = await begin(rt, "say", {"text": "größer \u2028"}, surface=await rt.surface())
        invocation = await server.invoked()
        await rt.cancel(call.invocation_id)
        await server.until(lambda: server.posts("/cancel_tool_call"))
        await rt.sources.get("rap").close_thread("beet-ä")
        await server.until(lambda: server.posts("/close_thread"))
    assert (invocation["arguments"], invocation["group_id"]) == ({"text": "größer \u2028"}, "beet-ä")
    sent = [
        (body, headers)
        for (method, _, body), headers in zip(server.requests, server.headers, strict=True)
        if method == "POST"
    ]
    assert len(sent) == 3
    for body, headers in sent:
        assert headers["content-type"] == "application/json"
        assert isinstance(json.loads(body.decode("utf-8")), dict)


@pytest.mark.requirement("RAP-035")
@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
async def test_the_journal_records_the_operation_the_time_and_the_outcome_of_each_invocation(
    running, tool_server, started, outcome
):
    server = tool_server()
    async with running(server, options={"thread": "t"}) as rt:
        before = timestamp(time.time_ns())
        call, invocation = await started(rt, server)
        if outcome == "succeeded":
            await server.settle(invocation, "moist")
        else:
            await rt.cancel(call.invocation_id)
        result = await rt.calls.get(call.invocation_id).result()
        recorded = [to_json(record) async for record in rt.journal.export()]
        after = timestamp(time.time_ns())
    (logged,) = [each for each in recorded if each["record_type"] == "tool_invocation"]
    (ended,) = [each for each in recorded if each["record_type"] == "tool_result"]
    assert logged["external_mappings"][0]["operation"] == "read_probe"
    assert before <= logged["created_at"] <= logged["started_at"] <= logged["ended_at"] <= after
    assert logged["status"] == {"succeeded": "succeeded", "failed": "canceled"}[outcome]
    assert (ended["status"], ended["is_error"]) == (result.status, outcome == "failed")


@pytest.mark.requirement("RAP-035")
async def test_the_journal_records_what_was_sent_where(running, tool_server, started):
    server = tool_server()
    async with running(server, options={"thread": "t"}) as rt:
        call, invocation = await started(rt, server)
        (mapping,) = (await rt.journal.invocation(call.invocation_id)).external_mappings
        assert (mapping.operation, mapping.tool_call_id, mapping.group_id) == ("read_probe", call.invocation_id, "t")
        exported = [repr(record) async for record in rt.journal.export()]
        assert not [each for each in exported if invocation["callback_url"] in each]


@pytest.mark.requirement("RAP-341")
async def test_a_credential_is_presented_to_its_server_only(running, tool_server, started):
    server = tool_server()
    async with running(server, credential=Bearer("a-token-of-sixteen")) as rt:
        await started(rt, server)
        await rt.sources.get("rap").close_thread("t")
        await server.until(lambda: server.posts("/close_thread"))
        assert {headers["authorization"] for headers in server.headers} == {"Bearer a-token-of-sixteen"}
        assert "a-token-of-sixteen" not in repr(rt.sources.get("rap").servers)


class GardenKey:
    """An authentication scheme of one deployment."""

    def caller_of(self, request):
        return None

    def headers(self, method, url, body):
        return {"X-Garden-Key": "rose"}


@pytest.mark.requirement("RAP-340")
async def test_requests_are_authenticated_by_a_scheme_of_the_deployment(running, tool_server, started):
    server = tool_server()
    async with running(server, credential=GardenKey()) as rt:
        await started(rt, server)
        assert {headers["x-garden-key"] for headers in server.headers} == {"rose"}


@pytest.mark.requirement("RAP-412")
async def test_an_endpoint_in_a_private_network_is_not_contacted_unless_allowed(running, tool_server):
    server = tool_server()
    server.manifest["endpoint"] = "http://10.0.0.1/invoke"
    async with running(server) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert "public address" in result.error.message


@pytest.mark.requirement("RAP-002")
async def test_an_endpoint_is_used_as_it_is_and_notices_go_to_the_base(running, tool_server):
    base, elsewhere = tool_server(), tool_server(tools=["water"])
    async with running(base, elsewhere) as rt:
        base.manifest["endpoint"] = f"{elsewhere.url}/some/where?k=1"
        async with type(rt).open(sources=rt.sources.get("rap").servers[:1], rules=ALLOW) as other:
            calling = asyncio.ensure_future(other.call("read_probe", {"bed": 1}, surface=await other.surface()))
            await elsewhere.until(lambda: elsewhere.posts("/some/where"))
            await other.cancel((await other.deferred.list())[0].invocation_id)
            assert (await calling).is_error
            await base.until(lambda: base.posts("/cancel_tool_call"))


@pytest.mark.requirement("RAP-126", "RAP-121")
async def test_many_calls_are_under_way_at_once_and_never_mixed_up(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        surface = await rt.surface()

        async def reply(invocation):
            asyncio.get_running_loop().call_soon(
                asyncio.ensure_future, server.settle(invocation, json.dumps(invocation["arguments"]))
            )

        server.on_invoke = reply
        calls = (rt.in_thread(f"t{n % 7}").call("read_probe", {"bed": n}, surface=surface) for n in range(1, 101))
        results = await asyncio.gather(*calls)
        assert [json.loads(result.content[0].text) for result in results] == [{"bed": n} for n in range(1, 101)]


ALLOW_ALL = Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))
CHOICE = {"prompt": "Open the main valve?", "choices": ["Open it", "Leave closed"], "default": 1}


async def asked(server, invocation, **changed):
    members = {**CHOICE, "response_url": f"{server.url}/picked", **changed}
    return await server.post(invocation, "user_choice", **members)


@pytest.mark.requirement("RAP-242", "RAP-243", "RAP-244", "RAP-245", "RAP-250")
@pytest.mark.parametrize(("selected", "posted"), [(0, 0), (1, 1), (None, 1)])
async def test_a_choice_is_put_to_a_person_and_posted_once(running, tool_server, started, selected, posted):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        assert await asked(server, invocation) == 200
        (prompt,) = await rt.prompts.list()
        assert (prompt.message, prompt.choices, prompt.default) == (CHOICE["prompt"], ("Open it", "Leave closed"), 1)
        assert (await rt.journal.invocation(call.invocation_id)).status.value == "needs_input"
        assert (await rt.prompts.choose(prompt.prompt_id, selected)).is_delivered
        assert not (await rt.prompts.choose(prompt.prompt_id, 0)).is_taken
        assert server.posts("/picked") == [{"id": invocation["id"], "selected": posted}]
        assert len(await rt.deferred.list()) == 1
        await server.settle(invocation, "closed")
        assert (await rt.calls.get(call.invocation_id).result()).content[0].text == "closed"
        assert len(server.invocations) == 1


@pytest.mark.requirement("RAP-231")
@pytest.mark.parametrize("ending", ["result", "cancel", "no result in time", "choice"])
async def test_the_url_of_an_authorization_is_deleted_as_soon_as_it_is_not_shown(
    running, tool_server, started, tmp_path, ending
):
    server = tool_server()
    within_s = 1.0 if ending == "no result in time" else None
    async with running(server, options={"store": f"sqlite:{tmp_path}/state.db"}, within_s=within_s) as rt:
        call, invocation = await started(rt, server)
        url = "https://id.example.test/authorize?state=Qz-state"
        assert await server.post(invocation, "oauth", auth_url=url) == 200
        assert [each.url for each in await rt.prompts.list()] == [url]
        if ending == "result":
            await server.settle(invocation, "sent")
        elif ending == "cancel":
            await rt.cancel(call.invocation_id)
        elif ending == "choice":
            assert await asked(server, invocation) == 200
            assert [each.url for each in await rt.prompts.list()] == [None]
        if ending != "choice":
            assert await rt.calls.get(call.invocation_id).result(within_s=60) is not None
        await rt._core.durability.checkpoints.settle()
        stored = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    assert b"Qz-state" not in stored


@pytest.mark.requirement("RAP-222", "RAP-223", "RAP-225")
async def test_an_authorization_is_shown_and_forgotten_with_the_call(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        url = "https://id.example.test/authorize?state=Qz-state"
        assert await server.post(invocation, "oauth", auth_url=url) == 200
        (prompt,) = await rt.prompts.list()
        assert (prompt.kind.value, prompt.url) == ("authorization", url)
        assert await rt.journal.result(call.invocation_id) is None
        await server.settle(invocation, "sent")
        await rt.calls.get(call.invocation_id).result()
        assert await rt._core.durability.documents.page("prompt", limit=9) == []
        exported = [repr(record) async for record in rt.journal.export()]
        assert not [each for each in exported if "Qz-state" in each]
        assert len(server.invocations) == 1


@pytest.mark.requirement("RAP-414")
@pytest.mark.parametrize(
    "url", ["http://id.example.test/a", "ftp://id.example.test/a", "javascript:1", "http://127.0.0.1/a"]
)
async def test_an_authorization_page_needs_tls(running, tool_server, started, url):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await server.post(invocation, "oauth", auth_url=url) == 400
        assert await rt.prompts.list() == ()
        assert len(await rt.deferred.list()) == 1


@pytest.mark.requirement("RAP-224")
async def test_a_pending_authorization_is_reported_as_progress(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.post(invocation, "oauth", auth_url="https://id.example.test/authorize?state=Qz-state")
        updates = [record async for record in rt.journal.export() if isinstance(record, ToolProgress)]
        assert updates[-1].status is ProgressStatus.WAITING_FOR_INPUT
        assert updates[-1].invocation_id == call.invocation_id
        assert "Qz-state" not in str(updates)


async def test_while_developing_a_page_of_this_machine_may_be_shown(running, tool_server, started):
    server = tool_server()
    async with running(server, shows_http_urls=True) as rt:
        _, invocation = await started(rt, server)
        assert await server.post(invocation, "oauth", auth_url="http://127.0.0.1:9/a") == 200
        assert await server.post(invocation, "oauth", auth_url="http://id.example.test/a") == 400


@pytest.mark.requirement("RAP-415")
async def test_no_prompt_is_shown_for_a_call_that_does_not_wait(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await server.settle(invocation)
        await rt.calls.get(call.invocation_id).result()
        assert await asked(server, invocation) == 200
        assert await server.post(invocation, "oauth", auth_url="https://id.example.test/a") == 200
        assert await rt.prompts.list() == ()


@pytest.mark.requirement("RAP-416")
async def test_a_second_prompt_takes_the_place_of_the_first(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (first,) = await rt.prompts.list()
        await asked(server, invocation, prompt="Really?")
        (second,) = await rt.prompts.list()
        assert second.message == "Really?"
        assert not (await rt.prompts.choose(first.prompt_id, 0)).is_taken
        assert (await rt.prompts.choose(second.prompt_id, 0)).is_taken
        assert len(server.posts("/picked")) == 1


@pytest.mark.requirement("RAP-100")
async def test_a_call_beyond_its_prompt_limit_is_rejected_and_logged(running, tool_server, started, tmp_path, caplog):
    server, store = tool_server(), {"store": f"sqlite:{tmp_path}/state.db"}
    async with running(server, max_prompts=3, options=store) as rt:
        call, invocation = await started(rt, server)
        token = invocation["callback_url"].rpartition("/")[2]
        assert [await asked(server, invocation, prompt=f"{each}?") for each in range(4)] == [200, 200, 200, 409]
        (prompt,) = await rt.prompts.list()
        assert prompt.message == "2?"
    async with running(server, max_prompts=3, options=store) as rt:
        url = f"{rt.sources.get('rap').callbacks.urls.base}/{token}"
        server.http_client = HttpClient(SsrfPolicy.parse(["127.0.0.0/8"]))
        before = len([record async for record in rt.journal.export()])
        for _ in range(20):
            request = {"auth_url": "https://id.example.test/a", "url": url}
            assert await server.post(invocation, "oauth", **request) == 409
        assert len([record async for record in rt.journal.export()]) == before
        assert (await rt.prompts.list())[0].message == "2?"
        assert "was rejected: a call may ask 3 times" in caplog.text
        assert await server.post(invocation, "tool_result", text="done", url=url) == 200
        assert not (await rt.calls.get(call.invocation_id).result()).is_error


@pytest.mark.parametrize("members", [{"prompt": "x" * 10_001}, {"choices": ["y"] * 101}, {"choices": ["y" * 10_001]}])
async def test_an_overlong_question_is_rejected(running, tool_server, started, members):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await asked(server, invocation, **{**members, "default": 0}) == 400
        assert await rt.prompts.list() == ()


@pytest.mark.requirement("RAP-098", "RAP-250")
async def test_a_repeated_prompt_is_shown_once(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        (prompt,) = await rt.prompts.list()
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        assert await rt.prompts.list() == (prompt,)
        assert (await rt.prompts.choose(prompt.prompt_id, 0)).is_delivered
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        assert await rt.prompts.list() == ()
        assert await asked(server, invocation, headers={"Idempotency-Key": "b"}, prompt="And now?") == 200
        assert await asked(server, invocation, headers={"Idempotency-Key": "a"}) == 200
        (second,) = await rt.prompts.list()
        assert second.message == "And now?"


@pytest.mark.requirement("RAP-244")
async def test_a_tool_that_was_away_learns_of_a_choice_when_it_is_back(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(deferred_results, "REDELIVER_EVERY_S", 0.01)
    server = tool_server()
    server.statuses["/picked"] = [503] * 7
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts.list()
        chosen = await rt.prompts.choose(prompt.prompt_id, 0)
        assert (chosen.is_taken, chosen.is_delivered) == (True, False)
        assert not (await rt.prompts.choose(prompt.prompt_id, 1)).is_taken
        choices = await server.until(lambda: server.posts("/picked")[7:])
        assert choices == [{"id": invocation["id"], "selected": 0}]
        assert await rt.prompts.list() == ()


@pytest.mark.requirement("RAP-417")
@pytest.mark.parametrize("how", ["settled", "canceled"])
async def test_a_prompt_goes_with_its_call(running, tool_server, started, how):
    server = tool_server()
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts.list()
        if how == "settled":
            await server.settle(invocation)
        else:
            await rt.cancel(call.invocation_id)
        await rt.calls.get(call.invocation_id).result()
        assert await rt.prompts.list() == ()
        assert not (await rt.prompts.choose(prompt.prompt_id, 0)).is_taken
        assert server.posts("/picked") == []


@pytest.mark.requirement("RAP-412")
async def test_a_choice_is_not_sent_where_it_may_not_go(running, tool_server, started):
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        for url in ("http://10.1.2.3/x", "file:///etc/passwd", "http://169.254.169.254/latest"):
            assert await asked(server, invocation, response_url=url) == 400
        assert await rt.prompts.list() == ()


async def test_a_rejected_choice_is_reported_and_not_sent_again(running, tool_server, started, monkeypatch):
    monkeypatch.setattr(deferred_results, "REDELIVER_EVERY_S", 0.01)
    server = tool_server()
    server.statuses["/picked"] = [410]
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts.list()
        chosen = await rt.prompts.choose(prompt.prompt_id, 0)
        assert (chosen.is_taken, chosen.is_delivered) == (True, False)
        await asyncio.sleep(0.05)
        assert len(server.posts("/picked")) == 1


async def test_a_delivered_choice_is_not_sent_again_by_a_process_that_read_it_as_undelivered(
    running, tool_server, started, monkeypatch
):
    monkeypatch.setattr(deferred_results, "REDELIVER_EVERY_S", 0.01)
    server = tool_server()
    async with running(server) as rt:
        _, invocation = await started(rt, server)
        await asked(server, invocation)
        (prompt,) = await rt.prompts.list()
        assert (await rt.prompts.choose(prompt.prompt_id, 0)).is_delivered
        documents = rt._core.durability.documents
        await documents.put(deferred_results.UNDELIVERED, prompt.invocation_id, b"")
        while await documents.keys(deferred_results.UNDELIVERED, limit=1):  # noqa: ASYNC110 -- there is nothing to wait on
            await asyncio.sleep(0.01)
        assert len(server.posts("/picked")) == 1


@pytest.mark.requirement("RAP-280", "RAP-281", "RAP-283", "RAP-284")
async def test_every_server_gets_one_notice_of_a_canceled_call(running, tool_server, started):
    server, broken, other = tool_server(), tool_server(tools=["water"]), tool_server(tools=["prune"])
    broken.statuses["/cancel_tool_call"] = [500]
    async with running(server, broken, other) as rt:
        call, _ = await started(rt, server)
        assert await rt.cancel(call.invocation_id)
        notice = {"thread_id": rt.calls.thread.thread_id, "tool_call_id": call.invocation_id}
        for each in (server, broken, other):
            assert await each.until(lambda each=each: each.posts("/cancel_tool_call")) == [notice]
    for each in (server, broken, other):
        assert each.posts("/cancel_tool_call") == [notice]


@pytest.fixture
def restarted(serve_app, tool_server, started, tmp_path):
    """Start a call, close its runtime, and open another while the server does not say what it offers.

    As after a restart of the machine, when the runtime is back before the server.
    """

    @asynccontextmanager
    async def restarted():
        server, retained = tool_server(), f"sqlite:{tmp_path}/state.db"
        async with serve_app(server, lifespan="off") as server.url:
            sources = [RapServer(name="s0", url=server.url, allow=["127.0.0.0/8"])]
            async with Runtime.open(sources=sources, store=retained, rules=[ALLOW_ALL], approve="wait") as before:
                _, invocation = await started(before, server)
            server.statuses["/.well-known/rap-toolset"] = [503]
            async with Runtime.open(sources=sources, store=retained, approve="wait") as rt:
                assert rt.sources.get("rap").faults
                yield rt, server, invocation
            await server.hang_up()

    return restarted


@pytest.mark.requirement("RAP-412")
async def test_a_choice_is_put_up_though_its_server_does_not_say_what_it_offers(restarted):
    async with restarted() as (rt, server, invocation):
        assert await asked(server, invocation, response_url="http://10.1.2.3/x") == 400
        assert await asked(server, invocation) == 200
        (prompt,) = await rt.prompts.list()
        assert (await rt.prompts.choose(prompt.prompt_id, 0)).is_taken


async def test_a_subscription_is_stored_while_its_server_is_not_discovered(restarted):
    async with restarted() as (rt, server, invocation):
        assert await server.settle(invocation, "watching", subscription=True) == 200
        assert len(await rt.sources.get("rap").subscriptions.of(invocation["group_id"], 9)) == 1
        assert server.posts("/cancel_tool_call") == []


class Closing:
    """A server that answers one request on each connection, and closes it when the next one has come."""

    def __init__(self):
        self.url = ""
        self.got = []
        self.arrived = asyncio.Event()

    async def serve(self, reader, writer):
        for number in range(2):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            length = [line[16:] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(length[0]) if length else 0)
            self.got.append((number, head.split()[1], body))
            if number == 0:
                writer.write(self._answer(head))
            self.arrived.set()
        writer.close()

    def _answer(self, head):
        tool = {"name": "probe", "description": "Probe.", "inputSchema": {"type": "object"}}
        manifest = {"name": "gh", "endpoint": f"{self.url}/invoke", "tools": [tool]}
        body = json.dumps(manifest).encode() if head.startswith("GET") else b""
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.requirement("RAP-300")
async def test_a_notice_that_meets_a_closed_connection_goes_out_on_another():
    host = Closing()
    async with await asyncio.start_server(host.serve, "127.0.0.1", 0) as server, asyncio.timeout(60):
        host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        source = RapServer(name="gh", url=host.url, allow=("127.0.0.1",))
        async with Runtime.open(sources=[source], approve="wait") as rt:
            await rt.sources.get("rap").close_thread("t1")
            while len(host.got) < 3:
                host.arrived.clear()
                await host.arrived.wait()
        notice = ("/close_thread", b'{"thread_id":"t1"}')
        assert [each[0] for each in host.got] == [0, 1, 0]
        assert [each[1:] for each in host.got[1:]] == [notice, notice]


HERE = ("127.0.0.0/8",)


def tool(**annotations):
    return {"name": "read_probe", "description": "Read.", "inputSchema": {"type": "object"}, "annotations": annotations}


@pytest.fixture
def unanswered(running, tool_server):
    """Open a runtime whose server accepts invocations and never acknowledges them, until `release` is set."""

    @asynccontextmanager
    async def unanswered(on_invoke=None, tools=("read_probe",), **settings):
        server, release = tool_server(tools=tools), asyncio.Event()

        async def stall(invocation):
            if on_invoke is not None:
                await on_invoke(server, invocation)
            await release.wait()

        server.on_invoke = stall
        async with running(server, **settings) as rt, asyncio.timeout(60):
            yield rt, server
            release.set()

    return unanswered


@pytest.mark.requirement("RAP-400", "RAP-095")
async def test_a_result_ends_a_call_whose_acknowledgement_stalls_and_stops_the_send(unanswered):
    async def settle(server, invocation):
        assert await server.settle(invocation, "wet") == 200

    async with unanswered(settle, attempts=5, within_s=5) as (rt, server):
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.is_error, result.content[0].text) == (False, "wet")
        assert len(server.posts("/invoke")) == 1
        assert server.posts("/cancel_tool_call") == []


@pytest.fixture
def dropped(running, tool_server):
    """Give a runtime, and a server that reads an invocation and closes the connection without a reply."""

    @asynccontextmanager
    async def dropped(**settings):
        server = tool_server()

        async def read_and_close(reader, writer):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split()[0])
            server.invocations.append(json.loads(await reader.readexactly(length)))
            server.arrived.set()
            writer.close()

        async with await asyncio.start_server(read_and_close, "127.0.0.1", 0) as endpoint:
            server.manifest["endpoint"] = f"http://127.0.0.1:{endpoint.sockets[0].getsockname()[1]}/invoke"
            async with running(server, **settings) as rt, asyncio.timeout(60):
                yield rt, server

    return dropped


@pytest.mark.parametrize("detached", [False, True])
async def test_a_result_is_awaited_though_the_connection_dropped_before_the_acknowledgement(dropped, detached):
    async with dropped(within_s=50) as (rt, server):
        surface = await rt.surface()
        if detached:
            call = await begin(rt, "read_probe", {"bed": 1}, surface=surface)
            waiting = asyncio.ensure_future(rt.calls.get(call.invocation_id).result())
        else:
            waiting = asyncio.ensure_future(rt.call("read_probe", {"bed": 1}, surface=surface))
        invocation = await server.invoked()
        while not await rt.deferred.list():  # noqa: ASYNC110 -- there is nothing to wait on
            await asyncio.sleep(0.01)
        assert await server.settle(invocation, "wet") == 200
        result = await waiting
        assert (result.is_error, result.content[0].text) == (False, "wet")
        assert server.invocations == [invocation]


async def test_within_s_holds_though_the_connection_dropped_before_the_acknowledgement(dropped):
    async with dropped(within_s=0.2) as (rt, server):
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert (result.error.error_class.value, result.error.retry.safe) == ("timeout", False)
        assert len(server.invocations) == 1
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id


async def test_a_result_between_two_attempts_prevents_the_next_one(running, tool_server, monkeypatch):
    monkeypatch.setattr(execute, "FIRST_DELAY_S", 1e6)
    monkeypatch.setattr(execute, "MAX_DELAY_S", 1e6)
    server = tool_server()
    server.statuses["/invoke"] = [503]
    async with running(server, attempts=5) as rt, asyncio.timeout(60):
        calling = asyncio.ensure_future(rt.call("read_probe", {"bed": 1}, surface=await rt.surface()))
        [invocation] = await server.until(lambda: server.posts("/invoke"))
        assert await server.settle(invocation, "wet") == 200
        assert (await calling).content[0].text == "wet"
        assert len(server.posts("/invoke")) == 1


async def test_a_result_that_another_process_received_prevents_the_next_attempt(
    serve_app, tool_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(recovery, "POLL_S", 1.0)
    server, store = tool_server(), f"sqlite:{tmp_path}/calls.db"

    async def settle(invocation):
        assert await server.settle(invocation, "wet") == 200

    async def settle_and_fail(scope, receive, send):
        async def fail(event):
            is_start = scope["path"] == "/invoke" and event["type"] == "http.response.start"
            await send({**event, "status": 503} if is_start else event)

        await server(scope, receive, fail)

    server.on_invoke = settle
    async with serve_app(settle_and_fail, lifespan="off") as server.url, asyncio.timeout(60):
        sources = [RapServer(name="s0", url=server.url, allow=HERE, attempts=1000)]
        async with (
            Runtime.open(sources=sources, rules=ALLOW, store=store, approve="wait"),  # it listens for both
            Runtime.open(sources=sources, rules=ALLOW, store=store, approve="wait") as rt,
        ):
            result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
            assert (result.is_error, result.content[0].text) == (False, "wet")
            assert len(server.posts("/invoke")) == 1
        await server.hang_up()


@pytest.mark.requirement("RAP-127")
@pytest.mark.parametrize("detached", [False, True])
async def test_within_s_holds_though_the_acknowledgement_stalls(unanswered, detached):
    async with unanswered(attempts=5, within_s=0.2) as (rt, server):
        surface = await rt.surface()
        if detached:
            call = await begin(rt, "read_probe", {"bed": 1}, surface=surface)
            result = await rt.calls.get(call.invocation_id).result()
        else:
            result = await rt.call("read_probe", {"bed": 1}, surface=surface)
        assert result.error.error_class.value == "timeout"
        assert len(server.posts("/invoke")) == 1
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id
        assert await rt.deferred.list() == ()


async def test_within_s_holds_between_attempts(running, tool_server):
    server = tool_server()
    server.statuses["/invoke"] = [503] * 100_000
    async with running(server, attempts=100_000, within_s=0.2) as rt, asyncio.timeout(60):
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert result.error.error_class.value == "timeout"


class Amnesiac:
    """A server without a memory of ids: it runs each invocation that arrives, and loses the first acknowledgements."""

    def __init__(self, lost):
        self.lost, self.ran = lost, []

    async def __call__(self, reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = json.loads(await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1])))
                self.ran.append(body["id"])
                if len(self.ran) <= self.lost:
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()


@pytest.fixture
def amnesiac(running, tool_server):
    """Open a runtime on a server whose invocations go to an `Amnesiac`."""

    @asynccontextmanager
    async def amnesiac(lost=1, *, hints=None, **settings):
        server, ran = tool_server(tools=[tool(**(hints or {}))]), Amnesiac(lost)
        async with await asyncio.start_server(ran, "127.0.0.1", 0) as listening, asyncio.timeout(60):
            server.manifest["endpoint"] = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/invoke"
            async with running(server, **settings) as rt:
                yield rt, server, ran

    return amnesiac


async def test_a_tool_that_is_not_idempotent_is_not_sent_again_after_a_lost_acknowledgement(amnesiac):
    async with amnesiac() as (rt, server, ran):
        result = await rt.call("read_probe", {}, surface=await rt.surface())
        assert ran.ran == [result.invocation_id]
        error = result.error
        assert (error.error_class.value, error.error_code) == ("dependency_unavailable", "not_acknowledged")
        assert error.retry.safe is False
        assert "may have accepted it" in error.message
        cancel = await server.until(lambda: server.posts("/cancel_tool_call"))
        assert cancel[0]["tool_call_id"] == result.invocation_id


@pytest.mark.parametrize("hints", [{"idempotent": True}, {"idempotent": True, "readOnly": True}, {"readOnly": True}])
async def test_a_trusted_tool_that_may_run_twice_is_sent_again(amnesiac, hints):
    async with amnesiac(hints=hints, trusts_annotations=True) as (rt, _, ran):
        call = await begin(rt, "read_probe", {}, surface=await rt.surface())
        assert ran.ran == [call.invocation_id] * 2
        assert [each.is_sent for each in await rt.deferred.list()] == [True]


@pytest.mark.parametrize(("trusts", "attempts", "sent"), [(False, None, 1), (True, 1, 1), (False, 3, 3), (False, 2, 2)])
async def test_the_settings_say_how_often_a_call_is_sent(amnesiac, trusts, attempts, sent):
    async with amnesiac(9, hints={"idempotent": True}, trusts_annotations=trusts, attempts=attempts) as (rt, _, ran):
        result = await rt.call("read_probe", {}, surface=await rt.surface())
        assert ran.ran == [result.invocation_id] * sent


@pytest.mark.parametrize(("attempts", "sent"), [(None, 1), (1, 1), (2, 2), (3, 3)])
async def test_a_reused_connection_that_closes_counts_as_an_attempt(amnesiac, attempts, sent):
    async with amnesiac(lost=0, attempts=attempts) as (rt, _, ran):
        surface = await rt.surface()
        await begin(rt, "read_probe", {}, surface=surface)
        ran.lost = 9
        result = await rt.call("read_probe", {}, surface=surface)
        assert ran.ran[1:] == [result.invocation_id] * sent


@pytest.mark.requirement("RAP-032")
async def test_a_call_that_could_not_be_sent_is_tried_again_and_arrives_once(
    running, tool_server, free_port, monkeypatch
):
    server, ran, port = tool_server(), Amnesiac(0), free_port()
    server.manifest["endpoint"] = f"http://127.0.0.1:{port}/invoke"
    async with running(server) as rt, asyncio.timeout(60):
        surface = await rt.surface()
        error = (await rt.call("read_probe", {"bed": 1}, surface=surface)).error
        assert (error.error_code, error.retry.safe) == ("not_acknowledged", True)
        assert error.message.startswith("nothing was sent")
        assert server.posts("/cancel_tool_call") == []
        monkeypatch.setattr(execute, "DEFAULT_ATTEMPTS", 1_000_000)
        starting = asyncio.ensure_future(begin(rt, "read_probe", {"bed": 1}, surface=surface))
        async with await asyncio.start_server(ran, "127.0.0.1", port):
            call = await starting
            assert ran.ran == [call.invocation_id]
