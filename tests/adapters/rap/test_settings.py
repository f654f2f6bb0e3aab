"""A credential is for the server that it was given for, wherever that server would have it sent."""

import json

import pytest
from starting import begin

from agenttool.adapters.rap.credentials import Bearer
from agenttool.adapters.rap.settings import RapServer, read_source
from agenttool.errors import ConfigError
from agenttool.rap import Provider

WORD = "correct-horse-battery"
SHOWN = f"Bearer {WORD}"


def presented(server, path):
    return [
        headers.get("authorization")
        for (_, at, _), headers in zip(server.requests, server.headers, strict=True)
        if at == path
    ]


@pytest.mark.requirement("RAP-099", "RAP-341")
async def test_a_question_cannot_have_the_credential_sent_elsewhere(running, tool_server, started):
    server, stranger = tool_server(), tool_server("stranger", tools=["prune"])
    async with running(server, stranger, credential=Bearer(WORD)) as rt:
        for place, times in ((server, 1), (stranger, 1)):
            _, invocation = await started(rt, server)
            asked = {"prompt": "Open?", "choices": ["Open", "Leave"], "default": 1}
            await server.post(invocation, "user_choice", response_url=f"{place.url}/picked", **asked)
            [prompt] = await rt.prompts.list()
            assert (await rt.prompts.choose(prompt.prompt_id, 0)).is_delivered
            assert len(place.posts("/picked")) == times
        assert presented(server, "/picked") == [SHOWN]
        assert presented(server, "/invoke") == [SHOWN, SHOWN]
        assert presented(stranger, "/picked") == [None]


@pytest.mark.parametrize("is_named", [True, False])
async def test_calls_at_another_origin_show_the_credential_only_if_that_was_named(
    running, tool_server, serve_app, caplog, is_named
):
    server, elsewhere = tool_server(), tool_server()
    async with serve_app(elsewhere, lifespan="off") as elsewhere.url:
        server.manifest["endpoint"] = f"{elsewhere.url}/invoke"
        origins = (elsewhere.url,) if is_named else ()
        async with running(server, credential=Bearer(WORD), presents_to=origins) as rt:
            await begin(rt, "read_probe", {"bed": 1}, surface=await rt.surface())
            await elsewhere.invoked()
        await elsewhere.hang_up()
    assert presented(elsewhere, "/invoke") == [SHOWN if is_named else None]
    assert ("another origin" in caplog.text) is not is_named
    assert WORD not in caplog.text


@pytest.mark.parametrize(
    ("url", "is_shown"),
    [
        ("https://gh.example/x", True),
        ("https://GH.example:443/x", True),
        ("https://run.example/", True),
        ("http://gh.example/x", False),
        ("https://gh.example:8443/x", False),
        ("https://gh.example.evil.test/x", False),
        ("https://sub.gh.example/x", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(url, is_shown):
    source = RapServer(
        name="gh", url="https://gh.example/rap", credential=Bearer(WORD), presents_to=("https://run.example",)
    )
    assert bool(source.headers("POST", url)) is is_shown


def test_settings_may_name_more_origins():
    members = json.loads('{"url": "https://h.example", "token_env": "T", "presents_to": ["https://run.example"]}')
    source = read_source("gh", members, {"T": WORD}.get)
    assert source.presents_to == ("https://run.example",)
    assert source.headers("POST", "https://run.example/x") == {"Authorization": SHOWN}
    with pytest.raises(ConfigError, match="origin"):
        read_source("gh", {**members, "presents_to": ["run.example"]}, {"T": WORD}.get)


class Given:
    """A credential of a deployment's own, which presents what it was given."""

    def __init__(self, **headers):
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def caller_of(self, request):
        return None

    def headers(self, method, url, body):
        return self._headers


@pytest.mark.parametrize(
    "headers",
    [{"Host": "h"}, {"Content_Length": "0"}, {"transfer_encoding": "chunked"}, {"X": "a\r\nHost: h"}, {"X": "ü"}],
)
def test_a_credential_that_would_change_the_request_is_a_slip_of_the_deployment(headers, tmp_path):
    with pytest.raises(ConfigError, match="cannot be presented"):
        RapServer(name="gh", url="https://gh.example", credential=Given(**headers))
    with pytest.raises(ConfigError, match="cannot be presented"):
        Provider("p", store=tmp_path / "p.db", sign=Given(**headers), sign_to=["https://runtime.example"])


@pytest.mark.parametrize(
    "token", ["correct-horse\nbattery", "correct horse battery", "correct-horse-b\u00e4ttery", "short"]
)
def test_a_token_that_cannot_be_sent_whole_is_a_slip_of_the_deployment(token):
    with pytest.raises(ConfigError, match="plain characters"):
        Bearer(token)
