"""The two programs written in Node from the ledger alone, paired with each other: known good before they judge ours."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

HERE = Path(__file__).parent / "node"
PATCH = "--- a\n+++ a\n@@ -1 +1 @@\n-dry\n+wet\n"
PIXEL = "image/png"


def text_of(result):
    return "".join(item["text"] for item in result["model"] if item["type"] == "text")


def test_the_programs_stand_on_node_alone_and_stay_small():
    for module in sorted(HERE.rglob("*.mjs")):
        text = module.read_text(encoding="utf-8")
        places = re.findall(r'from "([^"]+)"', text)
        assert [place for place in places if not place.startswith(("node:", "./", "../"))] == []
        assert len(text.splitlines()) < 300


def test_neither_side_knows_the_other():
    for side, other in (("provider", "runtime"), ("runtime", "provider")):
        for module in [HERE / f"{side}.mjs", *(HERE / side).glob("*.mjs")]:
            assert f"/{other}/" not in module.read_text(encoding="utf-8"), module.name


def test_a_plain_call_is_acknowledged_and_answered(pair):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="c1", call_id="", tool="echo", arguments={"text": "grüß dich \U0001f345"})
    result = runtime.wait_for(event="result", id="c1")
    assert (text_of(result), result["source"], result["call_id"]) == ("grüß dich \U0001f345", "tool", "")
    assert runtime.wait_for(event="audit", id="c1")["outcome"] == 200


def test_a_base_url_with_a_prefix_and_a_token_is_honoured(pair):
    provider, runtime = pair(["--prefix", "/north", "--bearer", "k"], bearer="k")
    runtime.do("invoke", thread="s", id="c1", tool="list_beds")
    assert text_of(runtime.wait_for(event="result", id="c1")) == '{"beds":40}'
    runtime.do("raw", url=f"{provider.url}/north/cancel_tool_call", body={"thread_id": "s", "tool_call_id": "c1"})
    assert runtime.wait_for(event="raw")["status"] == 401


def test_content_and_its_display_reach_their_two_readers(pair):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="c1", tool="photograph", arguments={"bed": 3})
    result = runtime.wait_for(event="result", id="c1")
    assert [item["type"] for item in result["model"]] == ["text", "image"]
    assert result["shown"]["type"] == "diff"


def test_a_blind_model_gets_words_for_pictures(pair):
    _, runtime = pair(runtime_options=["--blind"])
    runtime.do("invoke", thread="s", id="c1", tool="photograph", arguments={"bed": 3})
    result = runtime.wait_for(event="result", id="c1")
    assert result["model"][1] == {"type": "text", "text": f"[image omitted: {PIXEL}]"}


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_probe", {"bed": 77}, "Error: bed 77 does not exist"),
        ("explode", {}, "Error: the tool failed"),
        ("watch", {"bed": 0, "events": 1}, "Error: bed 0 does not exist"),
    ],
)
def test_a_tool_that_fails_says_so_without_internals(pair, tool, arguments, words):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="c1", tool=tool, arguments=arguments)
    result = runtime.wait_for(event="result", id="c1")
    assert text_of(result).startswith(words)
    assert "secretInternalName" not in text_of(result)
    assert not result["subscription"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("echo", {}),
        ("echo", {"text": 5}),
        ("nothing", {}),
        ("receive_event__injected", {}),
        ("open_valve", {"minutes": 1}),
    ],
)
def test_what_may_not_be_called_never_leaves_the_runtime(pair, tool, arguments):
    provider, runtime = pair()
    runtime.do("invoke", thread="s", id="c1", tool=tool, arguments=arguments)
    result = runtime.wait_for(event="result", id="c1")
    assert (result["source"], text_of(result)[:7]) == ("runtime", "Error: ")
    assert provider.reported(event="run") == []


def test_events_come_inline_or_in_threads_of_their_own(pair):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="in", tool="watch", arguments={"bed": 1, "events": 2, "associative": True})
    runtime.do("invoke", thread="s", id="out", tool="watch", arguments={"bed": 2, "events": 2})
    assert runtime.wait_for(event="injected", id="in", final=True)["thread"] == "s"
    assert runtime.wait_for(event="injected", id="out", final=True)["thread"] == "s/event-2"
    runtime.do("history", thread="s/event-2")
    history = runtime.wait_for(event="history", thread="s/event-2")
    assert history["ancestors"] == ["s"]
    assert history["entries"][-2]["arguments"]["original_tool_call_id"] == "out"


def test_a_subscription_is_cancelled_by_its_own_thread_only(pair):
    provider, runtime = pair()
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments={"bed": 1, "events": 0, "final": False})
    runtime.wait_for(event="result", id="w", subscription=True)
    cancel = {"tool": "cancel_subscription", "arguments": {"tool_call_id": "w"}}
    runtime.do("invoke", thread="s/child", ancestors=["s"], id="x1", **cancel)
    assert text_of(runtime.wait_for(event="result", id="x1")).startswith("Error: ")
    runtime.do("invoke", thread="s", id="x2", **cancel)
    assert text_of(runtime.wait_for(event="result", id="x2")) == "Cancelled w."
    provider.wait_for(event="subscription_ended", id="w")


@pytest.mark.parametrize(("selected", "words"), [(1, "picked 1: Open for 1 minute"), (None, "picked 2: Leave closed")])
def test_a_choice_goes_to_the_user_and_back(pair, selected, words):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="v", tool="open_valve", arguments={"minutes": 9}, consent=True)
    assert runtime.wait_for(event="choice", id="v")["default"] == 2
    runtime.do("choose", thread="s", id="v", selected=selected)
    assert text_of(runtime.wait_for(event="result", id="v")) == words


@pytest.mark.parametrize("selected", [3, -1, True, "1", 1.5])
def test_a_selection_that_is_no_index_declines_the_work(pair, selected):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="v", tool="open_valve", arguments={"minutes": 9}, consent=True)
    runtime.wait_for(event="choice", id="v")
    runtime.do("choose", thread="s", id="v", selected=selected)
    assert text_of(runtime.wait_for(event="result", id="v")).startswith("Error: the selection")


def test_an_unanswered_question_ends_in_an_error(pair):
    _, runtime = pair(["--patience", "50"])
    runtime.do("invoke", thread="s", id="v", tool="open_valve", arguments={"minutes": 9}, consent=True)
    assert text_of(runtime.wait_for(event="result", id="v")).startswith("Error: nobody answered")
    runtime.wait_for(event="withdrawn", id="v")


@pytest.mark.parametrize(("link", "words"), [("Allow", "one letter"), ("Deny", "Error: the authorization was denied")])
def test_an_authorization_is_given_or_denied_on_a_page(pair, follow, link, words):
    _, runtime = pair(runtime_options=["--allow-loopback-auth"])
    runtime.do("invoke", thread="s", id="m", tool="read_mail", user_id="gardener")
    page = runtime.wait_for(event="oauth", id="m")["auth_url"]
    assert follow(page, link) == 200
    assert text_of(runtime.wait_for(event="result", id="m")).startswith(words)


def test_a_page_with_tls_is_shown_without_the_development_switch(pair, follow):
    provider, runtime = pair(["--authorize-at", "https://login.example.test/login/authorize"])
    runtime.do("invoke", thread="s", id="m", tool="read_mail", user_id="gardener")
    page = urlsplit(runtime.wait_for(event="oauth", id="m")["auth_url"])
    assert follow(f"{provider.url}{page.path}?{page.query}", "Allow") == 200
    runtime.wait_for(event="result", id="m")
    runtime.do("invoke", thread="s", id="m2", tool="read_mail", user_id="gardener")
    runtime.wait_for(event="result", id="m2")
    runtime.exactly(1, event="oauth")


def test_a_page_without_tls_is_not_shown(pair):
    _, runtime = pair(["--patience", "50"])
    runtime.do("invoke", thread="s", id="m", tool="read_mail")
    assert text_of(runtime.wait_for(event="result", id="m")).startswith("Error: nobody authorized")
    runtime.wait_for(event="malformed", reason="auth_url must be HTTPS")
    assert runtime.reported(event="oauth") == []


def test_a_view_is_stored_unchanged_and_cleared(pair):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="p1", tool="paint", arguments={"patch": PATCH})
    runtime.wait_for(event="result", id="p1")
    runtime.do("views", thread="s")
    assert runtime.wait_for(event="views")["views"] == {"diff": {"patch": PATCH}}
    runtime.do("invoke", thread="s", id="p2", tool="paint", arguments={"patch": ""})
    runtime.wait_for(event="result", id="p2")
    runtime.do("views", thread="s")
    assert runtime.wait_for(event="views", count=2)["views"] == {"diff": {}}


def test_a_cancelled_call_is_settled_at_once_and_its_late_result_dropped(pair):
    provider, runtime = pair()
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 60_000})
    runtime.wait_for(event="attempt", id="g", status=200)
    runtime.do("cancel", thread="s", id="g")
    assert runtime.wait_for(event="result", id="g")["source"] == "interrupted"
    assert provider.wait_for(event="callback", id="g")["status"] == 200
    assert runtime.wait_for(event="dropped")["reason"] == "already settled"


def test_a_deadline_settles_the_call(pair):
    _, runtime = pair()
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 60_000}, deadline_ms=20)
    assert runtime.wait_for(event="result", id="g")["source"] == "timeout"


def test_closing_a_thread_forgets_its_notes_and_ends_its_callbacks(pair):
    provider, runtime = pair()
    runtime.do("invoke", thread="s/a", ancestors=["s"], id="n", tool="remember", arguments={"name": "x", "value": "1"})
    runtime.wait_for(event="result", id="n")
    runtime.do("invoke", thread="s/a/b", ancestors=["s", "s/a"], id="r1", tool="recall", arguments={"name": "x"})
    assert text_of(runtime.wait_for(event="result", id="r1")) == "1"
    watch = {"bed": 1, "events": 1000, "every_ms": 20}
    runtime.do("invoke", thread="s/a", ancestors=["s"], id="w", tool="watch", arguments=watch)
    runtime.wait_for(event="injected", id="w")
    runtime.do("close", thread="s/a")
    runtime.wait_for(event="notice", notice="close_thread", status=200)
    provider.wait_for(event="subscription_ended", id="w")
    look = {"thread": "s/a/b", "ancestors": ["s", "s/a"], "tool": "recall", "arguments": {"name": "x"}}
    for n in range(200):  # the cleaning up is in the background
        runtime.do("invoke", id=f"l{n}", **look)
        if text_of(runtime.wait_for(event="result", id=f"l{n}")).startswith("Error: there is no note"):
            break
    else:
        pytest.fail("the note is still there")


def test_a_session_moves_with_its_notes_and_subscriptions(pair, node_provider):
    source, runtime = pair(["--migration-key", "k"])
    destination = node_provider("--migration-key", "k")
    runtime.do("invoke", thread="s", id="n", tool="remember", arguments={"name": "x", "value": "1"})
    watch = {"bed": 1, "events": 12, "every_ms": 20, "associative": True}
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments=watch)
    runtime.wait_for(event="result", id="n")
    runtime.wait_for(event="injected", id="w")
    runtime.do("migrate", session="s", to={source.url: destination.url})
    runtime.wait_for(event="migrated", servers=[source.url])
    runtime.do("invoke", thread="s", id="r", tool="recall", arguments={"name": "x"})
    assert text_of(runtime.wait_for(event="result", id="r")) == "1"
    destination.wait_for(event="run", operation="recall")
    runtime.wait_for(event="injected", id="w", final=True)
    assert [line["text"] for line in runtime.reported(event="injected")] == [
        f'{{"bed":1,"n":{n}}}' for n in range(1, 13)
    ]


def test_a_migration_that_fails_leaves_the_session_where_it_is(pair, node_provider):
    source, runtime = pair(["--migration-key", "k"])
    stranger = node_provider("--migration-key", "another")
    runtime.do("invoke", thread="s", id="n", tool="remember", arguments={"name": "x", "value": "1"})
    runtime.wait_for(event="result", id="n")
    runtime.do("migrate", session="s", to={source.url: stranger.url})
    assert "502" in runtime.wait_for(event="migration_failed")["faults"][0]
    runtime.do("invoke", thread="s", id="r", tool="recall", arguments={"name": "x"})
    assert text_of(runtime.wait_for(event="result", id="r")) == "1"


def test_a_provider_without_state_worth_moving_is_never_asked_to_migrate(pair):
    provider, runtime = pair()
    runtime.do("migrate", session="s", to={provider.url: "http://127.0.0.1:9"})
    assert runtime.wait_for(event="migrated")["servers"] == []


def test_tools_of_two_servers_that_share_a_name_are_offered_by_neither(pair, node_provider):
    provider, runtime = pair()
    other = node_provider()
    runtime.do(
        "discover", session="t", servers=[{"url": provider.url}, {"url": other.url}, {"url": "http://127.0.0.1:9"}]
    )
    assert runtime.wait_for(event="tools", session="t")["names"] == []
    assert runtime.reported(event="clash", session="t", name="echo")
    assert runtime.reported(event="toolset_refused", server="http://127.0.0.1:9")


@pytest.mark.parametrize("stop", ["close_stdin", "terminate"])
def test_both_programs_end_when_they_are_disconnected_or_terminated(pair, stop):
    for program in pair():
        getattr(program, stop)()
        assert program.returncode == 0
