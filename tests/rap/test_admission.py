"""Signed requests: each is taken by the one server that it was signed for, from the side that signed it, and once."""

import asyncio
import hashlib
import hmac
import json
import time
from http.client import HTTPConnection

import pytest

from agenttool.adapters.rap.signed import SIGNATURE_HEADER, Signed
from agenttool.errors import ConfigError
from agenttool.rap.admission import address_of

TOKEN = "correct-horse-battery"


async def ring() -> str:
    """Ring."""
    return "rung"


@pytest.fixture
def ringing(make):
    def ringing(**options):
        provider = make(**options)
        provider.tool(ring)
        return provider

    return ringing


def signed(secret, moment, body, nonce="0" * 32, *, url, speaker="runtime"):
    """Sign as the documentation says, without the code that is tested."""
    origin, target = "/".join(url.split("/")[:3]), "/" + "/".join(url.split("/")[3:])
    told = (speaker, origin, str(moment), nonce)
    head = "\n".join(("rap-signature-2", *told, "POST", target, hashlib.sha256(body).hexdigest()))
    digest = hmac.new(secret.encode(), head.encode(), hashlib.sha256).hexdigest()
    return {SIGNATURE_HEADER: "v=2,from={},to={},t={},n={},s={}".format(*told, digest)}


@pytest.mark.requirement("RAP-098", "RAP-341")
async def test_a_signed_request_is_taken_once_for_a_while_and_for_one_body_only(ringing, serving):
    async with serving(ringing(auth=Signed(TOKEN))) as client:
        body = json.dumps(client.invocation("ring")).encode()
        now, url = int(time.time()), f"{client.base}/invoke"
        good = signed(TOKEN, now, body, url=url)
        assert await client.post("/invoke", body, **good) == 200
        refused = [
            await client.post("/invoke", body, **good),
            await client.post("/invoke", body, **signed(TOKEN, now - 3600, body, "1" * 32, url=url)),
            await client.post("/invoke", body, **signed(TOKEN, now + 3600, body, "2" * 32, url=url)),
            await client.post("/invoke", body + b" ", **signed(TOKEN, now, body, "3" * 32, url=url)),
            await client.post("/cancel_tool_call", body, **signed(TOKEN, now, body, "4" * 32, url=url)),
            await client.post("/invoke", body, **signed("another-signing-secret", now, body, "5" * 32, url=url)),
            await client.post("/invoke", body, **{SIGNATURE_HEADER: "v=2,from=runtime,to=x,t=x,n=y,s=z"}),
            await client.post("/invoke", body),
        ]
        assert refused == [401] * 8
        assert await client.post("/invoke", body, **Signed(TOKEN).headers("POST", url, body)) == 200
        await client.result()


async def said(client, body, headers, url="/invoke"):
    """Post a body, and give what came back."""
    url = client.base + url if url.startswith("/") else url
    reply = await client.courier.post(url, body, headers)
    return reply.status, reply.body.decode()


@pytest.mark.requirement("RAP-098")
async def test_what_was_signed_for_one_server_is_refused_by_another_with_the_same_secret(make, serving, serve_app):
    first, second = make(auth=Signed(TOKEN)), make("other", auth=Signed(TOKEN))
    second.keep_in(second.store.with_name("other.db"))
    for each in (first, second):
        each.tool(ring)
    async with serving(first) as client, serve_app(second) as elsewhere:
        body = json.dumps(client.invocation("ring")).encode()
        shown = Signed(TOKEN).headers("POST", f"{client.base}/invoke", body)
        status, why = await said(client, body, shown, f"{elsewhere}/invoke")
        assert (status, why) == (
            401,
            f"not authorized: the request is signed for {client.base}, and this server goes by another address",
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
async def test_a_callback_is_no_call_though_one_secret_signs_both(ringing, serving, inbox):
    """Whoever takes callbacks in cannot send one back, or on, as a request of a runtime."""
    async with serving(ringing(auth=Signed(TOKEN), sign=Signed(TOKEN)), inbox) as client:
        body = json.dumps(client.invocation("ring", callback_url=f"{inbox.url}/invoke")).encode()
        assert (await said(client, body, Signed(TOKEN).headers("POST", f"{client.base}/invoke", body)))[0] == 200
        await client.result()
        assert ",from=provider,to=http://127.0.0.1:" in inbox.headers[0][SIGNATURE_HEADER.lower()]
        shown = signed(TOKEN, int(time.time()), body, url=f"{client.base}/invoke", speaker="provider")
        told = "not authorized: the request is signed as one of a provider, and only a runtime asks here"
        assert await said(client, body, shown) == (401, told)


async def test_a_server_behind_a_proxy_goes_by_the_url_that_it_is_told(ringing, serving):
    """The proxy ends TLS, takes a path off, and passes on under a name of its own: none of it is signed."""
    async with serving(ringing(auth=Signed(TOKEN), url="https://gh.example/rap")) as client:
        body = json.dumps(client.invocation("ring")).encode()
        assert (await said(client, body, Signed(TOKEN).headers("POST", "https://gh.example/rap/invoke", body)))[
            0
        ] == 200
        for url in ("http://gh.example/rap/invoke", "https://gh.example/invoke", f"{client.base}/invoke"):
            assert (await said(client, body, Signed(TOKEN).headers("POST", url, body)))[0] == 401
        await client.result()


async def test_a_signature_of_before_is_refused_and_says_what_to_do(ringing, serving):
    async with serving(ringing(auth=Signed(TOKEN))) as client:
        body, now = json.dumps(client.invocation("ring")).encode(), str(int(time.time()))
        head = "\n".join((now, "0" * 32, "POST", "/invoke", hashlib.sha256(body).hexdigest()))
        old = f"t={now},n={'0' * 32},v1={hmac.new(TOKEN.encode(), head.encode(), hashlib.sha256).hexdigest()}"
        status, why = await said(client, body, {SIGNATURE_HEADER: old})
        assert status == 401
        assert "version 1" in why
        assert "sign by version 2" in why
        assert TOKEN not in why


def test_a_url_that_is_none_is_refused(make):
    with pytest.raises(ConfigError, match="origin"):
        make(url="gh.example")


@pytest.mark.requirement("RAP-098")
async def test_a_replay_is_known_after_a_restart_too(ringing, serving):
    async with serving(ringing(auth=Signed(TOKEN), url="https://gh.example")) as client:
        body = json.dumps(client.invocation("ring")).encode()
        url, now = "https://gh.example/invoke", int(time.time())
        fresh, late = (signed(TOKEN, now, body, nonce * 32, url=url) for nonce in "12")
        assert await client.post("/invoke", body, **fresh) == 200
        await client.result()
    async with serving(ringing(auth=Signed(TOKEN), url="https://gh.example")) as client:
        assert await client.post("/invoke", body, **fresh) == 401
        assert await client.post("/invoke", body, **late) == 200


@pytest.mark.parametrize("server", [None, ("/run/rap.sock", None)])
def test_a_server_that_knows_no_address_of_its_own_admits_nothing_signed(server):
    scope = {"query_string": b"", "server": server, "path": "/invoke", "scheme": "http"}
    assert address_of(scope, None) is None
    assert address_of(scope, "https://gh.example") == "https://gh.example/invoke"


@pytest.mark.parametrize(
    ("server", "url"),
    [(("127.0.0.1", 80), "http://127.0.0.1:80/x/invoke?k=1"), (("::1", 8123), "http://[::1]:8123/x/invoke?k=1")],
)
def test_without_a_url_it_is_the_address_that_was_listened_at(server, url):
    scope = {"query_string": b"k=1", "server": server, "path": "/x/invoke", "root_path": "/x", "scheme": "http"}
    assert address_of(scope, None) == url
    assert address_of(scope, "https://gh.example/y") == "https://gh.example/y/invoke?k=1"
