"""Repaired conversations: every call has one result where its API expects it, and repairing again changes nothing."""

import copy

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.call_output import outputs_of
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.adapters.function_calling.provider_format import unique_ids
from agenttool.adapters.function_calling.tool_payload import ProviderLimits, ToolRequestOptions, build_payload
from agenttool.records import ResultStatus, ToolResult, text_item
from agenttool.testing.replies import ModelCall, reply

IDS = ["a", "b", "call_1", None, "", 7]
TURNS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(["good", "broken", "nothing"])), max_size=3),
        st.lists(st.sampled_from([*IDS[:4], "stranger"]), max_size=3),
        st.booleans(),
    ),
    max_size=4,
)


def model_reply(provider, count=2, **fields):
    calls = [ModelCall(name=f"t{number}", arguments={}, call_id=f"call_{number}") for number in range(count)]
    payload = build_payload((), ProviderLimits(), ToolRequestOptions())
    return FORMATS[provider].read(reply(provider, *calls, **fields), payload)


def text_result(text):
    ids = {"result_id": "res_1", "invocation_id": "inv_1", "created_at": "2026-05-08T00:00:00Z"}
    return ToolResult(status=ResultStatus.SUCCEEDED, is_error=False, model_facing_content=(text_item(text),), **ids)


def call(provider, call_id, kind):
    arguments = {"good": {"x": 1}, "broken": "{", "nothing": None}[kind]
    match provider:
        case "openai":
            text = '{"x": 1}' if kind == "good" else arguments
            return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": text}}
        case "openai_responses":
            text = '{"x": 1}' if kind == "good" else arguments
            return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": text}
        case "anthropic":
            return {"type": "tool_use", "id": call_id, "name": "look", "input": arguments}
        case "gemini":
            return {"function_call": {"id": call_id, "name": "look", "args": arguments}}


def result(provider, call_id):
    match provider:
        case "openai":
            return {"role": "tool", "tool_call_id": call_id, "content": "done"}
        case "openai_responses":
            return {"type": "function_call_output", "call_id": call_id, "output": "done"}
        case "anthropic":
            return {"type": "tool_result", "tool_use_id": call_id, "content": "done"}
        case "gemini":
            return {"function_response": {"id": call_id, "name": "look", "response": {"output": "done"}}}


def conversation(provider, turns):
    """Write turns in the format of a provider, errors included."""
    messages = []
    for asked, answered, has_text in turns:
        calls = [call(provider, *each) for each in asked]
        results = [result(provider, each) for each in answered]
        match provider:
            case "openai":
                messages += [{"role": "assistant", "content": None, "tool_calls": calls}] if calls else []
                messages += results
                messages += [{"role": "user", "content": "go on"}] if has_text else []
            case "openai_responses":
                messages += [*calls, *results, *([{"role": "user", "content": "go on"}] if has_text else [])]
            case "anthropic":
                messages += [{"role": "assistant", "content": calls}] if calls else []
                texts = [{"type": "text", "text": "go on"}] if has_text else []
                messages += [{"role": "user", "content": [*results, *texts]}] if results or texts else []
            case "gemini":
                messages += [{"role": "model", "parts": calls}] if calls else []
                texts = [{"text": "go on"}] if has_text else []
                messages += [{"role": "user", "parts": [*results, *texts]}] if results or texts else []
    return messages


def open_calls(provider, messages):
    """Read a conversation as its API does; return the calls without a result and the results without a call."""
    match provider:
        case "openai_responses":
            asked = [each["call_id"] for each in messages if each.get("type") == "function_call"]
            answered = [each["call_id"] for each in messages if each.get("type") == "function_call_output"]
            return [each for each in asked if asked.count(each) > answered.count(each)], []
        case "openai":
            turns = [
                ([each["id"] for each in message.get("tool_calls", [])], [message["tool_call_id"]])
                if message["role"] == "tool"
                else ([each["id"] for each in message.get("tool_calls", [])], [])
                for message in messages
            ]
        case "anthropic":
            turns = [
                (
                    [each["id"] for each in message["content"] if each["type"] == "tool_use"],
                    [each["tool_use_id"] for each in message["content"] if each["type"] == "tool_result"],
                )
                for message in messages
            ]
        case "gemini":
            turns = [
                (
                    [each["function_call"].get("id") for each in message["parts"] if "function_call" in each],
                    [each["function_response"].get("id") for each in message["parts"] if "function_response" in each],
                )
                for message in messages
            ]
    waiting, lost, strangers = [], [], []
    for asked, answered in turns:
        for each in answered:
            (waiting.remove if each in waiting else strangers.append)(each)
        if provider != "openai" or not answered:
            lost += waiting
            waiting = list(asked)
    return lost + waiting, strangers


@pytest.mark.parametrize("provider", FORMATS)
@given(turns=TURNS)
def test_in_a_repaired_conversation_every_call_has_one_result_in_its_place(provider, turns):
    repaired = FORMATS[provider].repair(conversation(provider, turns))
    assert open_calls(provider, repaired) == ([], [])
    assert FORMATS[provider].repair(repaired) == repaired


@pytest.mark.parametrize("provider", FORMATS)
@given(turns=TURNS)
def test_repairing_loses_no_call_and_no_message(provider, turns):
    before = conversation(provider, turns)
    repaired = str(FORMATS[provider].repair(before))
    assert repaired.count("go on") == str(before).count("go on")
    assert repaired.count("'look'") >= sum(len(asked) for asked, _, _ in turns)


@pytest.mark.parametrize("provider", FORMATS)
def test_a_conversation_with_nothing_wrong_stays_as_it_is(provider):
    whole = conversation(
        provider, [([("a", "good"), ("b", "good")], ["a", "b"], True), ([("c", "good")], ["c"], False)]
    )
    assert FORMATS[provider].repair(whole) == whole


@pytest.mark.parametrize("provider", FORMATS)
def test_parallel_calls_with_one_id_get_unique_ids_and_one_result(provider):
    turns = [([("a", "good"), ("a", "broken"), (None, "nothing")], ["a"], False)]
    repaired = FORMATS[provider].repair(conversation(provider, turns))
    assert str(repaired).count("done") == 1
    assert str(repaired).count("the turn was interrupted") == 2


@pytest.mark.parametrize("provider", FORMATS)
def test_a_late_result_is_matched_with_its_call(provider):
    turns = [([("a", "good")], [], True), ([], ["a"], False)]
    repaired = str(FORMATS[provider].repair(conversation(provider, turns)))
    assert repaired.count("done") == 1
    assert "interrupted" not in repaired


@pytest.mark.parametrize("provider", FORMATS)
def test_an_id_that_is_used_again_in_a_later_turn_does_not_answer_the_earlier_call(provider):
    turns = [([("a", "good")], [], True), ([("a", "good")], ["a"], False)]
    repaired = str(FORMATS[provider].repair(conversation(provider, turns)))
    assert repaired.count("the turn was interrupted") == 1
    assert repaired.index("the turn was interrupted") < repaired.index("done")


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("rubbish", [None, 7, "text", [], {}, {"role": "user"}, {"role": "assistant", "tool_calls": 7}])
def test_what_is_no_message_stays_unchanged(provider, rubbish):
    assert FORMATS[provider].repair([rubbish]) in ([rubbish], [{"role": "assistant"}])


@given(st.lists(st.sampled_from([*IDS, "call_0", "call_2"])))
def test_ids_are_unique_and_unchanged_where_possible(given_ids):
    ids = unique_ids(given_ids)
    assert len(set(ids)) == len(ids) == len(given_ids)
    assert {each for each in given_ids if isinstance(each, str) and each} <= set(ids)


def test_gemini_results_without_an_id_match_the_next_calls_of_their_names():
    def spoken(*parts):
        return {"role": "model", "parts": [{"function_call": {"id": i, "name": n, "args": {}}} for i, n in parts]}

    def answered(*parts):
        return {"role": "user", "parts": [part.model_dump(exclude_none=True) for part in parts]}

    made = [
        types.Part.from_function_response(name="look", response={"output": "first"}),
        types.Part.from_function_response(name="smell", response={"output": "other"}),
        types.Part.from_function_response(name="look", response={"output": "second"}),
    ]
    repaired = FORMATS["gemini"].repair([spoken(("a", "look"), ("b", "look"), ("c", "smell")), answered(*made)])
    results = [part["function_response"] for part in repaired[1]["parts"]]
    assert [(each["id"], each["response"]["output"]) for each in results] == [
        ("a", "first"),
        ("b", "second"),
        ("c", "other"),
    ]


@pytest.mark.parametrize("name", [None, "", 7, {}])
def test_a_gemini_call_without_a_name_and_its_result_get_one(name):
    texts = {"role": "model", "parts": [{"function_call": {"id": "a", "name": name, "args": {}}}]}
    repaired = FORMATS["gemini"].repair([texts])
    assert repaired[0]["parts"][0]["function_call"]["name"] == "unknown"
    assert repaired[1]["parts"][0]["function_response"]["name"] == "unknown"
    types.Content.model_validate(repaired[0])
    types.Content.model_validate(repaired[1])


@pytest.mark.parametrize("provider", FORMATS)
def test_repairing_adds_missing_results_and_changes_nothing_else(provider):
    repair, write = FORMATS[provider].repair, FORMATS[provider].write
    read = model_reply(provider)
    answers = outputs_of(read.calls, [text_result("one"), text_result("two")], {})
    whole = [*read.echo, *write(answers), *model_reply(provider, 0, text="Done.").echo]
    assert repair(whole) == whole
    interrupted = [*read.echo, *model_reply(provider, 0, text="Where were we?").echo]
    before = copy.deepcopy(interrupted)
    repaired = repair(interrupted)
    assert interrupted == before
    assert str(repaired).count("the turn was interrupted") == 2
    assert repair(repaired) == repaired
    assert (repaired[: len(read.echo)], repaired[-1]) == (list(read.echo), interrupted[-1])


@pytest.mark.parametrize("provider", FORMATS)
def test_repairing_a_partly_answered_turn_adds_the_missing_result_last(provider):
    repair, write = FORMATS[provider].repair, FORMATS[provider].write
    read = model_reply(provider)
    first = outputs_of(read.calls, [text_result("one")], {})[:1]
    repaired = str(repair([*read.echo, *write(first)]))
    assert repaired.count("the turn was interrupted") == 1
    assert repaired.index("'one'") < repaired.index("the turn was interrupted")


def test_a_user_message_after_an_interruption_is_merged_with_the_results():
    read = model_reply("anthropic")
    (_, message) = FORMATS["anthropic"].repair([*read.echo, {"role": "user", "content": "Stop that."}])
    assert [each["type"] for each in message["content"]] == ["tool_result", "tool_result", "text"]
    assert message["content"][-1] == {"type": "text", "text": "Stop that."}
