"""Our provider under the runtime written in Node: every message, both ways."""

import json
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest

pytestmark = pytest.mark.slow  # every test starts two programs

PATCH = "--- a\n+++ a\n@@ -1 +1 @@\n-dry\n+wet\n"


def text_of(result):
    return "".join(item["text"] for item in result["model"] if item["type"] == "text")


def call(runtime, tool, arguments=None, *, id="c", **members):  # noqa: A002 -- the protocol's word
    runtime.do("invoke", thread="s", id=id, tool=tool, arguments=arguments or {}, **members)


def result_of(runtime, tool, arguments=None, **members):
    call(runtime, tool, arguments, **members)
    return runtime.wait_for(event="result", id=members.get("id", "c"))


@pytest.mark.requirement("RAP-140", "RAP-146", "RAP-147", "RAP-148", "RAP-149", "RAP-151")
def test_our_manifest_is_valid_in_foreign_eyes(served):
    _, runtime = served()
    manifest = runtime.wait_for(event="toolset")["manifest"]
    assert manifest["name"] == "greenhouse"
    assert manifest["needsMigration"] is True
    assert {tool["name"] for tool in manifest["tools"]} >= {"echo", "watch", "open_valve", "read_mail"}
    assert runtime.reported(event="toolset_refused") == []


@pytest.mark.requirement("RAP-003", "RAP-004", "RAP-040", "RAP-049", "RAP-070", "RAP-071")
@pytest.mark.parametrize("call_id", ["", "m-4", None])
def test_a_call_is_acknowledged_and_answered_with_its_own_ids(served, call_id):
    _, runtime = served()
    result = result_of(runtime, "echo", {"text": "grüß dich \U0001f345"}, call_id=call_id)
    assert (text_of(result), result["source"], result.get("call_id")) == ("grüß dich \U0001f345", "tool", call_id)
    assert runtime.wait_for(event="audit")["outcome"] == 200


@pytest.mark.requirement("RAP-074")
def test_structured_data_comes_as_json_in_text(served):
    _, runtime = served()
    assert json.loads(text_of(result_of(runtime, "read_probe", {"bed": 3}))) == {"bed": 3, "moisture": 0.42}


@pytest.mark.requirement("RAP-072", "RAP-076")
def test_content_and_its_display_reach_their_two_readers(served):
    _, runtime = served()
    result = result_of(runtime, "photograph", {"bed": 3})
    assert [item["type"] for item in result["model"]] == ["text", "image"]
    assert result["model"][1]["mediaType"] == "image/png"
    assert result["shown"]["content"]["path"] == "beds.toml"


@pytest.mark.requirement("RAP-050", "RAP-051", "RAP-084", "RAP-085", "RAP-087")
@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_probe", {"bed": 77}, "Error: bed 77 does not exist"),
        ("explode", {}, "Error: the tool failed"),
        ("watch", {"bed": 0, "events": 1}, "Error: bed 0 does not exist"),
    ],
)
def test_a_tool_that_fails_says_so_without_internals(served, tool, arguments, words):
    _, runtime = served()
    result = result_of(runtime, tool, arguments)
    assert text_of(result).startswith(words)
    assert "secretInternalName" not in text_of(result)
    assert not result["subscription"]


@pytest.mark.requirement("RAP-181", "RAP-182", "RAP-183", "RAP-194")
@pytest.mark.parametrize("associative", [True, False])
def test_events_come_after_their_confirmation_and_end_with_the_last(served, associative):
    _, runtime = served()
    confirmed = result_of(runtime, "watch", {"bed": 1, "events": 3, "associative": associative})
    assert confirmed["subscription"]
    assert "c" in text_of(confirmed)
    runtime.wait_for(event="injected", final=True)
    injected = runtime.reported(event="injected")
    assert [json.loads(line["text"])["n"] for line in injected] == [1, 2, 3]
    assert [line["thread"] == "s" for line in injected] == [associative] * 3
    assert runtime.reported(event="dropped") == []


@pytest.mark.requirement("RAP-198", "RAP-286")
def test_a_cancelled_subscription_falls_silent(served):
    _, runtime = served()
    result_of(runtime, "watch", {"bed": 1, "events": 1000, "every_ms": 50, "associative": True})
    runtime.wait_for(event="injected", count=2)
    assert text_of(result_of(runtime, "cancel_subscription", {"tool_call_id": "c"}, id="x")) == "Cancelled c."
    assert runtime.wait_for(event="notice")["status"] == 200
    assert text_of(result_of(runtime, "echo", {"text": "later"}, id="e")) == "later"
    before = len(runtime.reported(event="dropped"))
    for n in range(20):
        result_of(runtime, "echo", {"text": "later"}, id=f"e{n}")
    assert len(runtime.reported(event="dropped")) <= before + 1


@pytest.mark.requirement("RAP-240", "RAP-241", "RAP-246")
@pytest.mark.parametrize(("selected", "words"), [(1, "picked Open for 1 minute"), (None, "picked Leave closed")])
def test_a_choice_goes_to_the_user_and_back(served, selected, words):
    _, runtime = served()
    call(runtime, "open_valve", {"minutes": 9}, consent=True, call_id="m")
    asked = runtime.wait_for(event="choice")
    assert (asked["default"], asked["call_id"], len(asked["choices"])) == (2, "m", 3)
    runtime.do("choose", thread="s", id="c", selected=selected)
    assert text_of(runtime.wait_for(event="result")) == words
    assert runtime.wait_for(event="selected")["status"] == 200


@pytest.mark.requirement("RAP-247")
@pytest.mark.parametrize("selected", [3, -1, True, "1", 1.5])
def test_a_selection_that_is_no_index_declines_the_work(served, selected):
    _, runtime = served()
    call(runtime, "open_valve", {"minutes": 9}, consent=True)
    runtime.wait_for(event="choice")
    runtime.do("choose", thread="s", id="c", selected=selected)
    assert text_of(runtime.wait_for(event="result")).startswith("Error: ")


@pytest.mark.requirement("RAP-220", "RAP-221", "RAP-226", "RAP-227", "RAP-229")
@pytest.mark.parametrize(("answer", "words"), [("code=abc", "one letter"), ("error=access_denied", "Error: ")])
def test_an_authorization_is_given_or_denied(served, login, answer, words):
    _, runtime = served(TOKEN_URL=login)
    call(runtime, "read_mail", user_id="gardener", call_id="m")
    asked = runtime.wait_for(event="oauth", call_id="m")
    page = parse_qs(urlsplit(asked["auth_url"]).query)
    redirect = f"{page['redirect_uri'][0]}?state={page['state'][0]}&{answer}"
    assert urlopen(redirect).status == 200  # noqa: S310 -- a page on loopback
    assert text_of(runtime.wait_for(event="result")).startswith(words)


@pytest.mark.requirement("RAP-265", "RAP-267")
def test_a_view_is_shown_and_cleared(served):
    _, runtime = served()
    result_of(runtime, "paint", {"patch": PATCH})
    assert runtime.wait_for(event="view", thread="s")["content"] == {"patch": PATCH}
    result_of(runtime, "paint", {"patch": ""}, id="c2")
    assert runtime.wait_for(event="view", count=2)["content"] == {}


@pytest.mark.requirement("RAP-286", "RAP-287")
def test_a_cancelled_call_ends_and_its_late_result_is_harmless(served):
    _, runtime = served()
    call(runtime, "grow", {"ms": 60_000})
    runtime.wait_for(event="attempt", status=200)
    runtime.do("cancel", thread="s", id="c")
    assert runtime.wait_for(event="result")["source"] == "interrupted"
    assert runtime.wait_for(event="notice", notice="cancel_tool_call")["status"] == 200
    assert runtime.wait_for(event="dropped", type="tool_result")["reason"] == "already settled"


@pytest.mark.requirement("RAP-053", "RAP-303", "RAP-304")
def test_closing_a_thread_cleans_up_behind_it(served):
    _, runtime = served()
    child, grandchild = {"thread": "s/a", "ancestors": ["s"]}, {"thread": "s/a/b", "ancestors": ["s", "s/a"]}
    note, look = (
        {"tool": "remember", "arguments": {"name": "x", "value": "1"}},
        {"tool": "recall", "arguments": {"name": "x"}},
    )
    runtime.do("invoke", id="n", **child, **note)
    runtime.wait_for(event="result", id="n")
    runtime.do("invoke", id="r1", **grandchild, **look)
    assert text_of(runtime.wait_for(event="result", id="r1")) == "1"
    runtime.do("close", thread="s/a")
    assert runtime.wait_for(event="notice", notice="close_thread")["status"] == 200
    for n in range(200):  # the cleaning up is in the background
        runtime.do("invoke", id=f"l{n}", **grandchild, **look)
        if text_of(runtime.wait_for(event="result", id=f"l{n}")).startswith("Error: "):
            break
    else:
        pytest.fail("the note is still there")


@pytest.mark.requirement("RAP-320", "RAP-323")
def test_a_session_moves_to_another_server(served, our_provider, tmp_path):
    destination = our_provider(STORE=tmp_path / "there.db")
    source, runtime = served(PEER_URL=destination.url, PEER_STORE=tmp_path / "there.db")
    result_of(runtime, "remember", {"name": "x", "value": "1"})
    runtime.do("migrate", session="s", to={source.url: destination.url})
    runtime.wait_for(lambda line: line.get("event") in {"migrated", "migration_failed"})
    assert runtime.reported(event="migrated")[0]["servers"] == [source.url]
    assert text_of(result_of(runtime, "recall", {"name": "x"}, id="r")) == "1"


@pytest.mark.requirement("RAP-324", "RAP-326")
@pytest.mark.parametrize("reachable", [True, False])
def test_a_session_that_cannot_move_stays(served, our_provider, reachable):
    source, runtime = served(PEER_URL="http://127.0.0.1:9")
    destination = our_provider().url if reachable else "http://127.0.0.1:9"
    runtime.do("migrate", session="s", to={source.url: destination})
    fault = runtime.wait_for(event="migration_failed")["faults"][0]
    assert " 5" in fault or " 4" in fault
    assert len(fault.split()) > 3
