"""The HTTP side of a provider: authentication, decoding and answers."""

import asyncio
import hashlib
import hmac
import json
import time
from http.client import HTTPConnection

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from agenttool.adapters.rap.credentials import SIGNATURE_HEADER, Signed
from agenttool.errors import ConfigError
from agenttool.rap import Bearer, Limits, RateLimit
from agenttool.rap.app import request_url

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
        reply = await client.http_client.post(f"{client.base}/invoke", body)
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
        reply = await client.http_client.post(client.base + path, json.dumps(message).encode())
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
        while "was rejected" not in caplog.text:
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


class GardenKey:
    """An authentication scheme of one deployment."""

    def caller_of(self, request):
        return "garden" if request.headers.get("x-garden-key") == "rose" else None

    def headers(self, method, url, body):
        return {"X-Garden-Key": "rose"}


@pytest.mark.requirement("RAP-340")
async def test_callers_are_authenticated_by_a_scheme_of_the_deployment(ringing, serving):
    async with serving(ringing(auth=GardenKey())) as client:
        assert await client.invoke("ring") == 401
        client.headers = {"X-Garden-Key": "rose"}
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


def test_a_token_that_every_caller_would_see_is_rejected(make):
    with pytest.raises(ConfigError, match="sign_to"):
        make(sign=Bearer(TOKEN))
    with pytest.raises(ConfigError, match="origin"):
        make(sign=Bearer(TOKEN), sign_to=["runtime.example"])


@pytest.mark.requirement("RAP-048", "RAP-056", "RAP-342")
async def test_calls_beyond_the_rate_get_an_error_with_a_retry_time(ringing, serving):
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
async def test_calls_with_undelivered_results_count_as_open(ringing, serving, operation):
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
        while "was rejected" not in caplog.text:
            await asyncio.sleep(0.01)
        assert (tmp_path / "calls.db").stat().st_mode & 0o077 == 0
    assert "k=w8" not in caplog.text
    assert TOKEN not in caplog.text
    assert b"k=w8" not in (tmp_path / "calls.db").read_bytes()  # nothing more is to be sent there


@pytest.mark.requirement("RAP-411")
@pytest.mark.parametrize("header", [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")])
async def test_a_web_page_cannot_call_a_provider_without_authentication(make, serving, header):
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


async def test_the_body_of_a_rejected_call_is_not_stored(make, serving, tmp_path):
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


LONG_TOKEN = "correct-horse-battery"


async def ring() -> str:
    """Ring."""
    return "rung"


@pytest.fixture
def bell(make):
    def bell(**options):
        provider = make(**options)
        provider.tool(ring)
        return provider

    return bell


def signed(secret, moment, body, nonce="0" * 32, *, url, speaker="runtime"):
    """Sign as the documentation says, without the code that is tested."""
    origin, target = "/".join(url.split("/")[:3]), "/" + "/".join(url.split("/")[3:])
    expected = (speaker, origin, str(moment), nonce)
    head = "\n".join(("rap-signature-2", *expected, "POST", target, hashlib.sha256(body).hexdigest()))
    digest = hmac.new(secret.encode(), head.encode(), hashlib.sha256).hexdigest()
    return {SIGNATURE_HEADER: "v=2,from={},to={},t={},n={},s={}".format(*expected, digest)}


@pytest.mark.requirement("RAP-098", "RAP-341")
async def test_a_signed_request_is_taken_once_for_a_while_and_for_one_body_only(bell, serving):
    async with serving(bell(auth=Signed(LONG_TOKEN))) as client:
        body = json.dumps(client.invocation("ring")).encode()
        now, url = int(time.time()), f"{client.base}/invoke"
        good = signed(LONG_TOKEN, now, body, url=url)
        assert await client.post("/invoke", body, **good) == 200
        refused = [
            await client.post("/invoke", body, **good),
            await client.post("/invoke", body, **signed(LONG_TOKEN, now - 3600, body, "1" * 32, url=url)),
            await client.post("/invoke", body, **signed(LONG_TOKEN, now + 3600, body, "2" * 32, url=url)),
            await client.post("/invoke", body + b" ", **signed(LONG_TOKEN, now, body, "3" * 32, url=url)),
            await client.post("/cancel_tool_call", body, **signed(LONG_TOKEN, now, body, "4" * 32, url=url)),
            await client.post("/invoke", body, **signed("another-signing-secret", now, body, "5" * 32, url=url)),
            await client.post("/invoke", body, **{SIGNATURE_HEADER: "v=2,from=runtime,to=x,t=x,n=y,s=z"}),
            await client.post("/invoke", body),
        ]
        assert refused == [401] * 8
        assert await client.post("/invoke", body, **Signed(LONG_TOKEN).headers("POST", url, body)) == 200
        await client.result()


async def said(client, body, headers, url="/invoke"):
    """Post a body, and give what came back."""
    url = client.base + url if url.startswith("/") else url
    reply = await client.http_client.post(url, body, headers)
    return reply.status, reply.body.decode()


@pytest.mark.requirement("RAP-098")
async def test_what_was_signed_for_one_server_is_refused_by_another_with_the_same_secret(make, serving, serve_app):
    first, second = make(auth=Signed(LONG_TOKEN)), make("other", auth=Signed(LONG_TOKEN))
    second.settings.store = second.settings.store.with_name("other.db")
    for each in (first, second):
        each.tool(ring)
    async with serving(first) as client, serve_app(second) as elsewhere:
        body = json.dumps(client.invocation("ring")).encode()
        shown = Signed(LONG_TOKEN).headers("POST", f"{client.base}/invoke", body)
        status, why = await said(client, body, shown, f"{elsewhere}/invoke")
        assert (status, why) == (
            401,
            f"not authorized: the request is signed for {client.base}, and this server has another address",
        )
        assert await asyncio.to_thread(posted_as, elsewhere, client.base, body, shown) == 401
        assert (await said(client, body, shown))[0] == 200
        await client.result()


def posted_as(server, named, body, headers):
    """Post to one server a request that names another as its host."""
    connection = HTTPConnection(server.removeprefix("http://"), timeout=30)
    host = named.removeprefix("http://")
    connection.request("POST", "/invoke", body, {"Host": host, "Content-Type": "application/json", **headers})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.requirement("RAP-098", "RAP-099")
async def test_a_callback_is_no_call_though_one_secret_signs_both(bell, serving, inbox):
    """A receiver of callbacks cannot send one back, or on, as a request of a runtime."""
    async with serving(bell(auth=Signed(LONG_TOKEN), sign=Signed(LONG_TOKEN)), inbox) as client:
        body = json.dumps(client.invocation("ring", callback_url=f"{inbox.url}/invoke")).encode()
        assert (await said(client, body, Signed(LONG_TOKEN).headers("POST", f"{client.base}/invoke", body)))[0] == 200
        await client.result()
        assert ",from=provider,to=http://127.0.0.1:" in inbox.headers[0][SIGNATURE_HEADER.lower()]
        shown = signed(LONG_TOKEN, int(time.time()), body, url=f"{client.base}/invoke", speaker="provider")
        expected = "not authorized: the request is signed by a provider, and this server accepts only a runtime"
        assert await said(client, body, shown) == (401, expected)


async def test_a_server_behind_a_proxy_uses_its_configured_url(bell, serving):
    """The proxy ends TLS, takes a path off, and passes on under a name of its own: none of it is signed."""
    async with serving(bell(auth=Signed(LONG_TOKEN), url="https://gh.example/rap")) as client:
        body = json.dumps(client.invocation("ring")).encode()
        assert (await said(client, body, Signed(LONG_TOKEN).headers("POST", "https://gh.example/rap/invoke", body)))[
            0
        ] == 200
        for url in ("http://gh.example/rap/invoke", "https://gh.example/invoke", f"{client.base}/invoke"):
            assert (await said(client, body, Signed(LONG_TOKEN).headers("POST", url, body)))[0] == 401
        await client.result()


def test_a_url_that_is_none_is_refused(make):
    with pytest.raises(ConfigError, match="origin"):
        make(url="gh.example")


@pytest.mark.requirement("RAP-098")
async def test_a_replay_is_known_after_a_restart_too(bell, serving):
    async with serving(bell(auth=Signed(LONG_TOKEN), url="https://gh.example")) as client:
        body = json.dumps(client.invocation("ring")).encode()
        url, now = "https://gh.example/invoke", int(time.time())
        fresh, late = (signed(LONG_TOKEN, now, body, nonce * 32, url=url) for nonce in "12")
        assert await client.post("/invoke", body, **fresh) == 200
        await client.result()
    async with serving(bell(auth=Signed(LONG_TOKEN), url="https://gh.example")) as client:
        assert await client.post("/invoke", body, **fresh) == 401
        assert await client.post("/invoke", body, **late) == 200


@pytest.mark.parametrize("server", [None, ("/run/rap.sock", None)])
def test_a_server_that_knows_no_address_of_its_own_admits_nothing_signed(server):
    scope = {"query_string": b"", "server": server, "path": "/invoke", "scheme": "http"}
    assert request_url(scope, None) is None
    assert request_url(scope, "https://gh.example") == "https://gh.example/invoke"


@pytest.mark.parametrize(
    ("server", "url"),
    [(("127.0.0.1", 80), "http://127.0.0.1:80/x/invoke?k=1"), (("::1", 8123), "http://[::1]:8123/x/invoke?k=1")],
)
def test_without_a_url_it_is_the_address_that_was_listened_at(server, url):
    scope = {"query_string": b"k=1", "server": server, "path": "/x/invoke", "root_path": "/x", "scheme": "http"}
    assert request_url(scope, None) == url
    assert request_url(scope, "https://gh.example/y") == "https://gh.example/y/invoke?k=1"
