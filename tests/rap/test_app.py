"""What is refused at the door, and what is never told there."""

import asyncio
import json

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from agenttool.adapters.rap.signed import SIGNATURE_HEADER, Signed
from agenttool.errors import ConfigError
from agenttool.rap import Bearer, Limits, RateLimit

TOKEN, OTHER = "correct-horse-battery", "another-runtime-token"


@pytest.fixture
def ringing(make):
    def ringing(**options):
        provider = make(**options)

        @provider.tool
        async def ring() -> str:
            """Ring."""
            return "rung"

        return provider

    return ringing


@pytest.mark.requirement("RAP-343", "RAP-407")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"text"',
        b"\xef\xbb\xbf{}",
        b'{"operation":"ring","arguments":{},"id":"\xff","group_id":"g","callback_url":"http://h"}',
        b"{" * 10_000,
        b'{"id":"i","group_id":"g"}',
        b'{"id":"i","callback_url":"https://h.example.test/"}',
        b'{"group_id":"g","callback_url":"https://h.example.test/"}',
        b'{"id":"i","id":"j","group_id":"g","callback_url":"https://h.example.test/"}',
    ],
)
async def test_what_names_no_place_for_a_result_is_refused_without_a_trace_of_internals(ringing, serving, body):
    async with serving(ringing()) as client:
        reply = await client.courier.post(f"{client.base}/invoke", body)
        assert await client.invoke("ring") == 200
        await client.result()
    assert reply.status == 400
    assert b"Traceback" not in reply.body
    assert b".py" not in reply.body


@pytest.mark.requirement("RAP-412")
@pytest.mark.parametrize("path", ["/invoke", "/migrate"])
@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://169.254.169.254/latest", "http://10.0.0.1/", "http://u@h.example.test/", "x"]
)
async def test_a_forged_url_is_refused_and_not_repeated(ringing, serving, path, url):
    provider, moved = ringing(), []

    @provider.on_migrate
    async def move(session, destination):
        moved.append(session)

    async with serving(provider) as client:
        message = client.invocation("ring", callback_url=url) | {"session_id": "s", "destination_url": url}
        reply = await client.courier.post(client.base + path, json.dumps(message).encode())
    assert (reply.status, moved) == (400, [])
    assert url.encode() not in reply.body or url == "x"


async def test_a_name_that_leads_inside_gets_no_work_done(make, serving, caplog):
    ran = []
    provider = make(allow=["127.0.0.2"])

    @provider.tool
    async def act() -> None:
        """Act."""
        ran.append(1)

    async with serving(provider) as client:
        url = f"http://localhost:{client.inbox.url.rpartition(':')[2]}/in"
        assert await client.invoke("act", callback_url=url) == 200
        while "dropped" not in caplog.text:
            await asyncio.sleep(0.01)
        assert (ran, client.inbox.taken) == ([], [])
    assert url not in caplog.text


@pytest.mark.requirement("RAP-410")
async def test_a_body_beyond_the_limit_is_refused(ringing, serving):
    async with serving(ringing(limits=Limits(max_body_bytes=500))) as client:
        assert await client.invoke("ring", {"padding": "x" * 500}) == 413
        assert await client.invoke("ring") == 200
        await client.result()


@pytest.mark.requirement("RAP-411", "RAP-001")
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
async def test_only_json_is_taken(ringing, serving, kind, status):
    async with serving(ringing()) as client:
        assert await client.post("/invoke", client.invocation("ring"), **{"Content-Type": kind}) == status


@pytest.mark.parametrize(
    ("path", "status"), [("/invoke", 405), ("/close_thread", 405), ("/nowhere", 404), ("/migrate", 404)]
)
async def test_there_is_nothing_else_to_get(ringing, serving, path, status):
    async with serving(ringing()) as client:
        assert (await client.get(path)).status == status


@pytest.mark.requirement("RAP-341", "RAP-290", "RAP-307")
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong-horse-battery"}, {"Authorization": f"Basic {TOKEN}"}]
)
async def test_a_stranger_is_refused_at_every_door(ringing, serving, headers):
    async with serving(ringing(auth=Bearer(TOKEN))) as client:
        client.headers = headers
        notice = {"thread_id": "thread-1", "tool_call_id": "tc-1"}
        statuses = [
            (await client.get("/.well-known/rap-toolset")).status,
            await client.invoke("ring"),
            await client.post("/close_thread", notice),
            await client.post("/cancel_tool_call", notice),
        ]
        assert statuses == [401] * 4
        client.headers = {"Authorization": f"bearer {TOKEN}"}
        assert await client.invoke("ring") == 200
        await client.result()


@pytest.mark.requirement("RAP-290", "RAP-291")
async def test_one_caller_cannot_cancel_the_call_of_another(make, serving):
    provider, gate = make(auth=Bearer({TOKEN: "a", OTHER: "b"})), asyncio.Event()

    @provider.tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async with serving(provider) as client:
        client.headers = {"Authorization": f"Bearer {TOKEN}"}
        await client.invoke("wait")
        client.headers = {"Authorization": f"Bearer {OTHER}"}
        notice = {"thread_id": "thread-1", "tool_call_id": "tc-1"}
        assert await client.post("/cancel_tool_call", notice) == 200
        gate.set()
        assert (await client.result())["text"] == "done"


@pytest.mark.requirement("RAP-099")
@pytest.mark.parametrize(("named", "is_shown"), [("127.0.0.1", True), ("localhost", False)])
async def test_a_token_is_presented_to_runtimes_that_may_see_it_only(ringing, serving, inbox, named, is_shown):
    provider = ringing(sign=Bearer(TOKEN), sign_to=[inbox.url.replace("127.0.0.1", named)])
    async with serving(provider, inbox) as client:
        await client.invoke("ring")
        await client.result()
        assert inbox.headers[0].get("authorization") == (f"Bearer {TOKEN}" if is_shown else None)


@pytest.mark.requirement("RAP-099")
async def test_a_signature_may_be_seen_by_all(ringing, serving):
    async with serving(ringing(sign=Signed(TOKEN))) as client:
        await client.invoke("ring")
        await client.result()
        assert SIGNATURE_HEADER.lower() in client.inbox.headers[0]


def test_a_token_that_whoever_calls_would_see_is_refused(make):
    with pytest.raises(ConfigError, match="sign_to"):
        make(sign=Bearer(TOKEN))
    with pytest.raises(ConfigError, match="origin"):
        make(sign=Bearer(TOKEN), sign_to=["runtime.example"])


@pytest.mark.requirement("RAP-048", "RAP-056", "RAP-342")
async def test_calls_beyond_the_rate_are_told_when_to_come_back(ringing, serving):
    async with serving(ringing(limits=Limits(calls=RateLimit(per_second=0.01, burst=2)))) as client:
        assert [await client.invoke("ring", id=f"tc-{each}") for each in range(3)] == [200] * 3
        await client.result(3)
    texts = {each["id"]: each["text"] for each in client.inbox.messages}
    assert (texts["tc-0"], texts["tc-1"]) == ("rung", "rung")
    assert texts["tc-2"].startswith("Error: too many calls; try again in ")


async def test_more_calls_than_can_be_under_way_are_not_accepted(make, serving):
    provider, gate = make(limits=Limits(max_open=2)), asyncio.Event()

    @provider.tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async with serving(provider) as client:
        assert [await client.invoke("wait", id=f"tc-{each}") for each in range(3)] == [200, 200, 503]
        gate.set()
        await client.result(2)
        async with asyncio.timeout(60):
            while await client.invoke("wait", id="tc-2") != 200:
                await asyncio.sleep(0.01)
        await client.result(3)


async def test_one_caller_leaves_room_for_the_others(make, serving):
    limits = Limits(max_open=3, max_open_per_caller=2)
    provider, gate = make(auth=Bearer({TOKEN: "a", OTHER: "b"}), limits=limits), asyncio.Event()

    @provider.tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async with serving(provider) as client:
        client.headers = {"Authorization": f"Bearer {TOKEN}"}
        assert [await client.invoke("wait", id=f"a-{each}") for each in range(3)] == [200, 200, 503]
        client.headers = {"Authorization": f"Bearer {OTHER}"}
        assert [await client.invoke("wait", id=f"b-{each}") for each in range(2)] == [200, 503]
        gate.set()
        await client.result(3)


async def test_calls_that_come_at_the_same_instant_are_counted_all_the_same(make, serving):
    provider, gate = make(limits=Limits(max_open=2)), asyncio.Event()

    @provider.tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async with serving(provider) as client:
        statuses = await asyncio.gather(*(client.invoke("wait", id=f"tc-{each}") for each in range(20)))
        assert sorted(statuses) == [200] * 2 + [503] * 18
        gate.set()
        await client.result(2)


@pytest.mark.parametrize("operation", ["ring", 5])
async def test_calls_whose_results_nobody_takes_are_under_way_until_somebody_does(ringing, serving, operation):
    async with serving(ringing(limits=Limits(max_open_per_caller=2))) as client:
        client.inbox.statuses = [503] * 1000
        statuses = []
        for each in range(3):
            statuses.append(await client.invoke(operation, id=f"tc-{each}"))
            async with asyncio.timeout(60):
                while len({message["id"] for _, message in client.inbox.taken}) < min(each + 1, 2):
                    await asyncio.sleep(0.01)
        assert statuses == [200, 200, 503]
        client.inbox.statuses = []
        await client.result(2)


async def test_calls_that_make_no_sense_are_limited_in_their_number(ringing, serving):
    async with serving(ringing(limits=Limits(calls=RateLimit(per_second=0.01, burst=2)))) as client:
        assert [await client.invoke(5, id=f"tc-{each}") for each in range(3)] == [200, 200, 503]
        assert await client.invoke("ring", id="tc-3") == 200
        assert (await client.result(3))["text"]


@pytest.mark.requirement("RAP-113")
async def test_secrets_are_neither_logged_nor_readable_by_others(ringing, serving, tmp_path, caplog):
    caplog.set_level("DEBUG", logger="agenttool")
    async with serving(ringing(auth=Bearer(TOKEN))) as client:
        client.headers = {"Authorization": f"Bearer {TOKEN}"}
        client.inbox.statuses = [500, 404]
        await client.invoke("ring")
        while "dropped" not in caplog.text:
            await asyncio.sleep(0.01)
        assert (tmp_path / "calls.db").stat().st_mode & 0o077 == 0
    assert "k=w8" not in caplog.text
    assert TOKEN not in caplog.text
    assert b"k=w8" not in (tmp_path / "calls.db").read_bytes()  # nothing more is to be sent there


@pytest.mark.requirement("RAP-411")
@pytest.mark.parametrize("header", [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")])
async def test_a_web_page_cannot_call_what_trusts_everybody_on_this_machine(make, serving, header):
    provider, ran = make(), []

    @provider.tool
    async def work() -> str:
        """Work."""
        ran.append(1)
        return ""

    async with serving(provider) as client:
        message = client.invocation("work")
        assert await client.post("/invoke", message, **dict([header])) == 403
    assert not ran


async def test_of_a_call_that_is_refused_nothing_large_is_kept(make, serving, tmp_path):
    provider = make()

    @provider.tool
    async def work() -> str:
        """Work."""
        return ""

    async with serving(provider) as client:
        message = {**client.invocation("work"), "operation": 5, "callback_url": "http://127.0.0.1:9/x"}
        for number in range(10):
            assert await client.post("/invoke", {**message, "id": str(number), "pad": "x" * 900_000}) == 200
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2_000_000


@pytest.mark.requirement("RAP-011")
async def test_a_provider_may_be_a_part_of_another_server(make, serving):
    provider = make()

    @provider.tool
    async def ring() -> str:
        """Ring."""
        return "rung"

    async def home(request):
        return PlainTextResponse("home")

    site = Starlette(
        routes=[Route("/", home), Mount("/tools/rap", app=provider)], lifespan=lambda _: provider.running()
    )
    async with serving(site) as client:
        manifest = json.loads((await client.get("/tools/rap/.well-known/rap-toolset")).body)
        assert manifest["endpoint"] == f"{client.base}/tools/rap/invoke"
        assert await client.post(manifest["endpoint"], client.invocation("ring")) == 200
        assert (await client.result())["text"] == "rung"
        assert (await client.get("/")).body == b"home"
