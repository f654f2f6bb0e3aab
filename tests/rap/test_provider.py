"""A provider as its author and its operator see it."""

import asyncio
import base64
import json
import sqlite3

import pytest

from agenttool.adapters.rap.wire import read_manifest
from agenttool.errors import ConfigError
from agenttool.rap import (
    Bearer,
    Declined,
    DescribedImage,
    Limits,
    OAuthClient,
    Progress,
    Provider,
    RapCall,
    Result,
    Signed,
    display_diff,
    display_text,
)

ECHO = {"type": "tool_result", "group_id": "thread-1", "id": "tc-1"}


@pytest.fixture
def greenhouse(make):
    provider = make(description="Probes and valves")

    @provider.tool(read_only=True, annotations={"x-greenhouse-zone": "north"}, display_script='"probe"')
    async def read_probe(bed: int, call: RapCall) -> str:
        """Read one soil probe."""
        if bed > 40:
            raise Declined(f"bed {bed} does not exist; valid beds are 1 to 40")
        return f"bed {bed} of {call.thread_id} for {call.user_id}"

    @provider.tool
    def weigh(crates: list[float]) -> dict[str, float]:
        """Weigh crates."""
        return {"total": sum(crates)}

    @provider.tool
    async def explode() -> None:
        """Fail in a way that nobody meant."""
        raise ZeroDivisionError("secret internals at /srv/greenhouse.py")

    return provider


@pytest.mark.requirement("RAP-140", "RAP-141", "RAP-146", "RAP-148", "RAP-153", "RAP-163")
async def test_the_manifest_is_served_and_every_runtime_can_read_it(greenhouse, serving):
    async with serving(greenhouse) as client:
        reply = await client.get("/.well-known/rap-toolset")
    manifest = read_manifest(reply.body)
    tools = {tool.name: tool for tool in manifest.tools}
    assert (manifest.name, manifest.description, manifest.needs_migration) == ("greenhouse", "Probes and valves", False)
    assert manifest.endpoint == f"{client.base}/invoke"
    assert list(tools) == ["read_probe", "weigh", "explode"]
    assert tools["read_probe"].annotations == {"readOnly": True, "x-greenhouse-zone": "north"}
    assert tools["read_probe"].input_schema["required"] == ["bed"]
    assert tools["explode"].input_schema["additionalProperties"] is False


@pytest.mark.requirement("RAP-147")
async def test_the_address_in_the_manifest_can_be_given(make, serving):
    provider = make(url="https://gh.example.test/rap/")
    provider.tool(description="Ring")(ring)
    async with serving(provider) as client:
        manifest = read_manifest((await client.get("/.well-known/rap-toolset")).body)
    assert manifest.endpoint == "https://gh.example.test/rap/invoke"


async def ring() -> str:
    return "rung"


@pytest.mark.requirement("RAP-004", "RAP-040", "RAP-042", "RAP-049", "RAP-054", "RAP-070", "RAP-071")
async def test_a_call_is_acknowledged_and_ends_in_a_result_with_its_names(greenhouse, serving):
    async with serving(greenhouse) as client:
        status = await client.invoke("read_probe", {"bed": 12}, call_id="m-4", user_id="gardener-5")
        result = await client.result()
    assert status == 200
    assert result == {**ECHO, "call_id": "m-4", "text": "bed 12 of thread-1 for gardener-5"}


CALL_ID = 'm-4 "ä\u2028/../' + "x" * 200
"""A call id that a careless provider would trim, escape twice or normalize."""


@pytest.mark.requirement("RAP-001", "RAP-071")
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("read_probe", {"bed": 1}),
        ("read_probe", {"bed": 41}),
        ("read_probe", {"bed": "one"}),
        ("read_probe", []),
        ("no_such_operation", {}),
        ("weigh", {"crates": [1.5]}),
    ],
)
async def test_each_result_also_that_of_a_failure_has_the_call_id_unchanged(greenhouse, serving, operation, arguments):
    async with serving(greenhouse) as client:
        message = {**client.invocation(operation, call_id=CALL_ID), "arguments": arguments}
        assert await client.post("/invoke", message) == 200
        result = await client.result()
        assert client.inbox.headers[0]["content-type"] == "application/json"
    assert (result["type"], result["id"], result["call_id"]) == ("tool_result", "tc-1", CALL_ID)


@pytest.mark.requirement("RAP-071")
async def test_a_picture_has_the_call_id_of_its_call_unchanged(make, serving):
    provider = make()

    @provider.tool
    async def photo() -> DescribedImage:
        """Take a photo."""
        return DescribedImage(b"\xff\xd8\xff", "image/jpeg", "Leaf of bed 12")

    async with serving(provider) as client:
        await client.invoke("photo", call_id=CALL_ID)
        assert (await client.result())["call_id"] == CALL_ID


@pytest.mark.requirement("RAP-006")
async def test_a_callback_url_is_used_byte_for_byte(greenhouse, serving):
    async with serving(greenhouse) as client:
        url = f"{client.inbox.url}/in/%41/../b?k=w%208&k=%C3%A4+x"
        await client.invoke("read_probe", {"bed": 1}, callback_url=url)
        await client.result()
        assert client.inbox.targets == ["/in/%41/../b?k=w%208&k=%C3%A4+x"]
        assert client.inbox.headers[0]["content-type"] == "application/json"


@pytest.mark.requirement("RAP-071")
@pytest.mark.parametrize(("sent", "echoed"), [("", ""), (None, None)])
async def test_an_empty_call_id_is_echoed_and_none_is_none(greenhouse, serving, sent, echoed):
    async with serving(greenhouse) as client:
        await client.invoke("read_probe", {"bed": 1}, call_id=sent)
        assert (await client.result()).get("call_id") == echoed


@pytest.mark.requirement("RAP-074")
async def test_structured_data_is_json_in_text(greenhouse, serving):
    async with serving(greenhouse) as client:
        await client.invoke("weigh", {"crates": [1.5, 2.5]})
        assert json.loads((await client.result())["text"]) == {"total": 4.0}


@pytest.mark.requirement("RAP-076", "RAP-082")
async def test_images_come_after_words_and_people_may_see_something_else(make, serving):
    provider = make()

    @provider.tool
    async def photo() -> DescribedImage:
        """Take a photo."""
        return DescribedImage(b"\xff\xd8\xff", "image/jpeg", "Leaf of bed 12")

    @provider.tool
    async def edit() -> Result:
        """Edit a file."""
        return Result(
            parts=["edited"], display_as=[display_diff("a.toml", "--- a\n+++ b"), display_text("edited a.toml")]
        )

    async with serving(provider) as client:
        await client.invoke("photo", id="a")
        await client.invoke("edit", id="b")
        await client.result(2)
        results = {each["id"]: each for each in client.inbox.messages}
    data = base64.b64encode(b"\xff\xd8\xff").decode()
    assert results["a"]["content"] == [
        {"type": "text", "text": "Leaf of bed 12"},
        {"type": "image", "data": data, "mediaType": "image/jpeg"},
    ]
    assert [each["type"] for each in results["b"]["display_as"]] == ["diff", "text"]


@pytest.mark.requirement(
    "RAP-045", "RAP-046", "RAP-047", "RAP-048", "RAP-050", "RAP-051", "RAP-084", "RAP-087", "RAP-159"
)
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"operation": "open_valve"}, "'open_valve'"),
        ({"arguments": {"bed": "twelve"}}, "'/bed': expected integer"),
        ({"arguments": {}}, "'/bed'"),
        ({"arguments": {"bed": 1, "depth": 2}}, "no other members"),
        ({"arguments": {"bed": 77}}, "valid beds are 1 to 40"),
        ({"arguments": None}, "'/arguments'"),
        ({"arguments": [1]}, "'/arguments'"),
        ({"arguments": "bed 12"}, "'/arguments'"),
        ({"operation": 5}, "'/operation'"),
        ({"user_id": 7}, "'/user_id'"),
        ({"thread_ancestors": "plot"}, "'/thread_ancestors'"),
    ],
)
async def test_an_invalid_call_is_acknowledged_and_answered_by_an_error(greenhouse, serving, members, message):
    async with serving(greenhouse) as client:
        status = await client.post("/invoke", client.invocation("read_probe", {"bed": 12}) | members)
        result = await client.result()
    assert status == 200
    assert result["text"].startswith("Error: ")
    assert message in result["text"]


@pytest.mark.requirement("RAP-057", "RAP-085")
async def test_a_failure_is_reported_without_internals_and_the_server_continues(greenhouse, serving, caplog):
    async with serving(greenhouse) as client:
        await client.invoke("explode", id="a")
        reported = (await client.result())["text"]
        await client.invoke("read_probe", {"bed": 1}, id="b")
        assert (await client.result(2))["id"] == "b"
    assert reported.startswith("Error: the tool failed; try again later")
    assert not {"ZeroDivision", "secret", "/srv"} & set(reported.replace("/", " /").split())
    assert "secret internals" not in reported + caplog.text


@pytest.mark.requirement("RAP-041", "RAP-043", "RAP-044", "RAP-052", "RAP-058", "RAP-059")
async def test_acknowledgements_do_not_wait_for_work_and_names_never_mix(make, serving):
    provider = make()
    gate = asyncio.Event()

    @provider.tool
    async def wait(number: int) -> int:
        """Wait for the gate."""
        await gate.wait()
        return number

    async with serving(provider) as client:
        asked = [
            client.invoke(
                "wait", {"number": each}, id=f"tc-{each % 50}", group_id=f"g-{each // 50}", call_id=f"m-{each}"
            )
            for each in range(200)
        ]
        assert await asyncio.gather(*asked) == [200] * 200
        assert client.inbox.messages == []
        gate.set()
        await client.result(200)
        results = {(each["group_id"], each["id"]): (each["call_id"], each["text"]) for each in client.inbox.messages}
    assert results == {(f"g-{each // 50}", f"tc-{each % 50}"): (f"m-{each}", str(each)) for each in range(200)}


@pytest.mark.requirement("RAP-402")
async def test_a_repeated_invocation_runs_once_and_has_one_result(make, serving):
    provider, runs, gate = make(), [], asyncio.Event()

    @provider.tool
    async def once(number: int) -> str:
        """Count."""
        runs.append(number)
        await gate.wait()
        return "done"

    async with serving(provider) as client:
        assert [await client.invoke("once", {"number": 1}) for _ in range(3)] == [200] * 3
        gate.set()
        await client.result()
        assert await client.invoke("once", {"number": 1}) == 200  # a replay, long after
        await client.invoke("once", {"number": 2}, id="tc-2")
        await client.result(2)
    assert runs == [1, 2]
    assert [each["id"] for each in client.inbox.messages] == ["tc-1", "tc-2"]


@pytest.mark.requirement("RAP-403", "RAP-058")
async def test_the_same_id_from_another_thread_or_runtime_is_another_call(greenhouse, serving):
    async with serving(greenhouse) as client:
        await client.invoke("read_probe", {"bed": 1})
        await client.invoke("read_probe", {"bed": 2}, group_id="thread-2")
        await client.invoke("read_probe", {"bed": 3}, callback_url=f"{client.inbox.url}/other")
        await client.result(3)
    texts = sorted(each["text"].split(" for")[0] for each in client.inbox.messages)
    assert texts == ["bed 1 of thread-1", "bed 2 of thread-2", "bed 3 of thread-1"]
    assert sorted(client.inbox.targets) == ["/in/9d3e?k=w8", "/in/9d3e?k=w8", "/other?"]


@pytest.mark.requirement("RAP-053")
async def test_a_tool_knows_the_threads_above(make, serving):
    provider = make()

    @provider.tool
    async def above(call: RapCall) -> list[str]:
        """Tell the threads above."""
        return list(call.ancestors)

    async with serving(provider) as client:
        await client.invoke("above", id="a", thread_ancestors=["root", "parent"])
        assert (await client.result())["text"] == '["root","parent"]'
        for place, root in enumerate((None, [])):
            await client.invoke("above", id=f"b{place}", thread_ancestors=root)
            assert (await client.result(2 + place))["text"] == "[]"


@pytest.mark.requirement("RAP-004", "RAP-265", "RAP-266", "RAP-267")
async def test_views_and_progress_are_sent_and_progress_is_cleared(make, serving):
    provider = make()

    @provider.tool
    async def grow(call: RapCall):
        """Grow."""
        await call.view("beds", {"open": [4, 7]})
        yield Progress("sprouting", percent=50)
        await call.view("beds", {})
        yield "grown"

    async with serving(provider) as client:
        await client.invoke("grow")
        await client.result()
        await client.inbox.wait(4, "view_update")
    views = [each for each in client.inbox.messages if each["type"] == "view_update"]
    assert {each["group_id"] for each in views} == {"thread-1"}
    assert [each["content"] for each in views if each["view_type"] == "beds"] == [{"open": [4, 7]}, {}]
    contents = [each["content"] for each in views if each["view_type"] == "progress/tc-1"]
    assert contents == [{"message": "sprouting", "percent": 50, "tool_call_id": "tc-1"}, {}]


@pytest.mark.requirement("RAP-289")
async def test_a_tool_that_takes_too_long_is_stopped_and_says_so(make, serving):
    provider = make()

    @provider.tool(timeout_s=0.05)
    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    async with serving(provider) as client:
        await client.invoke("hang")
        assert (await client.result())["text"].startswith("Error: the tool ran out of time")


@pytest.mark.parametrize("value", [{1, 2}.__class__, object(), float("nan"), b"\xff", "half \ud800"])
async def test_whatever_a_tool_returns_there_is_a_result(make, serving, value):
    provider = make()

    @provider.tool
    async def odd() -> object:
        """Return something odd."""
        return value

    async with serving(provider) as client:
        await client.invoke("odd")
        result = await client.result()
    assert result["text"].startswith("Error: ") or result["text"] == "half ?"


def test_what_cannot_be_a_tool_is_refused_when_it_is_declared(tmp_path):
    provider = Provider("p", store=tmp_path / "p.db")
    with pytest.raises(ConfigError, match="no tool"):
        _ = provider.app
    with pytest.raises(ConfigError, match="has no description"):
        provider.tool(ring)
    with pytest.raises(ConfigError, match="cannot be a RAP tool"):
        provider.tool(name="ring the bell", description="Ring")(ring)
    with pytest.raises(ConfigError, match="no option 'readonly'"):
        provider.tool(readonly=True, description="Ring")(ring)
    provider.tool(description="Ring")(ring)
    with pytest.raises(ConfigError, match="two tools"):
        provider.tool(description="Ring")(ring)
    with pytest.raises(ConfigError, match="yields no events"):
        provider.subscription(description="Ring", name="again")(ring)
    with pytest.raises(ConfigError, match="1 to 128"):
        Provider("")


@pytest.mark.requirement("RAP-060", "RAP-083")
async def test_a_manifest_says_what_takes_long_and_a_short_result_is_shown_as_it_is(make, serving):
    provider = make()

    @provider.tool(long_running=True)
    async def grow() -> str:
        """Grow a tomato, in about two months."""
        return "grown"

    async with serving(provider) as client:
        [tool] = json.loads((await client.get("/.well-known/rap-toolset")).body)["tools"]
        await client.invoke("grow")
        result = await client.result()
    assert (tool["annotations"], tool["description"]) == (
        {"longRunning": True},
        "Grow a tomato, in about two months.",
    )
    assert "display_as" not in result


@pytest.mark.requirement("RAP-062")
async def test_nothing_of_a_user_is_left_once_a_call_was_answered(make, serving, tmp_path):
    provider = make()

    @provider.tool
    async def greet(name: str) -> str:
        """Greet somebody."""
        return "hello"

    async with serving(provider) as client:
        await client.invoke("greet", {"name": "Annabelle of Bed 12"}, user_id="gardener-five")
        await client.result()
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("calls.db*"))
    assert (b"Annabelle" in stored, b"gardener-five" in stored) == (False, False)


@pytest.mark.requirement("RAP-306")
async def test_calls_are_forgotten_after_their_time(make, serving, monkeypatch, tmp_path):
    monkeypatch.setattr("agenttool.rap.service.CLEANUP_INTERVAL_S", 0.02)
    provider = make(limits=Limits(keep_s=0))

    @provider.tool
    async def greet() -> str:
        """Greet."""
        return "hello"

    async with serving(provider) as client:
        await client.invoke("greet", group_id="a-thread-that-nobody-closes")
        await client.result()
        with sqlite3.connect(tmp_path / "calls.db") as looking:
            while looking.execute("SELECT count(*) FROM calls").fetchone() != (0,):
                await asyncio.sleep(0.02)
        looking.close()


METER = OAuthClient(
    name="meter", authorize_url="https://meter.example/grant", token_url="https://meter.example/token", client_id="gh"
)


def secured_greenhouse(**options):
    provider = Provider("secured_greenhouse", limits=Limits(), **options)

    @provider.tool(read_only=True)
    async def read_probe(bed: int) -> str:
        """Read a probe."""
        return "wet"

    @provider.tool
    async def burn(bed: int) -> str:
        """Burn a bed."""
        return "burnt"

    @provider.tool(destructive=False, idempotent=True, requires_auth="meter" if "clients" in options else None)
    async def water(bed: int) -> str:
        """Water a bed."""
        return "wet"

    @provider.subscription
    async def watch(call: RapCall):
        """Watch a bed."""
        yield "watching"

    return provider


def parts(page):
    """Give what the page says of the toolset and of each tool."""
    head, *tools = page.split("\n## ")
    return head, {each.partition("\n")[0]: each for each in tools}


@pytest.mark.requirement("RAP-344")
def test_the_security_page_states_effects_and_assumes_the_worst():
    _, tools = parts(secured_greenhouse(clients=[METER]).security)
    assert list(tools) == ["read_probe", "burn", "water", "watch"]
    assert "reads only" in tools["read_probe"]
    assert "may run again" in tools["read_probe"]
    assert "may change and destroy data" in tools["burn"]
    assert "does not run again" in tools["burn"]
    assert "destroys none" in tools["water"]
    assert "https://meter.example/grant" in tools["water"]
    assert "until it is canceled" in tools["watch"]


@pytest.mark.requirement("RAP-344")
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, ("every client that can reach the server", "public addresses only", "only the secret callback URL")),
        ({"auth": Bearer("t" * 40)}, ("valid credential (Bearer)",)),
        ({"sign": Signed("s" * 32)}, ("a credential (Signed)",)),
        ({"allow": ["10.0.0.0/8", "hq.example"], "https_only": True}, ("10.0.0.0/8, hq.example, over https only",)),
        ({"clients": [METER]}, ("stored in clear in the same file, for meter",)),
    ],
)
def test_the_security_page_describes_the_toolset_without_secrets(options, lines):
    head, _ = parts(secured_greenhouse(**options).security)
    assert all(each in head for each in lines)
    assert "t" * 40 not in head
    assert "secured_greenhouse.rap.db" in head
