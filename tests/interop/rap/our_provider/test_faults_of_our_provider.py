"""Our provider under a Node runtime that loses, repeats and refuses, and under crashes of either."""

import json

import pytest

pytestmark = pytest.mark.slow  # every test starts two programs

CALLS = 12
BEARER = "a-token-of-sixteen-letters"


def text_of(result):
    return "".join(item["text"] for item in result["model"] if item["type"] == "text")


def echo_all(runtime, count):
    """Make calls in a few threads at once; each must end in its own text."""
    for n in range(count):
        runtime.do("invoke", thread=f"s/{n % 3}", ancestors=["s"], id=f"e{n}", tool="echo", arguments={"text": f"t{n}"})
    for n in range(count):
        assert text_of(runtime.wait_for(event="result", id=f"e{n}")) == f"t{n}"


@pytest.mark.requirement("RAP-110", "RAP-402")
@pytest.mark.parametrize(
    "fault", ["refuse-first", "lose-reply", "invoke-twice", "refuse-first,lose-reply,invoke-twice"]
)
def test_every_call_ends_once_whatever_the_runtime_does(served, fault):
    _, runtime = served("--faults", fault)
    echo_all(runtime, CALLS)
    watch = {"bed": 1, "events": 3, "associative": True}
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments=watch)
    runtime.wait_for(event="injected", final=True)
    numbers = [json.loads(line["text"])["n"] for line in runtime.reported(event="injected")]
    assert sorted(set(numbers)) == [1, 2, 3]
    assert numbers == sorted(numbers)
    runtime.exactly(CALLS + 1, event="result")


@pytest.mark.requirement("RAP-402")
def test_work_that_was_asked_for_twice_is_done_once(served):
    _, runtime = served("--faults", "invoke-twice")
    runtime.do("invoke", thread="s", id="p", tool="paint", arguments={"patch": "x"})
    runtime.wait_for(event="attempt", id="p", attempt=0, status=200)
    echo_all(runtime, 3)
    runtime.exactly(1, event="view")


@pytest.mark.requirement("RAP-058", "RAP-059")
def test_hundreds_of_calls_never_mix_their_ids(served):
    _, runtime = served()
    echo_all(runtime, 300)
    runtime.exactly(300, event="result")


@pytest.mark.requirement("RAP-111")
def test_a_result_that_is_rejected_is_not_sent_again(served):
    _, runtime = served("--faults", "reject-results")
    for n in range(16):  # the last ones end long after the first ones would have been tried again
        runtime.do("invoke", thread="s", id=f"c{n}", tool="grow", arguments={"ms": 150 * n})
    runtime.wait_for(event="dropped", reason="rejected", count=16)
    runtime.exactly(16, event="dropped")


@pytest.mark.requirement("RAP-111")
def test_a_refused_event_ends_its_subscription(served):
    _, runtime = served()
    runtime.do(
        "invoke",
        thread="s/a",
        ancestors=["s"],
        id="w",
        tool="watch",
        arguments={"bed": 1, "events": 1000, "every_ms": 50},
    )
    runtime.wait_for(event="injected", id="w")
    runtime.do("close", thread="s/a")
    runtime.wait_for(event="notice", notice="close_thread", status=200)
    echo_all(runtime, 30)
    assert len(runtime.reported(event="dropped", status=410)) <= 2


@pytest.mark.requirement("RAP-061", "RAP-204", "RAP-009", "RAP-180")
def test_a_killed_provider_finishes_what_it_had_accepted(served, our_provider, tmp_path):
    provider, runtime = served(STORE=tmp_path / "p.db")
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 1500})
    watch = {"bed": 1, "events": 20, "every_ms": 20, "associative": True}
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments=watch)
    runtime.do("invoke", thread="s", id="v", tool="open_valve", arguments={"minutes": 2}, consent=True)
    runtime.wait_for(event="injected", id="w")
    runtime.wait_for(event="choice", id="v")
    provider.kill()
    our_provider(port=provider.port, STORE=tmp_path / "p.db")
    runtime.do("choose", thread="s", id="v", selected=0)
    assert text_of(runtime.wait_for(event="result", id="v")) == "picked Open for 2 minutes"
    assert text_of(runtime.wait_for(event="result", id="g")) == "grown after 1500 ms"
    runtime.wait_for(event="injected", id="w", final=True)
    numbers = [json.loads(line["text"])["n"] for line in runtime.reported(event="injected")]
    assert sorted(set(numbers)) == list(range(1, 21))
    runtime.exactly(3, event="result")


@pytest.mark.requirement("RAP-061", "RAP-110", "RAP-204", "RAP-402")
def test_a_provider_that_is_killed_again_and_again_loses_nothing_and_repeats_no_result(served, our_provider, tmp_path):
    provider, runtime = served("--faults", "lose-reply", "--attempts", "2000", STORE=tmp_path / "p.db")
    watch = {"bed": 1, "events": 10, "every_ms": 20, "associative": True}
    for n in range(8):
        runtime.do("invoke", thread="s", id=f"g{n}", tool="grow", arguments={"ms": 40 * n})
        runtime.do("invoke", thread="s", id=f"w{n}", tool="watch", arguments=watch)
        runtime.wait_for(event="attempt", id=f"g{n - n % 2}")
        provider.kill()
        provider = our_provider(port=provider.port, STORE=tmp_path / "p.db")
    for n in range(8):
        assert text_of(runtime.wait_for(event="result", id=f"g{n}")) == f"grown after {40 * n} ms"
        assert runtime.wait_for(event="result", id=f"w{n}")["subscription"]
        runtime.wait_for(event="injected", id=f"w{n}", final=True)
        numbers = [json.loads(line["text"])["n"] for line in runtime.reported(event="injected", id=f"w{n}")]
        assert sorted(set(numbers)) == list(range(1, 11))
    runtime.exactly(16, event="result")


@pytest.mark.requirement("RAP-110")
def test_a_result_waits_for_a_runtime_that_is_away(served, node_runtime, tmp_path):
    _, runtime = served("--state", tmp_path / "r")
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 2000})  # it outlasts the kill
    runtime.wait_for(event="attempt", id="g", status=200)
    runtime.kill()
    again = node_runtime("--state", tmp_path / "r")
    assert text_of(again.wait_for(event="result", id="g")) == "grown after 2000 ms"


@pytest.mark.requirement("RAP-045", "RAP-046", "RAP-047")
@pytest.mark.parametrize(
    "members",
    [
        {"operation": "nothing"},
        {"arguments": None},
        {"arguments": [1]},
        {"arguments": "x"},
        {"arguments": {"text": 5}},
        {"arguments": {}},
        {"thread_ancestors": "s"},
        {"call_id": 7},
        {"user_id": []},
    ],
)
def test_a_bad_invocation_is_accepted_and_then_answered_by_an_error(served, inbox, members):
    provider, runtime = served()
    body = {"operation": "echo", "arguments": {"text": "x"}, "id": "c", "callback_url": inbox.url, "group_id": "s"}
    runtime.do("raw", url=f"{provider.url}/invoke", body=body | members)
    assert runtime.wait_for(event="raw")["status"] == 200
    answer = inbox.next()
    assert (answer["type"], answer["group_id"], answer["id"]) == ("tool_result", "s", "c")
    assert answer["text"].startswith("Error: ")
    if "operation" in members:
        assert "nothing" in answer["text"]


@pytest.mark.requirement("RAP-407")
@pytest.mark.parametrize("body", ["{", "[]", "\xef\xbb\xbf{}", '{"\xff": 1}', '{"id": "c", "group_id": "s"}', "7"])
def test_an_invocation_that_cannot_be_answered_is_refused(served, body):
    provider, runtime = served()
    runtime.do("raw", url=f"{provider.url}/invoke", body=body)
    reply = runtime.wait_for(event="raw")
    assert reply["status"] == 400
    assert "Traceback" not in reply["reply"]


@pytest.mark.requirement("RAP-411")
@pytest.mark.parametrize(("label", "status"), [("text/plain", 415), ("application/json; charset=utf-8", 200)])
def test_only_json_is_taken(served, inbox, label, status):
    provider, runtime = served()
    body = {"operation": "echo", "arguments": {"text": "x"}, "id": "c", "callback_url": inbox.url, "group_id": "s"}
    runtime.do("raw", url=f"{provider.url}/invoke", body=body, label=label)
    assert runtime.wait_for(event="raw")["status"] == status


@pytest.mark.requirement("RAP-286", "RAP-287", "RAP-303", "RAP-305")
@pytest.mark.parametrize("path", ["cancel_tool_call", "close_thread"])
@pytest.mark.parametrize("thread", ["s", "../../x", "nobody", "s' OR 1=1"])
def test_a_notice_about_anything_is_answered_alike(served, path, thread):
    provider, runtime = served()
    runtime.do("raw", url=f"{provider.url}/{path}", body={"thread_id": thread, "tool_call_id": "nobody"})
    reply = runtime.wait_for(event="raw")
    assert (reply["status"], reply["reply"]) == (200, "")


@pytest.mark.requirement("RAP-290", "RAP-307")
@pytest.mark.parametrize("path", ["invoke", "cancel_tool_call", "close_thread", "migrate"])
def test_a_caller_without_the_token_is_rejected(served, path):
    provider, runtime = served(BEARER=BEARER)
    runtime.do("raw", url=f"{provider.url}/{path}", body={}, headers={"Authorization": "Bearer no"})
    assert runtime.wait_for(event="raw")["status"] == 401
    echo_all(runtime, 1)


@pytest.mark.requirement("RAP-059", "RAP-403")
def test_the_same_ids_from_two_runtimes_are_two_calls(served, node_runtime):
    provider, one = served()
    other = node_runtime()
    other.do("discover", session="s", servers=[{"url": provider.url}])
    for runtime, text in ((one, "one"), (other, "other")):
        runtime.do("invoke", thread="s", id="c", tool="echo", arguments={"text": text})
    assert text_of(one.wait_for(event="result", id="c")) == "one"
    assert text_of(other.wait_for(event="result", id="c")) == "other"
