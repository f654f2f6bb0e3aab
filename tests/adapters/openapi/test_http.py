"""Hostile callers, documents and services: no credential leaves its service, no request changes its meaning."""

import asyncio
import gzip
import json
import ssl
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from openapi_documents import document, operation
from waiting import wait_until

from agenttool import Runtime
from agenttool.adapters.openapi import execute
from agenttool.adapters.openapi.settings import read_service
from agenttool.errors import ConfigError

SECRETS = {"one": "secret-one-1"}
GRANT = {"client_id": "me", "client_secret": "${credentials.one}"}


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch):
    monkeypatch.setattr(execute, "FIRST_DELAY_S", 0.001)


def parameter(where, name, schema=None, **members):
    found = {"name": name, "in": where, "required": where == "path", **members}
    return found if "content" in found else {**found, "schema": schema or {"type": "string"}}


def one(*parameters, path="/x", method="get", **members):
    return document({path: {method: operation(*parameters, operationId="op", **members)}})


def oauth(token_url):
    flows = {"clientCredentials": {"tokenUrl": token_url, "scopes": {}}}
    return {"securitySchemes": {"oauth": {"type": "oauth2", "flows": flows}}}


@pytest.mark.parametrize("path", [".evil.example/x", "@evil.example/x", "99999/x", "x", "//evil.example/x"])
async def test_a_path_of_a_document_cannot_change_the_host(open_service, service, path):
    async with open_service(one(path=path), headers={"X-Key": "${credentials.one}"}, credentials=SECRETS) as rt:
        assert (await rt.call("probe.op", {})).ok
    assert service.last["headers"]["host"] == service.url.removeprefix("http://")


async def test_a_query_or_a_fragment_in_a_path_does_not_hide_parameters(open_service, service):
    found = document({
        "/#Action=Add": {"get": operation(parameter("query", "v"), operationId="fragment")},
        "/x?type=a": {"get": operation(parameter("query", "v"), operationId="query")},
    })  # fmt: skip
    async with open_service(found) as rt:
        assert (await rt.call("probe.fragment", {"v": "1"})).ok
        assert (await rt.call("probe.query", {"v": "1"})).ok
    assert [each["path"] for each in service.requests] == ["/?v=1", "/x?type=a&v=1"]


@pytest.mark.parametrize("value", ["../../admin", "a/../b", "..\\admin", "..;/admin"])
@pytest.mark.parametrize("members", [{}, {"content": {"text/plain": {"schema": {"type": "string"}}}}])
async def test_a_path_parameter_cannot_lead_to_another_path(open_service, service, value, members):
    async with open_service(one(parameter("path", "p", **members), path="/a/{p}/b")) as rt:
        result = await rt.call("probe.op", {"p": value})
    assert result.error.error_class.value == "invalid_arguments"
    assert not service.requests


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection"])
async def test_a_caller_cannot_choose_the_headers_that_the_client_writes(open_service, service, name):
    async with open_service(one(parameter("header", name))) as rt:
        assert not (await rt.call("probe.op", {name: "1"})).ok
        assert (await rt.call("probe.op", {})).ok
    assert service.last["headers"]["host"] == service.url.removeprefix("http://")


async def test_a_caller_cannot_replace_what_the_settings_and_credentials_add_to_the_query(open_service, service):
    free = parameter("query", "filter", {"type": "object", "additionalProperties": {"type": "string"}})
    schemes = {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "api_key"}}}
    found = {**one(free, security=[{"key": []}]), "components": schemes}
    settings = {"security": {"key": "${credentials.one}"}, "query": {"tenant": "42"}}
    async with open_service(found, credentials=SECRETS, **settings) as rt:
        for name in ("api_key", "Tenant"):
            result = await rt.call("probe.op", {"filter": {name: "mine"}})
            assert result.error.message == f"nothing was sent: {name.lower()} is set by the settings; leave it out"
        assert (await rt.call("probe.op", {"filter": {"color": "red"}})).ok
    assert [each["path"] for each in service.requests] == ["/x?color=red&tenant=42&api_key=secret-one-1"]


async def test_a_cookie_parameter_cannot_add_another_cookie(open_service, service):
    async with open_service(one(parameter("cookie", "c", allowReserved=True))) as rt:
        assert (await rt.call("probe.op", {"c": "a; admin=1"})).ok
    assert service.last["headers"]["cookie"] == "c=a%3B%20admin%3D1"


async def test_a_querystring_parameter_is_written_as_a_form(open_service, service):
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    given = parameter("querystring", "q", content={"application/x-www-form-urlencoded": {"schema": schema}})
    async with open_service({**one(given), "openapi": "3.2.0"}) as rt:
        assert (await rt.call("probe.op", {"q": {"a": "x&y", "b": 2}})).ok
    assert service.last["path"] == "/x?a=x%26y&b=2"


async def test_parameters_that_are_named_like_the_body_do_not_hide_it(open_service, service):
    body = {"required": True, "content": {"application/json": {"schema": {"type": "array", "items": {}}}}}
    found = one(
        parameter("path", "body"), parameter("query", "body_json"), path="/{body}", method="post", requestBody=body
    )
    async with open_service(found) as rt:
        assert (await rt.call("probe.op", {"body": "a", "body_json": "b", "body_2": ["c"]})).ok
    assert (service.last["path"], service.last["body"]) == ("/a?body_json=b", b'["c"]')


async def test_a_fetched_token_is_in_no_result_error_or_record(open_service, service):
    service.answers["/token"] = {"access_token": "fetched-token-7", "expires_in": 3600}
    service.answers["/x"] = [
        lambda request: {"token": request["headers"]["authorization"].removeprefix("Bearer ")},
        lambda request: (400, {}, {"message": f"bad {request['headers']['authorization'].removeprefix('Bearer ')}"}),
    ]
    found = {**one(security=[{"oauth": []}]), "components": oauth("token")}
    async with open_service(found, security={"oauth": GRANT}, credentials=SECRETS) as rt:
        echoed, failed = await rt.call("probe.op", {}), await rt.call("probe.op", {})
        records = [repr(each) async for each in rt.journal.export()]
    assert service.last["headers"]["authorization"] == "Bearer fetched-token-7"
    assert (echoed.value, "bad [redacted]" in failed.error.message) == ({"token": "[redacted]"}, True)
    assert not [each for each in records if "fetched-token-7" in each]


async def test_a_document_whose_token_endpoint_moved_does_not_get_the_client_secret(service, tmp_path):
    place = tmp_path / "api.json"
    service.answers["/token"] = {"access_token": "fetched-token-7", "expires_in": 3600}

    async def opened(token_url):
        found = {**one(security=[{"oauth": []}]), "servers": [{"url": service.url}], "components": oauth(token_url)}
        place.write_text(json.dumps(found))
        members = {
            "document": str(place),
            "allow": ["127.0.0.0/8", "localhost", "::1/128"],
            "security": {"oauth": GRANT},
        }
        async with Runtime.open(
            sources=[read_service("probe", members)],
            store=f"sqlite:{tmp_path}/s.db",
            approve=lambda _: True,
            credentials=SECRETS,
        ) as rt:
            return (await rt.call("probe.op", {})).ok, (await rt.sources.status())[0].fault

    assert await opened(f"{service.url}/token") == (True, None)
    sent = len(service.requests)
    ok, fault = await opened(f"{service.url}/token".replace("127.0.0.1", "localhost"))
    assert (ok, len(service.requests)) == (False, sent)
    assert "the token endpoint of 'oauth' is now at 'http://localhost" in fault


async def test_refresh_tokens_that_are_valid_once_are_replaced(open_service, service):
    valid = ["secret-one-1"]

    def token(request):
        if f"refresh_token={valid[-1]}".encode() not in request["body"]:
            return 400, {}, {"error": "invalid_grant"}
        valid.append(f"refresh-{len(valid)}")
        return {"access_token": f"access-{len(valid)}", "expires_in": 0, "refresh_token": valid[-1]}

    service.answers["/token"] = token
    grant = {"client_id": "me", "refresh_token": "${credentials.one}"}
    found = {**one(security=[{"oauth": []}]), "components": oauth("token")}
    async with open_service(found, security={"oauth": grant}, credentials=SECRETS) as rt:
        for _ in range(3):
            assert (await rt.call("probe.op", {})).ok
    assert len(valid) == 4


@pytest.mark.parametrize("value", ["secret-one-1\n", "sécret-one-1"])
async def test_a_credential_that_no_header_can_carry_is_named(open_service, service, value):
    headers = {"Authorization": "Bearer ${credentials.one}"}
    async with open_service(one(), headers=headers, credentials={"one": value}) as rt:
        result = await rt.call("probe.op", {})
    assert (result.error.error_class.value, service.requests) == ("credential_missing", [])
    assert "the value of the header Authorization from the settings" in result.error.message


async def test_a_request_is_sent_as_often_as_the_settings_say(open_service, service):
    service.answers["/x"] = (503, {}, {})
    counts = []
    for method, settings in (
        ("get", {}),
        ("get", {"trust": True}),
        ("get", {"tools": {"op": {"idempotent": False}}}),
        ("post", {"tools": {"op": {"idempotent": True}}}),
        ("post", {"trust": True}),
    ):
        service.requests.clear()
        async with open_service(one(method=method), **settings) as rt:
            assert not (await rt.call("probe.op", {})).ok
        counts.append(len(service.requests))
    assert counts == [3, 3, 1, 3, 1]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((302, {"Location": "http://[::1"}, {}), "redirect"),
        ((302, {"Location": "http://127.0.0.1:99999/"}, {}), "redirect"),
        ((200, {"Content-Encoding": "gzip, gzip"}, b"x"), "encoding"),
        ((200, {"Content-Encoding": "gzip"}, b"x"), "encoding"),
        ((403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "900"}, {}), "http_403"),
    ],
)
async def test_a_strange_answer_is_a_clear_error(open_service, service, answer, code):
    service.answers["/x"] = answer
    async with open_service(one(), attempts=1) as rt:
        result = await rt.call("probe.op", {})
    assert result.error.error_code == code
    assert (result.error.error_class.value == "rate_limited") is (code == "http_403")


@pytest.mark.parametrize(
    "answer",
    [
        (202, {"Location": "http://[::1"}, {"a": 1}),
        (200, {"Link": '<http://[::1>; rel="next"'}, {"a": 1}),
        (200, {}, {"a": [1], "total_pages": 3}),
        (200, {"Content-Type": "text/plain; charset=idna"}, b"\xff"),
        (200, {"Content-Type": "text/plain; charset=undefined"}, b"a"),
    ],
)
async def test_what_a_service_writes_beside_its_answer_cannot_break_the_call(open_service, service, answer):
    service.answers["/x"] = answer
    async with open_service(one(parameter("query", "page"))) as rt:
        assert (await rt.call("probe.op", {"page": "abc", "pages": 3})).ok


async def test_a_page_that_leads_to_itself_is_fetched_once(open_service, service):
    service.answers["/x"] = lambda request: (200, {"Link": f'<{request["path"]}>; rel="next"'}, [1])
    async with open_service(one(parameter("query", "page"))) as rt:
        assert (await rt.call("probe.op", {"pages": 5})).value == [1]
    assert len(service.requests) == 1


async def test_a_compressed_response_is_decompressed_up_to_the_limit(open_service, service):
    service.answers["/x"] = (
        200,
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        gzip.compress(b"[1]"),
    )
    async with open_service(one(), max_response_bytes=2**16, attempts=1) as rt:
        assert (await rt.call("probe.op", {})).value == [1]
        bomb = gzip.compress(bytes(2**24))
        service.answers["/x"] = (200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}, bomb)
        tracemalloc.start()
        try:
            result = await rt.call("probe.op", {})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert result.error.error_class.value == "result_too_large"
    assert peak < 2**23


async def test_invalid_parts_of_a_document_cost_only_their_operations(open_service, service):
    broken = {
        "/reference": {"get": {"operationId": "a", "parameters": [{"$ref": "http://[::1"}]}},
        "/server": {"get": {"operationId": "b", "servers": [{"url": "http://[::1"}]}},
        "/port": {"get": {"operationId": "c", "servers": [{"url": "http://host:99999"}]}},
        "/name": {"get": operation(parameter("header", "X\r\nEvil: 1"), operationId="d")},
        "/query": {"get": {"operationId": "e", "servers": [{"url": "https://host/?a="}]}},
    }
    odd = parameter("query", "q", {"type": [{"a": 1}], "format": {"a": 1}, "$comment": 1})
    good = {"/x": {"get": operation(odd, parameter("query", "r", {"$ref": "http://[::1"}), operationId="op")}}
    found = document({**broken, **good}, servers=[{"url": service.url}])
    async with open_service(found, server=None, allow=["127.0.0.0/8"]) as rt:
        skipped = {each.pointer for each in rt.sources.get("probe").imported.skipped}
        assert (await rt.call("probe.op", {"q": "1"})).ok
    assert skipped == {f"/paths/~1{name}/get{rest}" for name, rest in (
        ("reference", "/parameters/0"), ("server", ""), ("port", ""), ("name", "/parameters/0"), ("query", ""),
    )}  # fmt: skip


async def test_a_scheme_that_the_document_does_not_describe_carries_no_credential(open_service, service):
    found = {**one(security=[{"key": []}]), "components": {"securitySchemes": {"key": {"type": "apiKey"}}}}
    async with open_service(found, security={"key": "${credentials.one}"}, credentials=SECRETS) as rt:
        assert (await rt.call("probe.op", {})).ok
    assert "secret-one-1" not in json.dumps(service.last["headers"])


async def test_a_document_that_arrives_too_slowly_does_not_stop_the_start():
    stop, drips = asyncio.Event(), []

    async def drip(reader, writer):
        drips.append(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not stop.is_set():
            writer.write(b" ")
            await asyncio.sleep(0.01)
        writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api.json"
        source = read_service("probe", {"document": url, "timeout_s": 0.2})
        async with Runtime.open(sources=[source], store="memory:") as rt:
            [status] = await rt.sources.status()
        stop.set()
        await asyncio.gather(*drips)
    assert "no answer within 0.2 seconds; raise timeout_s" in status.fault


def signed_by_itself(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([]), datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1)).sign(key, SHA256())
    parts = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), made.public_bytes(Encoding.PEM)
    (folder / "server.pem").write_bytes(b"".join(parts))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


async def test_a_server_whose_certificate_is_not_trusted_gets_no_request(tmp_path):
    requests = []

    async def answer(reader, writer):
        requests.append(await reader.read())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=signed_by_itself(tmp_path)) as server:
        source = read_service("probe", {"document": f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/api.json"})
        async with Runtime.open(sources=[source], store="memory:") as rt:
            [status] = await rt.sources.status()
    assert "cannot be read: its certificate is not trusted; add the authority that signed it" in status.fault
    assert requests == []


def test_a_server_with_a_query_is_refused():
    with pytest.raises(ConfigError, match="must have no '\\?' and no '#'"):
        read_service("probe", {"document": "a.json", "server": "https://a.example/#"})


ACCEPTED = {"200": {"description": "done"}, "202": {"description": "accepted"}}


async def test_accepted_work_is_followed_by_the_next_runtime(service, tmp_path):
    service.answers["/x"] = (202, {"Location": "/jobs/1"}, {})
    service.answers["/jobs/1"] = (202, {}, {})
    place = tmp_path / "api.json"
    place.write_text(json.dumps(one(method="post", responses=ACCEPTED)))
    source = read_service(
        "probe", {"document": str(place), "server": service.url, "headers": {"X-Key": "${credentials.one}"}}
    )

    def opened():
        return Runtime.open(
            sources=[source], store=f"sqlite:{tmp_path}/s.db", approve=lambda _: True, credentials=SECRETS
        )

    async with opened() as rt:
        started = await rt.start("probe.op", {})
        await asyncio.to_thread(wait_until, lambda: len(service.requests) >= 3)
    before = len(service.requests)
    service.answers["/jobs/1"] = {"made": 7}
    async with opened() as rt:
        result = await rt.calls.get(started.id).result()
    assert result.value == {"made": 7}
    assert [(each["method"], each["path"]) for each in service.requests[before:]] == [("GET", "/jobs/1")]
    assert service.last["headers"]["x-key"] == "secret-one-1"
