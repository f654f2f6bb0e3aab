"""Dispatch: all that a tool must know, to its own endpoint, tried again only where that can help."""

import asyncio
import json
import re
from contextlib import suppress

import pytest

from agenttool.adapters.rap.credentials import Bearer
from agenttool.adapters.rap.signed import Signed
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
SEED = ("RAP-002", "RAP-021", "RAP-022", "RAP-024", "RAP-025", "RAP-026", "RAP-027", "RAP-028", "RAP-029")


@pytest.mark.requirement(*SEED)
async def test_an_invocation_has_all_eight_fields(running, tool_server):
    server = tool_server()
    async with running(server, shares_user=True, options={"thread": "plot-9"}) as rt:
        surface = await rt.surface()
        child = rt.in_thread("plot-9/sub-1").in_thread("plot-9/sub-2")
        call = await child.start(
            "read_probe", {"bed": 12}, surface=surface, native_call_id="m-4", actor_ref="gardener-5"
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
        await rt.start("read_probe", {"bed": 1}, surface=surface)
        root = await server.invoked(2)
        assert root["group_id"] == "plot-9"
        assert root["id"] != sent["id"]
        assert not {"thread_ancestors", "call_id", "user_id"} & root.keys()
    (kind,) = {headers["content-type"] for headers in server.headers if "content-type" in headers}
    assert kind == "application/json"


@pytest.mark.requirement("RAP-037")
async def test_nobody_is_told_who_asks_unless_that_was_agreed(running, tool_server):
    server = tool_server()
    async with running(server) as rt:
        await rt.start("read_probe", {"bed": 1}, surface=await rt.surface(), actor_ref="gardener-5")
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
    async with running(server) as rt:
        call, invocation = await started(rt, server)
        bodies = [body for _, path, body in server.requests if path == "/invoke"]
        assert len(bodies) == 3
        assert len(set(bodies)) == 1
        await server.settle(invocation)
        assert not (await rt.wait(call.invocation_id)).is_error


@pytest.mark.requirement("RAP-031", "RAP-033", "RAP-030", "RAP-409")
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
        await rt.start("read_probe", {"bed": 1}, surface=await rt.surface())
        assert len(await rt.waiting()) == 1


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


@pytest.mark.requirement("RAP-031", "RAP-402")
@pytest.mark.parametrize("status", [400, 401, 429])
async def test_a_refusal_after_a_try_of_which_nobody_knows_is_told_as_doubtful(running, tool_server, status):
    server = tool_server()
    server.statuses["/invoke"] = [500, status]
    async with running(server) as rt:
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
        is_first, heard = not self.nonces, 0
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                body = await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1]))
                nonce, heard = re.search(r",n=(\w+)", head)[1], heard + 1
                status = "401 AnswerStatus Before" if nonce in self.nonces else "200 OK"
                self.refused += nonce in self.nonces
                self.nonces.add(nonce)
                self.taken.append(body)
                if is_first and heard > 1:
                    break
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()


@pytest.mark.requirement("RAP-032", "RAP-098")
async def test_what_was_signed_for_once_is_signed_anew_where_a_kept_connection_was_closed(running, tool_server):
    """Or else whoever took the request, and could not say so, would take the second one for a replay, and refuse it."""
    door, server = Forgetful(), tool_server()
    async with await asyncio.start_server(door, "127.0.0.1", 0) as listening:
        server.manifest["endpoint"] = endpoint = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/invoke"
        signed = {"credential": Signed("a-secret-of-sixteen"), "presents_to": (endpoint,)}
        async with running(server, **signed) as rt:
            surface = await rt.surface()
            for bed in (1, 2):
                await rt.start("read_probe", {"bed": bed}, surface=surface)
            assert len(await rt.waiting()) == 2
    assert (len(door.taken), len(set(door.taken)), door.refused) == (3, 2, 0)


@pytest.mark.requirement("RAP-035")
async def test_the_journal_tells_what_was_sent_where(running, tool_server, started):
    server = tool_server()
    async with running(server, options={"thread": "t"}) as rt:
        call, invocation = await started(rt, server)
        (mapping,) = (await rt.invocation(call.invocation_id)).external_mappings
        assert (mapping.operation, mapping.tool_call_id, mapping.group_id) == ("read_probe", call.invocation_id, "t")
        exported = [repr(record) async for record in rt.export()]
        assert not [told for told in exported if invocation["callback_url"] in told]


@pytest.mark.requirement("RAP-341")
async def test_a_server_is_shown_who_speaks_and_nobody_else_hears_it(running, tool_server, started):
    server = tool_server()
    async with running(server, credential=Bearer("a-token-of-sixteen")) as rt:
        await started(rt, server)
        await rt.rap.close_thread("t")
        await server.until(lambda: server.posts("/close_thread"))
        assert {headers["authorization"] for headers in server.headers} == {"Bearer a-token-of-sixteen"}
        assert "a-token-of-sixteen" not in repr(rt._sources)


@pytest.mark.requirement("RAP-412")
async def test_an_endpoint_in_a_private_network_is_not_contacted_unless_allowed(running, tool_server):
    server = tool_server()
    server.manifest["endpoint"] = "http://10.0.0.1/invoke"
    async with running(server) as rt:
        result = await rt.call("read_probe", {"bed": 1}, surface=await rt.surface())
        assert "public address" in result.error.message


async def test_an_endpoint_is_used_as_it_is_and_notices_go_to_the_base(running, tool_server):
    base, elsewhere = tool_server(), tool_server(tools=["water"])
    async with running(base, elsewhere) as rt:
        base.manifest["endpoint"] = f"{elsewhere.url}/some/where?k=1"
        async with type(rt).open(sources=rt._sources[:1], rules=ALLOW) as other:
            calling = asyncio.ensure_future(other.call("read_probe", {"bed": 1}, surface=await other.surface()))
            await elsewhere.until(lambda: elsewhere.posts("/some/where"))
            await other.cancel((await other.waiting())[0].invocation_id)
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
