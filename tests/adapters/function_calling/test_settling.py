"""The law of settled conversations: every call has one result where its API wants it, and settling again changes none."""

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.adapters.function_calling.settling import own_ids

IDS = ["a", "b", "call_1", None, "", 7]
turns = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(["good", "broken", "nothing"])), max_size=3),
        st.lists(st.sampled_from([*IDS[:4], "stranger"]), max_size=3),
        st.booleans(),
    ),
    max_size=4,
)


def call(provider, call_id, kind):
    arguments = {"good": {"x": 1}, "broken": "{", "nothing": None}[kind]
    match provider:
        case "openai":
            spelled = '{"x": 1}' if kind == "good" else arguments
            return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": spelled}}
        case "openai_responses":
            spelled = '{"x": 1}' if kind == "good" else arguments
            return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": spelled}
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


def conversation(provider, told):
    """Write what was told in the words of a provider, with whatever is wrong with it."""
    messages = []
    for asked, answered, is_said in told:
        calls = [call(provider, *each) for each in asked]
        results = [result(provider, each) for each in answered]
        match provider:
            case "openai":
                messages += [{"role": "assistant", "content": None, "tool_calls": calls}] if calls else []
                messages += results
                messages += [{"role": "user", "content": "go on"}] if is_said else []
            case "openai_responses":
                messages += [*calls, *results, *([{"role": "user", "content": "go on"}] if is_said else [])]
            case "anthropic":
                messages += [{"role": "assistant", "content": calls}] if calls else []
                said = [{"type": "text", "text": "go on"}] if is_said else []
                messages += [{"role": "user", "content": [*results, *said]}] if results or said else []
            case "gemini":
                messages += [{"role": "model", "parts": calls}] if calls else []
                said = [{"text": "go on"}] if is_said else []
                messages += [{"role": "user", "parts": [*results, *said]}] if results or said else []
    return messages


def open_calls(provider, messages):
    """Go through a conversation as its API does; give the calls without a result, and the results without a call."""
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
@given(told=turns)
def test_in_a_settled_conversation_every_call_has_one_result_in_its_place(provider, told):
    settled = FORMATS[provider].settle(conversation(provider, told))
    assert open_calls(provider, settled) == ([], [])
    assert FORMATS[provider].settle(settled) == settled


@pytest.mark.parametrize("provider", FORMATS)
@given(told=turns)
def test_settling_loses_no_call_and_nothing_that_anybody_said(provider, told):
    before = conversation(provider, told)
    settled = str(FORMATS[provider].settle(before))
    assert settled.count("go on") == str(before).count("go on")
    assert settled.count("'look'") >= sum(len(asked) for asked, _, _ in told)


@pytest.mark.parametrize("provider", FORMATS)
def test_a_conversation_with_nothing_wrong_stays_as_it_is(provider):
    whole = conversation(
        provider, [([("a", "good"), ("b", "good")], ["a", "b"], True), ([("c", "good")], ["c"], False)]
    )
    assert FORMATS[provider].settle(whole) == whole


@pytest.mark.parametrize("provider", FORMATS)
def test_of_parallel_calls_with_one_id_each_keeps_the_result_that_came_for_it(provider):
    told = [([("a", "good"), ("a", "broken"), (None, "nothing")], ["a"], False)]
    settled = FORMATS[provider].settle(conversation(provider, told))
    assert str(settled).count("done") == 1
    assert str(settled).count("the turn was interrupted") == 2


@pytest.mark.parametrize("provider", FORMATS)
def test_a_result_that_came_late_is_not_told_to_have_been_interrupted(provider):
    told = [([("a", "good")], [], True), ([], ["a"], False)]
    settled = str(FORMATS[provider].settle(conversation(provider, told)))
    assert settled.count("done") == 1
    assert "interrupted" not in settled


@pytest.mark.parametrize("provider", FORMATS)
def test_an_id_that_is_used_again_in_a_later_turn_does_not_answer_the_earlier_call(provider):
    told = [([("a", "good")], [], True), ([("a", "good")], ["a"], False)]
    settled = str(FORMATS[provider].settle(conversation(provider, told)))
    assert settled.count("the turn was interrupted") == 1
    assert settled.index("the turn was interrupted") < settled.index("done")


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("rubbish", [None, 7, "text", [], {}, {"role": "user"}, {"role": "assistant", "tool_calls": 7}])
def test_what_is_no_message_stays_for_the_api_to_judge(provider, rubbish):
    assert FORMATS[provider].settle([rubbish]) in ([rubbish], [{"role": "assistant"}])


@given(st.lists(st.sampled_from([*IDS, "call_0", "call_2"])))
def test_ids_are_kept_where_they_can_be_and_no_two_are_alike(given_ids):
    ids = own_ids(given_ids)
    assert len(set(ids)) == len(ids) == len(given_ids)
    assert {each for each in given_ids if isinstance(each, str) and each} <= set(ids)


def test_results_that_the_sdk_of_gemini_made_without_an_id_are_those_of_the_next_calls_of_their_names():
    def spoken(*parts):
        return {"role": "model", "parts": [{"function_call": {"id": i, "name": n, "args": {}}} for i, n in parts]}

    def answered(*parts):
        return {"role": "user", "parts": [part.model_dump(exclude_none=True) for part in parts]}

    made = [
        types.Part.from_function_response(name="look", response={"output": "first"}),
        types.Part.from_function_response(name="smell", response={"output": "other"}),
        types.Part.from_function_response(name="look", response={"output": "second"}),
    ]
    settled = FORMATS["gemini"].settle([spoken(("a", "look"), ("b", "look"), ("c", "smell")), answered(*made)])
    results = [part["function_response"] for part in settled[1]["parts"]]
    assert [(each["id"], each["response"]["output"]) for each in results] == [
        ("a", "first"),
        ("b", "second"),
        ("c", "other"),
    ]


@pytest.mark.parametrize("name", [None, "", 7, {}])
def test_a_call_of_gemini_without_a_name_is_repeated_with_one_and_so_is_its_result(name):
    said = {"role": "model", "parts": [{"function_call": {"id": "a", "name": name, "args": {}}}]}
    settled = FORMATS["gemini"].settle([said])
    assert settled[0]["parts"][0]["function_call"]["name"] == "unknown"
    assert settled[1]["parts"][0]["function_response"]["name"] == "unknown"
    types.Content.model_validate(settled[0])
    types.Content.model_validate(settled[1])
