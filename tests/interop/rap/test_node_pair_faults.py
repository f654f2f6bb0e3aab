"""The two Node programs under faults: lost replies, duplicates, garbage, strangers, crashes."""

import json

import pytest

GOOD_TOOL = {"name": "good", "description": "fine", "inputSchema": {"type": "object"}}
GOOD = {"name": "set", "endpoint": "http://127.0.0.1:9/run", "tools": [GOOD_TOOL]}


def text_of(result):
    return "".join(item["text"] for item in result["model"] if item["type"] == "text")


def echo_all(runtime, count):
    """Make `count` calls in a few threads at once; every one must end in its own text, once."""
    for n in range(count):
        runtime.do("invoke", thread=f"s/{n % 3}", ancestors=["s"], id=f"e{n}", tool="echo", arguments={"text": f"t{n}"})
    for n in range(count):
        assert text_of(runtime.wait_for(event="result", id=f"e{n}")) == f"t{n}"


@pytest.mark.parametrize("fault", ["duplicate", "contradict", "delay", "reorder", "strangers", "lose-ack", "late-ack"])
def test_every_call_ends_once_in_its_own_result_whatever_the_provider_does(pair, fault):
    provider, runtime = pair(["--faults", fault])
    echo_all(runtime, 12)
    provider.wait_for(event="callback", type="tool_result", count=12)
    runtime.exactly(12, event="result")
    provider.exactly(12, event="run")


def test_garbage_is_refused_and_settles_nothing(pair):
    provider, runtime = pair(["--faults", "garbage"])
    echo_all(runtime, 2)
    provider.wait_for(event="callback", count=2)
    answers = {line["what"]: line["status"] for line in provider.reported(event="fault")}
    assert len(answers) > 20
    assert {what: status for what, status in answers.items() if not 400 <= status < 500} == {}
    runtime.exactly(2, event="result")


def test_strangers_are_answered_by_4xx_so_that_they_stop(pair):
    provider, runtime = pair(["--faults", "strangers"])
    echo_all(runtime, 1)
    provider.wait_for(event="callback")
    assert {line["status"] for line in provider.reported(event="fault")} == {404}
    assert runtime.reported(event="view") == []


def test_events_outside_of_their_subscription_are_dropped(pair):
    provider, runtime = pair(["--faults", "stray-events"])
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments={"bed": 1, "events": 3, "associative": True})
    provider.wait_for(event="fault", what="late event", status=410)
    provider.wait_for(event="fault", what="early event", status=404)
    runtime.wait_for(event="injected", count=3)
    assert [json.loads(line["text"])["n"] for line in runtime.reported(event="injected")] == [1, 2, 3]


def test_a_5xx_is_tried_again_with_the_same_call(pair):
    provider, runtime = pair(["--faults", "refuse-first"])
    echo_all(runtime, 3)
    runtime.exactly(3, event="attempt", status=503)
    provider.exactly(3, event="run")


@pytest.mark.parametrize("status", [202, 307, 400])
def test_only_200_takes_a_call_on_and_nothing_else_is_tried_again(pair, status):
    provider, runtime = pair(["--faults", f"answer-{status}"])
    runtime.do("invoke", thread="s", id="c", tool="list_beds")
    assert runtime.wait_for(event="result", id="c")["source"] == "dispatch"
    provider.exactly(1, event="answered", status=status)
    assert provider.reported(event="followed") == []


def test_a_notice_that_fails_is_neither_repeated_nor_waited_for(pair):
    provider, runtime = pair(["--faults", "deaf"])
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 60_000})
    runtime.wait_for(event="attempt", id="g", status=200)
    runtime.do("cancel", thread="s", id="g")
    assert runtime.wait_for(event="result", id="g")["source"] == "interrupted"
    runtime.wait_for(event="notice", status=500)
    echo_all(runtime, 6)
    provider.exactly(1, event="ignored")


def test_a_result_that_is_rejected_is_not_sent_again(pair):
    provider, runtime = pair(runtime_options=["--faults", "reject-results"])
    for n in range(12):
        runtime.do("invoke", thread="s", id=f"c{n}", tool="grow", arguments={"ms": 50 * n})
    provider.wait_for(event="callback", status=410, count=12)
    provider.exactly(12, event="callback")


def test_a_provider_that_vanished_gives_an_error_result(pair):
    provider, runtime = pair(runtime_options=["--attempts", "2"])
    provider.kill()
    runtime.do("invoke", thread="s", id="c", tool="list_beds")
    assert runtime.wait_for(event="result", id="c")["source"] == "dispatch"


@pytest.mark.parametrize("fault", ["refuse-first", "lose-reply", "invoke-twice"])
def test_every_call_ends_once_whatever_the_runtime_does(pair, fault):
    provider, runtime = pair(runtime_options=["--faults", fault])
    echo_all(runtime, 6)
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments={"bed": 1, "events": 3, "associative": True})
    runtime.wait_for(event="injected", id="w", final=True)
    runtime.exactly(7, event="result")
    provider.exactly(7, event="run")


@pytest.mark.soak
def test_everything_at_once_changes_no_result(pair):
    provider, runtime = pair(
        ["--faults", "duplicate,contradict,delay,reorder,garbage,strangers,lose-ack"],
        ["--faults", "refuse-first,lose-reply,invoke-twice"],
    )
    echo_all(runtime, 24)
    runtime.exactly(24, event="result")
    provider.exactly(24, event="run")


def test_a_crashed_provider_finishes_what_it_had_accepted(pair, node_provider, tmp_path):
    provider, runtime = pair(["--state", tmp_path / "p"])
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 400})
    watch = {"bed": 1, "events": 30, "every_ms": 20, "associative": True}
    runtime.do("invoke", thread="s", id="w", tool="watch", arguments=watch)
    runtime.wait_for(event="injected", id="w")
    provider.kill()
    node_provider("--state", tmp_path / "p", "--port", provider.port)
    assert text_of(runtime.wait_for(event="result", id="g")) == "grown after 400 ms"
    runtime.wait_for(event="injected", id="w", final=True)
    numbers = [json.loads(line["text"])["n"] for line in runtime.reported(event="injected")]
    assert sorted(set(numbers)) == list(range(1, 31))


def test_a_crashed_runtime_takes_up_its_calls_at_the_same_address(pair, node_runtime, tmp_path):
    provider, runtime = pair(runtime_options=["--state", tmp_path / "r"])
    runtime.do("invoke", thread="s", id="v", tool="open_valve", arguments={"minutes": 2}, consent=True)
    runtime.wait_for(event="choice", id="v")
    runtime.do("invoke", thread="s", id="g", tool="grow", arguments={"ms": 2000})  # it outlasts the kill, nearly always
    runtime.wait_for(event="attempt", id="g", status=200)
    runtime.kill()
    again = node_runtime("--state", tmp_path / "r")
    assert again.port == runtime.port
    again.do("choose", thread="s", id="v", selected=0)
    assert text_of(again.wait_for(event="result", id="v")) == "picked 0: Open for 2 minutes"
    again.do("history", thread="s")
    stored = {entry["id"]: entry for entry in again.wait_for(event="history")["entries"] if entry["role"] == "tool"}
    ended = {"model": stored["g"]["content"]} if "g" in stored else again.wait_for(event="result", id="g")
    assert text_of(ended) == "grown after 2000 ms"  # reported by the first one if all were stopped for so long
    provider.exactly(2, event="run")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"operation": "nothing"}, "Error: unknown operation"),
        ({"arguments": None}, "Error: malformed invocation"),
        ({"arguments": [1]}, "Error: malformed invocation"),
        ({"arguments": {"text": 5}}, "Error: arguments do not fit"),
        ({"thread_ancestors": "s"}, "Error: malformed invocation"),
    ],
)
def test_a_bad_invocation_is_accepted_and_then_answered_by_an_error(pair, inbox, members, words):
    provider, runtime = pair()
    call = {"operation": "echo", "arguments": {"text": "x"}, "id": "c", "callback_url": inbox.url, "group_id": "s"}
    runtime.do("raw", url=f"{provider.url}/rap/run", body=call | members)
    assert runtime.wait_for(event="raw")["status"] == 200
    assert inbox.next()["text"].startswith(words)


@pytest.mark.parametrize("body", ["{", "[]", "\xef\xbb\xbf{}", '{"\xff": 1}', '{"id": "c", "group_id": "s"}'])
def test_an_invocation_that_cannot_be_answered_is_refused(pair, body):
    provider, runtime = pair()
    runtime.do("raw", url=f"{provider.url}/rap/run", body=body)
    assert runtime.wait_for(event="raw")["status"] == 400
    assert provider.reported(event="run") == []


@pytest.mark.parametrize(
    "broken",
    [
        {"name": ""},
        {"name": "x" * 129},
        {"endpoint": "/run"},
        {"endpoint": "ftp://127.0.0.1/run"},
        {"tools": []},
        {"needsMigration": None},
        {"tools": [GOOD_TOOL, GOOD_TOOL]},
        {"tools": [GOOD_TOOL, GOOD_TOOL | {"name": "a b"}]},
        {"tools": [GOOD_TOOL, {"name": "x", "inputSchema": {"type": "object"}}]},
        {"tools": [GOOD_TOOL, GOOD_TOOL | {"name": "x", "inputSchema": True}]},
        {"tools": [GOOD_TOOL, GOOD_TOOL | {"name": "x", "inputSchema": {"type": 5}}]},
    ],
)
def test_one_fault_in_a_manifest_refuses_all_of_it(node_runtime, inbox, broken):
    runtime = node_runtime()
    inbox.manifest = GOOD | broken
    runtime.do("discover", session="s", servers=[{"url": inbox.url}])
    assert runtime.wait_for(event="tools")["names"] == []
    assert runtime.reported(event="toolset_refused")[0]["faults"]


def test_a_manifest_without_a_fault_is_taken(node_runtime, inbox):
    runtime = node_runtime()
    inbox.manifest = GOOD | {"x-extra": 1, "description": None}
    runtime.do("discover", session="s", servers=[{"url": inbox.url}])
    assert runtime.wait_for(event="tools")["names"] == ["good"]
