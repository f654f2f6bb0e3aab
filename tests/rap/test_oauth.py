"""Authorization: the user grants, the tool continues, and no token or code reaches any other party."""

import asyncio
import base64
import hashlib
import json
import re
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from agenttool.adapters.rap.credentials import Bearer
from agenttool.errors import ConfigError
from agenttool.rap import OAuthClient, RapCall


class Authority:
    """An authorization server's token endpoint."""

    def __init__(self):
        self.forms = []
        self.reply = {"access_token": "at-1", "refresh_token": "rt-1", "expires_in": 3600}
        self.status = 200

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind.endswith("shutdown"):
                    return
        body = (await receive())["body"]
        self.forms.append(dict(parse_qsl(body.decode())))
        status, reply = await self.answer(self.forms[-1])
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    async def answer(self, form):
        return self.status, self.reply


@pytest.fixture
def listing(make):
    """Serve a provider whose tool needs a token, beside an authority."""

    def listing(authority_url, cipher=None, **options):
        hub = OAuthClient(
            name="hub",
            authorize_url="https://id.example.test/authorize",
            token_url=f"{authority_url}/token",
            client_id="gh",
            client_secret="client-secret",
            scopes=("read",),
        )
        provider, used = make(clients=[hub], cipher=cipher), []

        @provider.tool(requires_auth="hub")
        async def list_issues(call: RapCall) -> str:
            """List issues."""
            used.append(await call.authorize(**options))
            return "2 issues"

        return provider, used

    return listing


@pytest.mark.requirement("RAP-004", "RAP-071", "RAP-167", "RAP-220", "RAP-221", "RAP-226", "RAP-229", "RAP-230")
async def test_a_granted_token_reaches_only_the_tool(listing, serving, serve_app, caplog):
    caplog.set_level("DEBUG", logger="agenttool")
    authority = Authority()
    async with serve_app(authority) as url:
        provider, used = listing(url)
        async with serving(provider) as client:
            await client.invoke("list_issues", user_id="ann", call_id="m-1")
            [asked] = await client.inbox.wait(1, "oauth")
            assert (asked["id"], asked["group_id"], asked["call_id"]) == ("tc-1", "thread-1", "m-1")
            page = urlsplit(asked["auth_url"])
            query = {name: values[0] for name, values in parse_qs(page.query).items()}
            assert (page.scheme, page.netloc, query["client_id"], query["scope"]) == (
                "https",
                "id.example.test",
                "gh",
                "read",
            )
            assert query["redirect_uri"] == f"{client.base}/oauth/hub"
            forged = await client.get(f"{query['redirect_uri']}?state=forged&code=stolen")
            assert (forged.status, authority.forms) == (400, [])
            back = await client.get(f"{query['redirect_uri']}?state={query['state']}&code=code-1")
            assert back.status == 200
            assert (await client.result()).items() >= {"text": "2 issues", "call_id": "m-1"}.items()
            again = await client.get(f"{query['redirect_uri']}?state={query['state']}&code=code-1")
            assert again.status == 400
            await client.invoke("list_issues", user_id="ann", id="tc-2")
            await client.result(2)
            manifest = (await client.get("/.well-known/rap-toolset")).body
    [form] = authority.forms
    challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    assert challenge == query["code_challenge"]
    assert (form["code"], form["grant_type"], form["redirect_uri"]) == (
        "code-1",
        "authorization_code",
        query["redirect_uri"],
    )
    assert used == ["at-1", "at-1"]
    assert b'"requiresAuth":"hub"' in manifest
    reported = json.dumps(client.inbox.messages) + caplog.text + back.body.decode()
    assert not [
        secret for secret in ("at-1", "rt-1", "code-1", "client-secret", form["code_verifier"]) if secret in reported
    ]


@pytest.mark.requirement("RAP-227")
@pytest.mark.parametrize("ending", ["error=access_denied", "code=bad", ""])
async def test_a_refused_or_failed_authorization_is_an_error(listing, serving, serve_app, ending):
    authority = Authority()
    authority.status, authority.reply = 400, {"error": "invalid_grant", "error_description": "internal detail"}
    async with serve_app(authority) as url:
        provider, used = listing(url)
        async with serving(provider) as client:
            await client.invoke("list_issues", user_id="ann")
            [asked] = await client.inbox.wait(1, "oauth")
            state = parse_qs(urlsplit(asked["auth_url"]).query)["state"][0]
            assert (await client.get(f"/oauth/hub?state={state}&{ending}")).status == 200
            text = (await client.result())["text"]
    assert text == "Error: the authorization was refused or failed; nothing was done"
    assert used == []


@pytest.mark.requirement("RAP-228")
async def test_an_unanswered_authorization_ends_in_an_error(listing, serving, serve_app):
    async with serve_app(Authority()) as url:
        provider, used = listing(url, limit_s=0.1)
        async with serving(provider) as client:
            await client.invoke("list_issues", user_id="ann")
            assert (await client.result())["text"].startswith("Error: the user did not grant the authorization in time")
    assert used == []


@pytest.mark.requirement("RAP-054", "RAP-055", "RAP-220")
async def test_tokens_belong_to_their_user_and_a_call_without_one_gets_none(listing, serving, serve_app):
    async with serve_app(Authority()) as url:
        provider, used = listing(url)
        async with serving(provider) as client:
            await client.invoke("list_issues", id="a")
            assert "on behalf of a user" in (await client.result())["text"]
            await client.invoke("list_issues", id="b", user_id="ann")
            [asked] = await client.inbox.wait(1, "oauth")
            state = parse_qs(urlsplit(asked["auth_url"]).query)["state"][0]
            await client.get(f"/oauth/hub?state={state}&code=x")
            await client.result(2)
            await client.invoke("list_issues", id="c", user_id="bob")
            assert (await client.inbox.wait(2, "oauth"))[1]["id"] == "c"
    assert used == ["at-1"]


async def granted(client):
    """Make a first call, and grant what it asks for."""
    await client.invoke("list_issues", user_id="ann", id="first")
    [asked] = await client.inbox.wait(1, "oauth")
    state = parse_qs(urlsplit(asked["auth_url"]).query)["state"][0]
    await client.get(f"/oauth/hub?state={state}&code=x")
    await client.result()


async def _succeed(token):
    return "2 issues"


async def _fail(token):
    raise RuntimeError(f"{token} of client-secret was rejected for tc-number 1")


async def _return_no_json(token):
    return {token: {"client-secret": float("nan")}}


async def _take_too_long(token):
    raise TimeoutError(f"no answer to {token}")


@pytest.mark.requirement("RAP-086", "RAP-085")
@pytest.mark.parametrize(
    ("work", "text"),
    [
        (_succeed, "2 issues"),
        (_fail, "Error: the tool failed; try again later, or give its operator the reference [0-9a-f]{12}"),
        (_return_no_json, "Error: the result of this tool has no JSON form; contact its operator"),
        (_take_too_long, "Error: the tool ran out of time; it may have done part of its work, so check before [a-z ]+"),
    ],
)
async def test_a_result_is_what_the_tool_said_and_holds_no_token_and_no_internal_id(
    make, serving, serve_app, tmp_path, work, text
):
    async with serve_app(Authority()) as url:
        hub = OAuthClient(
            name="hub",
            authorize_url="https://id.example.test/authorize",
            token_url=f"{url}/token",
            client_id="gh",
            client_secret="client-secret",
        )
        provider = make(clients=[hub], auth=Bearer("caller-token-of-sixteen"))

        @provider.tool(requires_auth="hub")
        async def list_issues(call: RapCall) -> object:
            """List issues."""
            return await work(await call.authorize())

        async with serving(provider) as client:
            client.headers = {"Authorization": "Bearer caller-token-of-sixteen"}
            await granted(client)
            message = await client.result()
    assert {name: value for name, value in message.items() if name != "text"} == {
        "type": "tool_result",
        "group_id": "thread-1",
        "id": "first",
    }
    assert re.fullmatch(text, message["text"])


async def test_an_expired_token_is_refreshed_or_requested_again(listing, serving, serve_app, monkeypatch):
    authority = Authority()
    async with serve_app(authority) as url:
        provider, used = listing(url)
        async with serving(provider) as client:
            await granted(client)
            monkeypatch.setattr("agenttool.rap.oauth.EXPIRY_MARGIN_S", 7200.0)
            authority.reply = {"access_token": "at-2", "expires_in": 36000}
            await client.invoke("list_issues", user_id="ann", id="b")
            await client.result(2)
            monkeypatch.setattr("agenttool.rap.oauth.EXPIRY_MARGIN_S", 10.0**6)
            authority.status = 400
            await client.invoke("list_issues", user_id="ann", id="c")
            assert len(await client.inbox.wait(2, "oauth")) == 2
    assert used == ["at-1", "at-2"]
    assert authority.forms[1]["refresh_token"] == "rt-1"


class Rotating(Authority):
    """Takes each refresh token once, and gives another with each answer, which may be late."""

    def __init__(self):
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()

    async def answer(self, form):
        refreshes = [each for each in self.forms if "refresh_token" in each]
        is_spent = refreshes.count(form) > 1
        self.status = 400 if is_spent else 200
        self.reply = {"access_token": f"at-{len(self.forms)}", "refresh_token": f"rt-{len(self.forms)}"}
        self.reply["expires_in"] = 3600 * len(self.forms)
        answer = self.status, dict(self.reply)
        await self.answers.wait()
        return answer


@pytest.mark.requirement("RAP-232")
async def test_calls_that_need_a_token_at_its_end_at_the_same_time_refresh_it_once(
    listing, serving, serve_app, monkeypatch
):
    """A client that uses a refresh token twice loses the grant, and the user would be asked again."""
    authority = Rotating()
    async with serve_app(authority) as url:
        provider, used = listing(url)
        async with serving(provider) as client:
            await granted(client)
            monkeypatch.setattr("agenttool.rap.oauth.EXPIRY_MARGIN_S", 3601.0)
            authority.answers.clear()
            for each in range(4):
                await client.invoke("list_issues", user_id="ann", id=f"c{each}")
            asyncio.get_running_loop().call_later(0.2, authority.answers.set)
            await client.result(5)
            assert len(await client.inbox.wait(1, "oauth")) == 1
    assert used == ["at-1", *["at-2"] * 4]
    assert len(authority.forms) == 2


@pytest.mark.requirement("RAP-232")
@pytest.mark.parametrize("status", [503, 429, 404])
async def test_a_temporary_failure_of_the_authorization_server_does_not_end_the_grant(
    listing, serving, serve_app, monkeypatch, status
):
    authority = Authority()
    async with serve_app(authority) as url:
        provider, used = listing(url)
        async with serving(provider) as client:
            await granted(client)
            monkeypatch.setattr("agenttool.rap.oauth.EXPIRY_MARGIN_S", 7200.0)
            authority.status = status
            await client.invoke("list_issues", user_id="ann", id="b")
            assert "cannot be renewed now" in (await client.result(2))["text"]
            authority.status, authority.reply = 200, {"access_token": "at-2", "expires_in": 36000}
            await client.invoke("list_issues", user_id="ann", id="c")
            assert (await client.result(3))["text"] == "2 issues"
            assert len(await client.inbox.wait(1, "oauth")) == 1
    assert used == ["at-1", "at-2"]


async def test_an_authorization_outlives_its_server(listing, serving, serve_app):
    async with serve_app(Authority()) as url:
        provider, _ = listing(url)
        async with serving(provider) as client:
            await client.invoke("list_issues", user_id="ann")
            [asked] = await client.inbox.wait(1, "oauth")
            inbox = client.inbox
        state = parse_qs(urlsplit(asked["auth_url"]).query)["state"][0]
        provider, used = listing(url)
        async with serving(provider, inbox) as client:
            await client.get(f"/oauth/hub?state={state}&code=x")
            assert (await client.result())["text"] == "2 issues"
    assert used == ["at-1"]
    assert [each["type"] for each in inbox.messages] == ["oauth", "tool_result"]


@pytest.mark.requirement("RAP-221")
def test_an_authorization_page_must_be_reached_over_https():
    with pytest.raises(ConfigError, match="https"):
        OAuthClient(name="hub", authorize_url="http://id.test/a", token_url="https://id.test/t", client_id="c")
    with pytest.raises(ConfigError, match="https"):
        OAuthClient(name="hub", authorize_url="https://id.test/a", token_url="http://id.test/t", client_id="c")
    hub = OAuthClient(
        name="hub",
        authorize_url="https://id.test/a",
        token_url="https://id.test/t",
        client_id="c",
        client_secret="hidden",
    )
    assert "hidden" not in repr(hub)


def test_a_tool_cannot_require_a_client_that_there_is_not(make):
    with pytest.raises(ConfigError, match="requires the OAuth client"):
        make().tool(requires_auth="hub", description="x")(_nothing)


async def _nothing() -> None:
    return None


class Mirror:
    """A cipher that a test can see through."""

    def encrypt(self, data):
        return b"sealed:" + data[::-1]

    def decrypt(self, token):
        assert token.startswith(b"sealed:")
        return token.removeprefix(b"sealed:")[::-1]


@pytest.mark.requirement("RAP-232")
async def test_tokens_are_encrypted_with_the_configured_cipher(listing, serving, serve_app, tmp_path):
    async with serve_app(Authority()) as url:
        provider, used = listing(url, cipher=Mirror())
        async with serving(provider) as client:
            await client.invoke("list_issues", user_id="ann")
            [asked] = await client.inbox.wait(1, "oauth")
            query = dict(parse_qsl(urlsplit(asked["auth_url"]).query))
            await client.get(f"{query['redirect_uri']}?state={query['state']}&code=code-1")
            await client.result()
            inbox = client.inbox
        stored = b"".join(file.read_bytes() for file in tmp_path.glob("calls.db*"))
        assert (b"at-1" in stored, b"rt-1" in stored, b"sealed:" in stored) == (False, False, True)
        again, used_again = listing(url, cipher=Mirror())
        async with serving(again, inbox) as client:
            await client.invoke("list_issues", user_id="ann", id="tc-2")
            await client.result(2)
    assert (used, used_again) == (["at-1"], ["at-1"])


async def test_a_grant_that_the_cipher_cannot_read_is_requested_again(listing, serving, serve_app):
    async with serve_app(Authority()) as url:
        provider, _ = listing(url)
        async with serving(provider) as client:
            await client.invoke("list_issues", user_id="ann")
            [asked] = await client.inbox.wait(1, "oauth")
            query = dict(parse_qsl(urlsplit(asked["auth_url"]).query))
            await client.get(f"{query['redirect_uri']}?state={query['state']}&code=code-1")
            await client.result()
            inbox = client.inbox
        again, _ = listing(url, cipher=Mirror())
        async with serving(again, inbox) as client:
            await client.invoke("list_issues", user_id="ann", id="tc-2")
            await client.inbox.wait(2, "oauth")


async def test_what_a_user_of_one_caller_granted_is_not_for_a_user_whom_another_caller_calls_the_same(
    listing, serving, serve_app
):
    async with serve_app(Authority()) as url:
        provider, used = listing(url)
        provider.settings.admits = Bearer({"token-of-runtime-a": "a", "token-of-runtime-b": "b"})
        async with serving(provider) as client:
            client.headers = {"Authorization": "Bearer token-of-runtime-a"}
            await client.invoke("list_issues", user_id="ann")
            [asked] = await client.inbox.wait(1, "oauth")
            query = dict(parse_qsl(urlsplit(asked["auth_url"]).query))
            await client.get(f"{query['redirect_uri']}?state={query['state']}&code=code-1")
            await client.result()
            client.headers = {"Authorization": "Bearer token-of-runtime-b"}
            await client.invoke("list_issues", user_id="ann", id="tc-2")
            await client.inbox.wait(2, "oauth")
    assert used == ["at-1"]
