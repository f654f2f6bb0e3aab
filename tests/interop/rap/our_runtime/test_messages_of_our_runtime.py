"""Our governed runtime over the provider written in Node: every message, both ways."""

import asyncio
import json

import pytest
from starting import begin

from agenttool.adapters.rap.credentials import Bearer
from agenttool.records import ErrorClass, InvocationStatus

pytestmark = pytest.mark.slow  # every test starts a program

KNOWN = "a-bearer-of-sixteen-letters"
PATCH = "--- a\n+++ a\n@@ -1 +1 @@\n-dry\n+wet\n"


async def result_of(runtime, tool, arguments=None, **options):
    return await runtime.call(tool, arguments or {}, surface=await runtime.surface(), **options)


async def start(runtime, tool, arguments=None, **options):
    invocation = await begin(runtime, tool, arguments or {}, surface=await runtime.surface(), **options)
    return invocation.invocation_id


def text_of(result):
    return "".join(item.text for item in result.content if item.type == "text")


async def until(look):
    """Look again and again until there is something; the test itself is bounded."""
    while not (found := await look()):  # noqa: ASYNC110 -- what another process does can only be looked for
        await asyncio.sleep(0.01)
    return found


async def event_numbers(runtime, call, count):
    """Wait for so many events of a call, and give their numbers and threads in order."""

    async def look():
        found = await runtime.sources.get("rap").subscriptions.events()
        mine = [event for event in found if event.arguments["original_tool_call_id"] == call]
        return mine if len(mine) >= count else None

    return [(json.loads(event.text)["n"], event.thread.thread_id, event.is_final) for event in await until(look)]


@pytest.mark.requirement("RAP-002", "RAP-022", "RAP-024", "RAP-025", "RAP-026", "RAP-029")
async def test_a_call_is_dispatched_and_its_result_comes_back(governed):
    async with governed() as (provider, runtime):
        result = await result_of(runtime, "echo", {"text": "grüß dich \U0001f345"}, native_call_id="")
        assert (result.error, text_of(result)) == (None, "grüß dich \U0001f345")
        provider.wait_for(event="callback", status=200)


@pytest.mark.requirement("RAP-143")
async def test_a_base_url_with_a_prefix_and_a_token_is_honoured(governed):
    options = ["--prefix", "/north", "--bearer", KNOWN]
    async with governed(*options, path="/north/", credential=Bearer(KNOWN)) as (_, runtime):
        assert runtime.sources.get("rap").faults == ()
        assert json.loads(text_of(await result_of(runtime, "list_beds"))) == {"beds": 40}


@pytest.mark.requirement("RAP-021", "RAP-027", "RAP-028", "RAP-037")
async def test_an_invocation_says_where_it_comes_from_and_no_more_than_it_may(governed):
    async with governed() as (provider, runtime):
        await result_of(runtime, "list_beds", native_call_id="", actor_ref="gardener")
        await result_of(runtime.in_thread("s/a").in_thread("s/a/b"), "list_beds")
        await asyncio.to_thread(provider.wait_for, event="accepted", count=2)
        root, child = provider.reported(event="accepted")
        assert (root["operation"], root["thread"], root.get("ancestors")) == ("list_beds", "s", None)
        assert (root["call_id"], root.get("user_id")) == ("", None)
        assert (child["thread"], child["ancestors"]) == ("s/a/b", ["s", "s/a"])
        assert root["id"] != child["id"]


async def test_a_source_with_shares_user_gets_the_user_id(governed):
    async with governed(shares_user=True) as (provider, runtime):
        await result_of(runtime, "list_beds", actor_ref="gardener")
        assert (await asyncio.to_thread(provider.wait_for, event="accepted"))["user_id"] == "gardener"


@pytest.mark.requirement("RAP-145", "RAP-156", "RAP-300")
async def test_two_toolsets_with_the_same_names_offer_none_and_both_get_closures(governed, node_provider):
    other = node_provider()
    async with governed(beside=[other.url, "http://127.0.0.1:9"]) as (provider, runtime):
        assert (await result_of(runtime, "echo", {"text": "x"})).error is not None
        assert len(runtime.sources.get("rap").faults) == 3
        await runtime.sources.get("rap").close_thread("s/gone")
        for each in (provider, other):
            await asyncio.to_thread(each.wait_for, event="close", thread="s/gone")


@pytest.mark.requirement("RAP-123", "RAP-154")
async def test_a_server_that_is_down_costs_only_its_own_tools(governed):
    async with governed(beside=["http://127.0.0.1:9"]) as (_, runtime):
        assert len(runtime.sources.get("rap").faults) == 1
        assert text_of(await result_of(runtime, "echo", {"text": "x"})) == "x"


@pytest.mark.requirement("RAP-073", "RAP-079")
async def test_content_and_display_are_separate(governed):
    async with governed() as (_, runtime):
        result = await result_of(runtime, "photograph", {"bed": 3})
        assert result.error is None
        assert [item.type for item in result.content] == ["text", "image"]
        assert "photos" not in text_of(result)


@pytest.mark.requirement("RAP-031")
@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_probe", {"bed": 77}, "bed 77 does not exist"),
        ("explode", {}, "the tool failed"),
        ("watch", {"bed": 0, "events": 1}, "bed 0 does not exist"),
    ],
)
async def test_a_failure_of_the_tool_is_a_result_of_the_call(governed, tool, arguments, words):
    async with governed() as (_, runtime):
        result = await result_of(runtime, tool, arguments)
        assert result.error.error_class is ErrorClass.EXECUTION_FAILED
        assert result.error.message.startswith(words)
        assert await runtime.sources.get("rap").subscriptions.of() == ()


@pytest.mark.requirement("RAP-020", "RAP-023", "RAP-190")
@pytest.mark.parametrize(
    ("tool", "arguments"), [("echo", {}), ("echo", {"text": 5}), ("nothing", {}), ("receive_event__injected", {})]
)
async def test_what_may_not_be_called_never_reaches_the_provider(governed, tool, arguments):
    async with governed() as (provider, runtime):
        assert (await result_of(runtime, tool, arguments)).error is not None
        await result_of(runtime, "list_beds")
        assert (await asyncio.to_thread(provider.wait_for, event="run"))["operation"] == "list_beds"
        provider.exactly(1, event="run")


@pytest.mark.requirement("RAP-185", "RAP-186", "RAP-191", "RAP-192", "RAP-193")
@pytest.mark.parametrize("associative", [True, False])
async def test_events_come_inline_or_in_threads_of_their_own(governed, associative):
    async with governed() as (provider, runtime):
        call = await start(runtime, "watch", {"bed": 1, "events": 3, "associative": associative})
        assert call in text_of(await runtime.calls.get(call).result())
        numbers, threads, finals = zip(*await event_numbers(runtime, call, 3), strict=True)
        assert (numbers, finals) == ((1, 2, 3), (False, False, True))
        assert len(set(threads)) == (1 if associative else 3)
        assert (set(threads) == {"s"}) is associative
        await asyncio.to_thread(provider.wait_for, event="subscription_ended", id=call)
        assert await runtime.sources.get("rap").subscriptions.of() == ()


@pytest.mark.requirement("RAP-195", "RAP-196", "RAP-197")
async def test_a_subscription_is_cancelled_by_its_own_thread_only(governed):
    async with governed() as (provider, runtime):
        call = await start(runtime, "watch", {"bed": 1, "events": 0, "final": False})
        await runtime.calls.get(call).result()
        child = runtime.in_thread("s/child")
        assert (await result_of(child, "cancel_subscription", {"tool_call_id": call})).error is not None
        assert (await result_of(runtime, "cancel_subscription", {"tool_call_id": call})).error is None
        await asyncio.to_thread(provider.wait_for, event="subscription_ended", id=call)


@pytest.mark.requirement("RAP-242", "RAP-243", "RAP-244", "RAP-416")
@pytest.mark.parametrize(("selected", "words"), [(1, "picked 1: Open for 1 minute"), (None, "picked 2: Leave closed")])
async def test_a_choice_goes_to_a_person_and_back(governed, selected, words):
    async with governed() as (_, runtime):
        calling = asyncio.ensure_future(result_of(runtime, "open_valve", {"minutes": 9}))
        (prompt,) = await until(runtime.prompts.list)
        assert (prompt.choices[2], prompt.default) == ("Leave closed", 2)

        async def needs_input():
            return (await runtime.journal.invocation(prompt.invocation_id)).status is InvocationStatus.NEEDS_INPUT

        await until(needs_input)
        chosen = await runtime.prompts.choose(prompt.prompt_id, selected)
        assert (chosen.is_taken, chosen.is_delivered) == (True, True)
        assert not (await runtime.prompts.choose(prompt.prompt_id, 0)).is_taken
        assert text_of(await calling) == words


@pytest.mark.requirement("RAP-417")
async def test_a_prompt_goes_away_with_its_call(governed):
    async with governed("--patience", "200") as (_, runtime):
        calling = asyncio.ensure_future(result_of(runtime, "open_valve", {"minutes": 9}))
        assert "nobody answered" in (await calling).error.message
        assert await runtime.prompts.list() == ()


@pytest.mark.requirement("RAP-222", "RAP-223", "RAP-225")
@pytest.mark.parametrize(("link", "words"), [("Allow", "one letter"), ("Deny", "the authorization was denied")])
async def test_an_authorization_is_given_or_denied_on_a_page(governed, follow, link, words):
    secure = ["--authorize-at", "https://login.example.test/login/authorize"]
    async with governed(*secure) as (provider, runtime):
        calling = asyncio.ensure_future(result_of(runtime, "read_mail", actor_ref="gardener"))
        (prompt,) = await until(runtime.prompts.list)
        page = prompt.url.replace("https://login.example.test", provider.url)
        assert await asyncio.to_thread(follow, page, link) == 200
        result = await calling
        assert (text_of(result) if result.error is None else result.error.message).startswith(words)
        provider.exactly(1, event="run")


@pytest.mark.requirement("RAP-414")
async def test_a_page_without_tls_is_not_shown(governed):
    async with governed("--patience", "300") as (provider, runtime):
        result = await result_of(runtime, "read_mail")
        assert "nobody authorized" in result.error.message
        refused = await asyncio.to_thread(provider.wait_for, event="callback", type="oauth")
        assert refused["status"] == 400


@pytest.mark.requirement("RAP-260", "RAP-263", "RAP-269")
async def test_a_view_is_stored_unchanged_and_cleared(governed):
    async with governed() as (_, runtime):
        await result_of(runtime, "paint", {"patch": PATCH})
        (view,) = await runtime.sources.get("rap").views.of("s")
        assert (view.view_type, view.content) == ("diff", {"patch": PATCH})
        await result_of(runtime, "paint", {"patch": ""})
        assert [view.content for view in await runtime.sources.get("rap").views.of("s") if view.content] == []


@pytest.mark.requirement("RAP-280", "RAP-281", "RAP-285", "RAP-096")
async def test_a_cancelled_call_ends_at_once_and_its_late_result_is_taken_and_dropped(governed):
    async with governed() as (provider, runtime):
        call = await start(runtime, "grow", {"ms": 60_000})
        assert await runtime.cancel(call)
        result = await runtime.calls.get(call).result()
        assert result.error.error_class is ErrorClass.CANCELED
        assert (await asyncio.to_thread(provider.wait_for, event="cancel"))["id"] == call
        assert (await asyncio.to_thread(provider.wait_for, event="callback"))["status"] == 200
        assert await runtime.journal.result(call) == result


@pytest.mark.requirement("RAP-027", "RAP-300", "RAP-200")
async def test_a_closed_thread_sends_a_notice_and_accepts_no_callbacks(governed):
    async with governed() as (provider, runtime):
        child = runtime.in_thread("s/a")
        await result_of(child, "remember", {"name": "x", "value": "1"})
        grandchild = child.in_thread("s/a/b")
        assert text_of(await result_of(grandchild, "recall", {"name": "x"})) == "1"
        call = await start(child, "watch", {"bed": 1, "events": 1000, "every_ms": 20})
        await event_numbers(runtime, call, 1)
        await runtime.sources.get("rap").close_thread("s/a")
        assert (await asyncio.to_thread(provider.wait_for, event="close"))["thread"] == "s/a"
        await asyncio.to_thread(provider.wait_for, event="subscription_ended", id=call)
        async with asyncio.timeout(60):
            while (result := await result_of(grandchild, "recall", {"name": "x"})).error is None:
                pass  # the cleaning up is in the background
        assert result.error.message.startswith("there is no note")


@pytest.mark.requirement("RAP-321", "RAP-322")
async def test_a_session_moves_with_its_notes(governed, node_provider):
    destination = node_provider("--migration-key", "k")
    async with governed("--migration-key", "k") as (provider, runtime):
        await result_of(runtime, "remember", {"name": "x", "value": "1"})
        assert await runtime.sources.get("rap").migrate("s", {"greenhouse": destination.url}) == ()
        provider.wait_for(event="migrated", session="s")
        destination.wait_for(event="adopted", session="s")


@pytest.mark.requirement("RAP-325")
async def test_a_migration_that_fails_is_reported(governed, node_provider):
    stranger = node_provider("--migration-key", "another")
    async with governed("--migration-key", "k") as (_, runtime):
        (fault,) = await runtime.sources.get("rap").migrate("s", {"greenhouse": stranger.url})
        assert "greenhouse" in fault
        assert len(await runtime.sources.get("rap").migrate("s", {})) == 1


@pytest.mark.requirement("RAP-321")
async def test_a_provider_without_state_worth_moving_is_never_asked(governed):
    async with governed() as (_, runtime):
        assert await runtime.sources.get("rap").migrate("s", {}) == ()
