"""Security schemes: what requests carry, and to whom."""

import asyncio
import base64
import json
import threading
from urllib.parse import parse_qs

import pytest
from openapi_documents import document, operation

from agenttool import OAuthGrant, OpenApiService, Runtime
from agenttool.adapters.openapi import execute

SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "api_key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "session"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "TOKEN", "scopes": {"read": ""}}}},
}
BOUND_S = 60
SECRETS = {"one": "secret-one-1", "two": "ada:secret-two", "three": "secret-three"}
SECURITY = {
    "key": "${credentials.one}",
    "query": "${credentials.one}",
    "cookie": "${credentials.one}",
    "basic": "${credentials.two}",
    "bearer": "${credentials.three}",
}


def secured(*requirements, **members):
    """A document in which each operation has one requirement; `GET /0` has the first."""
    paths = {
        f"/{number}": {"get": operation(operationId=f"get{number}", security=each)}
        for number, each in enumerate(requirements)
    }
    return document(paths, components={"securitySchemes": SCHEMES}, **members)


async def test_each_scheme_puts_the_credential_where_the_document_says(open_service, service):
    names = ("key", "query", "cookie", "basic", "bearer")
    found = secured(*([{name: []}] for name in names), [{"key": [], "bearer": []}])
    async with open_service(found, security=SECURITY, credentials=SECRETS) as rt:
        for number in range(6):
            result = await rt.call(f"probe.get{number}", {})
            assert result.ok, result.error
    key, query, cookie, basic, bearer, both = service.requests
    assert key["headers"]["x-key"] == "secret-one-1"
    assert query["path"] == "/1?api_key=secret-one-1"
    assert cookie["headers"]["cookie"] == "session=secret-one-1"
    assert base64.b64decode(basic["headers"]["authorization"].removeprefix("Basic ")) == b"ada:secret-two"
    assert bearer["headers"]["authorization"] == "Bearer secret-three"
    assert (both["headers"]["x-key"], both["headers"]["authorization"]) == ("secret-one-1", "Bearer secret-three")


async def test_the_first_alternative_that_is_configured_is_used(open_service, service):
    found = secured([{"oauth": ["read"]}, {"bearer": []}], [{"bearer": []}, {}], [])
    async with open_service(found, security={"bearer": "${credentials.three}"}, credentials=SECRETS) as rt:
        for number in range(3):
            assert (await rt.call(f"probe.get{number}", {})).ok
    assert [each["headers"].get("authorization") for each in service.requests] == ["Bearer secret-three"] * 2 + [None]


async def test_a_scheme_in_headers_of_the_settings_counts_with_one_in_security(open_service, service):
    headers, security = {"Authorization": "Bearer ${credentials.three}"}, {"key": "${credentials.one}"}
    found = secured([{"key": [], "bearer": []}])
    async with open_service(found, security=security, headers=headers, credentials=SECRETS) as rt:
        assert (await rt.call("probe.get0", {})).ok
    sent = service.last["headers"]
    assert (sent["x-key"], sent["authorization"]) == ("secret-one-1", "Bearer secret-three")


async def test_a_parameter_named_like_a_key_is_an_argument_where_the_key_is_not_used(open_service, service):
    key = {"name": "api_key", "in": "query", "required": True, "schema": {"type": "string"}}
    paths = {
        "/confirm": {"get": operation(key, operationId="confirm", security=[])},
        "/list": {"get": operation(key, operationId="list", security=[{"query": []}])},
    }
    found = document(paths, components={"securitySchemes": SCHEMES})
    async with open_service(found, security=SECURITY, credentials=SECRETS) as rt:
        assert (await rt.call("probe.confirm", {"api_key": "of-the-mail"})).ok
        assert (await rt.call("probe.list", {})).ok
    assert [each["path"] for each in service.requests] == [
        "/confirm?api_key=of-the-mail",
        "/list?api_key=secret-one-1",
    ]


async def test_custom_headers_are_sent_and_are_no_arguments(open_service, service):
    version = {"name": "Api-Version", "in": "header", "required": True, "schema": {"type": "string"}}
    token = {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}}
    found = document({"/a": {"get": operation(version, token, operationId="a")}})
    headers = {"api-version": "2", "Authorization": "Token ${credentials.one}"}
    async with open_service(found, headers=headers, credentials=SECRETS) as rt:
        result = await rt.call("probe.a", {})
        assert result.ok, result.error
    assert (service.last["headers"]["api-version"], service.last["headers"]["authorization"]) == (
        "2",
        "Token secret-one-1",
    )


async def test_client_credentials_are_exchanged_once_and_again_when_a_token_is_refused(open_service, service):
    tokens = iter(("first-token", "second-token"))
    service.answers["/token"] = lambda _: {"access_token": next(tokens), "expires_in": 3600}
    service.answers["/0"] = lambda request: (
        (200, {}, {"ok": 1}) if service.accepts in request["headers"]["authorization"] else (401, {}, {})
    )
    grant = {"client_id": "me", "client_secret": "${credentials.one}", "token_url": f"{service.url}/token"}
    async with open_service(secured([{"oauth": ["read"]}]), security={"oauth": grant}, credentials=SECRETS) as rt:
        service.accepts = "first-token"
        assert [(await rt.call("probe.get0", {})).ok for _ in range(2)] == [True, True]
        service.accepts = "second-token"
        assert (await rt.call("probe.get0", {})).ok
    forms = [each for each in service.requests if each["path"] == "/token"]
    assert len(forms) == 2
    assert parse_qs(forms[0]["body"].decode()) == {"grant_type": ["client_credentials"], "scope": ["read"]}
    assert base64.b64decode(forms[0]["headers"]["authorization"].removeprefix("Basic ")) == b"me:secret-one-1"


@pytest.mark.parametrize("made", [OAuthGrant, dict])
async def test_a_program_gives_an_oauth_table_as_an_object_or_a_dictionary(service, tmp_path, made):
    service.answers["/token"] = lambda _: {"access_token": "first-token", "expires_in": 3600}
    (tmp_path / "probe.json").write_text(json.dumps(secured([{"oauth": ["read"]}])))
    grant = {"client_id": "me", "client_secret": "${credentials.one}", "token_url": f"{service.url}/token"}
    source = OpenApiService(
        "probe",
        document=str(tmp_path / "probe.json"),
        server=service.url,
        security={"oauth": made(**grant)},
        tools={"get0": {"read_only": True, "name": "read"}},
    )
    async with Runtime.open(sources=[source], approve=lambda _: True, credentials=SECRETS) as rt:
        assert (await rt.call("probe.read", {})).ok
    assert service.last["headers"]["authorization"] == "Bearer first-token"


async def test_a_token_that_expires_during_a_call_is_fetched_again(open_service, service, monkeypatch):
    monkeypatch.setattr(execute, "FIRST_DELAY_S", 0.001)
    names, accepted = iter("abcdefgh"), []

    def token(_):
        accepted.append(f"token-{next(names)}")
        return {"access_token": accepted[-1], "expires_in": 3600}

    def once(answer):  # each token is accepted once
        def respond(request):
            is_valid = accepted and request["headers"]["authorization"] == f"Bearer {accepted[-1]}"
            accepted.clear()
            return answer(request) if is_valid else (401, {}, {})

        return respond

    service.answers |= {
        "/token": token,
        "/0": once(lambda _: (202, {"Location": "/job"}, {})),
        "/job": once(lambda request: {"done": request["headers"]["authorization"]}),
        "/1": once(
            lambda request: {"items": [request["path"]], "next": None if "cursor" in request["path"] else "/1?cursor=b"}
        ),
    }
    found = secured([{"oauth": []}], [{"oauth": []}])
    found["paths"]["/1"]["get"]["parameters"] = [{"name": "cursor", "in": "query", "schema": {"type": "string"}}]
    grant = {"client_id": "me", "client_secret": "${credentials.one}", "token_url": f"{service.url}/token"}
    async with open_service(found, security={"oauth": grant}, credentials=SECRETS) as rt:
        polled = await rt.call("probe.get0", {})
        paged = await rt.call("probe.get1", {"pages": 2})
    assert polled.value == {"done": "[redacted]"}
    assert paged.value["items"] == ["/1", "/1?cursor=b"]


async def test_accepted_work_whose_token_cannot_be_renewed_is_not_reported_as_unsent(open_service, service):
    service.answers |= {
        "/token": [{"access_token": "token-a"}, (400, {}, {})],
        "/x": (202, {"Location": "/job"}, {}),
        "/job": (401, {}, {"message": "expired"}),
    }
    found = document({"/x": {"post": operation(operationId="op", security=[{"oauth": []}])}})
    found["components"] = {"securitySchemes": SCHEMES}
    grant = {"client_id": "me", "client_secret": "${credentials.one}", "token_url": f"{service.url}/token"}
    async with open_service(found, security={"oauth": grant}, credentials=SECRETS) as rt:
        result = await rt.call("probe.op", {})
    assert "answered 401: expired" in result.error.message
    assert result.error.retry.safe is False


async def test_a_fetched_token_is_masked_however_the_service_encodes_it(open_service, service):
    token = 'tok/SECRET"abc'  # noqa: S105 -- of this test
    service.answers |= {
        "/token": {"access_token": token},
        "/0": (200, {"Content-Type": "application/json"}, json.dumps({"t": token}).replace("/", "\\/").encode()),
        "/1": (201, {"Location": f"/x?access_token={token}"}, b""),
        "/2": (200, {"Content-Type": "text/plain; charset=utf-16"}, token.encode("utf-16")),
        "/3": (400, {"Content-Type": "application/json"}, json.dumps({"a": [token]}).replace("/", "\\/").encode()),
        "/4": (200, {"Content-Type": "application/json"}, json.dumps({token: 1}).replace("S", "\\u0053").encode()),
    }
    grant = {"client_id": "me", "client_secret": "${credentials.one}", "token_url": f"{service.url}/token"}
    found = secured(*([{"oauth": []}] for _ in range(5)))
    async with open_service(found, security={"oauth": grant}, credentials=SECRETS) as rt:
        results = [await rt.call(f"probe.get{number}", {}) for number in range(5)]
    assert [each.text for each in results[:3]] == [
        '{"t":"[redacted]"}',
        "status 201, no content, location /x?access_token=[redacted]",
        "[redacted]",
    ]
    assert results[3].error.native_error_ref["body"] == {"a": ["[redacted]"]}
    assert results[4].value == {"[redacted]": 1}
    assert not [each for each in results if "SECRET" in repr(each)]


async def test_parallel_calls_use_a_refresh_token_once(open_service, service):
    valid = ["secret-one-1"]

    def refresh(request):
        given = parse_qs(request["body"].decode())["refresh_token"][0]
        if given != valid[-1]:
            return 400, {}, {"error": "invalid_grant"}
        valid.append(f"refresh-{len(valid)}")
        return 200, {}, {"access_token": f"access-{len(valid)}", "refresh_token": valid[-1]}

    service.answers["/token"] = refresh
    grant = {"client_id": "me", "refresh_token": "${credentials.one}", "token_url": f"{service.url}/token"}
    found = secured([{"oauth": ["read"]}], [{"oauth": ["write"]}])
    async with open_service(found, trust=True, security={"oauth": grant}, credentials=SECRETS) as rt:
        results = await asyncio.gather(*(rt.call(f"probe.get{number % 2}", {}) for number in range(6)))
    assert all(each.ok for each in results)
    assert len(valid) == 3  # one for each scope


async def test_a_call_that_waits_for_its_token_delays_no_other_call(open_service, service):
    is_asked, may_answer = threading.Event(), threading.Event()

    def grant_late(_):
        is_asked.set()
        may_answer.wait(BOUND_S)
        return {"access_token": "late-token", "expires_in": 3600}

    service.answers["/token"] = grant_late
    grant = {"client_id": "me", "client_secret": "${credentials.one}", "token_url": f"{service.url}/token"}
    found = secured([{"oauth": ["read"]}], [])
    async with (
        open_service(found, security={"oauth": grant}, credentials=SECRETS, timeout_s=BOUND_S) as rt,
        asyncio.timeout(BOUND_S),
    ):
        first = [asyncio.create_task(rt.call("probe.get0", {})) for _ in range(2)]
        await asyncio.to_thread(is_asked.wait, BOUND_S)
        other = await rt.call("probe.get1", {})
        still_open = [not each.done() for each in first]
        may_answer.set()
        results = await asyncio.gather(*first)
    assert other.ok
    assert still_open == [True, True]
    assert all(each.ok for each in results)
    assert [each["path"] for each in service.requests].count("/token") == 1


async def test_a_refresh_token_and_openid_connect_find_their_endpoint(open_service, service):
    place = f"{service.url}/.well-known/openid-configuration?p=policy"
    service.answers["/.well-known/openid-configuration"] = lambda _: {"token_endpoint": f"{service.url}/token"}
    service.answers["/token"] = {"access_token": "fetched-token"}
    found = secured([{"oidc": []}])
    found["components"]["securitySchemes"] = {"oidc": {"type": "openIdConnect", "openIdConnectUrl": place}}
    grant = {"client_id": "me", "refresh_token": "${credentials.one}"}
    async with open_service(found, security={"oidc": grant}, credentials=SECRETS) as rt:
        result = await rt.call("probe.get0", {})
        assert result.ok, result.error
    form = next(each for each in service.requests if each["path"] == "/token")
    assert parse_qs(form["body"].decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["secret-one-1"],
        "client_id": ["me"],
    }
    assert service.last["headers"]["authorization"] == "Bearer fetched-token"


async def test_a_service_that_echoes_a_credential_does_not_show_it(open_service, service):
    echo = lambda request: (400, {}, {"message": f"bad header {request['headers']['authorization']}"})  # noqa: E731
    service.answers |= {"/0": echo, "/1": echo}
    found = secured([{"basic": []}], [{"bearer": []}])
    async with open_service(found, security=SECURITY, credentials=SECRETS) as rt:
        results = [await rt.call(f"probe.get{number}", {}) for number in range(2)]
    encoded = base64.b64encode(SECRETS["two"].encode()).decode()
    for result in results:
        text = repr(result.error)
        assert "bad header" in text
        assert not [each for each in (*SECRETS.values(), encoded) if each in text]


async def test_a_missing_credential_is_named_in_the_error(open_service, service):
    service.answers["/0"] = (401, {}, {"message": "who are you?"})
    async with open_service(secured([{"bearer": []}])) as rt:
        result = await rt.call("probe.get0", {})
    assert result.error.error_class.value == "credential_missing"
    assert "who are you?" in result.error.message
    assert "no security for bearer" in result.error.message
