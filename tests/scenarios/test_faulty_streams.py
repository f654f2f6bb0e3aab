"""Streams of servers that repeat indexes, change ids or leave out parts: a call runs as it was sent, or not at all."""

import json

import pytest

from agenttool import Runtime, tool
from agenttool.errors import ReplyError
from agenttool.providers import IncompleteReplyError

A, B = {"target": "/srv/a"}, {"target": "/srv/b"}
WRITTEN_A, WRITTEN_B = json.dumps(A), json.dumps(B)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def answer(ran):
    """Return a function that answers a reply or a stream; its tool records each target that it removes."""

    @tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
    async def remove(target: str = "/") -> str:
        """Remove a target. Not for prices."""
        ran.append(target)
        return f"removed {target}"

    async def run(provider, received, **options):
        async with Runtime.open(tools=[remove]) as rt:
            return await (await rt.tools_for(provider)).answer(received, **options)

    return run


def part(index=None, own=None, name=None, arguments=None):
    function = {"name": name, "arguments": arguments}
    whole = {"index": index, "id": own, "function": {key: each for key, each in function.items() if each is not None}}
    return {key: each for key, each in whole.items() if each is not None}


def chunks(*deltas, reason="tool_calls"):
    choices = [{"index": 0, "delta": {"tool_calls": [each]} if "function" in each else each} for each in deltas]
    return [{"choices": [each]} for each in (*choices, {"index": 0, "delta": {}, "finish_reason": reason})]


def echoed(turn):
    """Return the arguments of the calls as the next request repeats them."""
    [message] = turn.reply_messages
    calls = [json.loads(each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    return calls or [each["input"] for each in message["content"] if each["type"] == "tool_use"]


@pytest.mark.parametrize(
    "parts",
    [
        [part(0, "a", "remove"), part(0, "b", arguments=WRITTEN_A[:5]), part(0, "c", arguments=WRITTEN_A[5:])],
        [part(0, None, "remove", ""), part(0, "a", arguments=WRITTEN_A)],
        [part(0, "a", arguments=WRITTEN_A), part(0, None, "remove")],
    ],
    ids=["another id in each part", "the id after the name", "the name after the arguments"],
)
async def test_the_index_of_a_streamed_call_is_its_identity(answer, ran, parts):
    turn = await answer("openai", chunks(*parts))
    assert (ran, echoed(turn), turn.calls[0].native_call_id) == ([A["target"]], [A], "a")


async def test_complete_calls_that_share_an_index_run_each_with_its_arguments(answer, ran):
    parts = [part(0, "a", "remove", WRITTEN_A), part(0, "b", "remove"), part(0, arguments=WRITTEN_B)]
    turn = await answer("openai", chunks(*parts))
    assert (sorted(ran), echoed(turn)) == (["/srv/a", "/srv/b"], [A, B])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            [
                part(0, "a", "remove", ""),
                part(0, "b", "remove", ""),
                part(0, "a", arguments=WRITTEN_A),
                part(0, "b", arguments=WRITTEN_B),
            ],
            "a call at the index 0 before the call there is complete",
        ),
        ([part(0, "a", "remove", WRITTEN_A), part(0, "b", "remove", "")], "one of them without arguments"),
        ([part(0, "a", "remove"), part(1, arguments=WRITTEN_A)], "a call without a name at the index 1"),
        ([part(0, "a", "remove"), part(arguments=WRITTEN_A)], "a call without a name at the index None"),
    ],
)
async def test_pieces_that_may_belong_to_another_call_are_an_error_and_no_call_runs(answer, ran, parts, words):
    with pytest.raises(ReplyError, match=f"the stream has .*{words}; request no stream"):
        await answer("openai", chunks(*parts))
    assert ran == []


@pytest.mark.parametrize("index", [[0], {"at": 0}])
@pytest.mark.parametrize("provider", ["openai", "anthropic", "openai_responses"])
async def test_an_index_that_is_no_number_is_an_error_and_no_call_runs(answer, ran, provider, index):
    events = {
        "openai": chunks({"role": "assistant"}, part(index, "a", "remove", WRITTEN_A)),
        "anthropic": [START, start(index, "a"), piece(index, WRITTEN_A), stop(index), END],
        "openai_responses": [
            {"type": "response.created", "response": {"object": "response", "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": index, "item": item("a", "")},
            completed(FIRST),
        ],
    }
    with pytest.raises(ReplyError, match=r"a piece at the index .*, which is no number; request no stream"):
        await answer(provider, events[provider])
    assert ran == []


START = {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": []}}
END = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}


def start(index, own=None):
    call = {"type": "tool_use", "id": own, "name": "remove", "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": call if own else {"type": "text"}}


def piece(index, written, kind="input_json_delta", key="partial_json"):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: written}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


async def test_blocks_that_share_an_index_run_each_with_its_arguments(answer, ran):
    texts = [start(0), piece(0, "Let me look.", "text_delta", "text"), stop(0)]
    calls = [[start(0, own), piece(0, written), stop(0)] for own, written in (("a", WRITTEN_A), ("b", WRITTEN_B))]
    turn = await answer("anthropic", [START, *texts, *calls[0], *calls[1], END])
    assert (sorted(ran), echoed(turn), turn.text) == (["/srv/a", "/srv/b"], [A, B], "Let me look.")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([start(0, "a"), start(0, "b"), piece(0, WRITTEN_A), stop(0), END], "before the block there has stopped"),
        ([start(0, "a"), stop(0), start(1), piece(0, WRITTEN_A), stop(1), END], "where no block is open"),
        ([start(0, "a"), stop(0), END, piece(0, WRITTEN_A)], "where no block is open"),
        ([start(0, "a"), piece(1, WRITTEN_A), stop(0), END], "where no block is open"),
        ([start(0), stop(0), END, start(1, "a")], "ended before the reply was complete"),
    ],
)
async def test_a_piece_of_no_open_block_is_an_error_and_no_call_runs(answer, ran, events, words):
    with pytest.raises(ReplyError, match=words):
        await answer("anthropic", [START, *events])
    assert ran == []


def item(own, written, **more):
    return {"type": "function_call", "id": f"fc_{own}", "call_id": own, "name": "remove", "arguments": written, **more}


def done(index, each):
    return {"type": "response.output_item.done", "output_index": index, "item": each}


def completed(*output):
    return {"type": "response.completed", "response": {"object": "response", "status": "completed", "output": output}}


FIRST, SECOND = item("a", WRITTEN_A), item("b", WRITTEN_B)
REASONING = {"type": "reasoning", "id": "rs", "summary": []}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([done(0, item("a", "")), completed(FIRST)], [FIRST]),
        ([done(0, item("a", "", status="in_progress")), completed(FIRST)], [FIRST]),
        ([done(0, FIRST), completed(item("a", ""))], [FIRST]),
        ([done(0, FIRST), completed()], [FIRST]),
        ([done(1, FIRST), completed(FIRST)], [FIRST]),
        ([done(1, FIRST), done(2, SECOND), completed(FIRST, SECOND)], [FIRST, SECOND]),
        ([done(0, FIRST), done(0, SECOND), completed(FIRST, SECOND)], [FIRST, SECOND]),
        ([done(0, FIRST), done(1, FIRST), completed(FIRST)], [FIRST]),
        ([done(0, FIRST), done(1, {**FIRST, "id": "fc_other"}), completed(FIRST)], [FIRST]),
        ([done(0, FIRST), completed(FIRST, FIRST)], [FIRST]),
        ([completed(FIRST, FIRST, SECOND)], [FIRST, SECOND]),
        ([done(0, item("a", "")), completed({**FIRST, "id": "fc_other"})], [{**FIRST, "id": "fc_other"}]),
        ([done(0, FIRST), completed(SECOND, FIRST)], [FIRST, SECOND]),
        ([done(1, FIRST), completed(REASONING, FIRST)], [REASONING, FIRST]),
        ([done(0, REASONING), done(1, FIRST), completed(FIRST)], [REASONING, FIRST]),
        ([done(0, FIRST), completed(item("other", '{"target":"/srv/a"}'))], [FIRST]),
    ],
)
async def test_each_call_of_a_response_runs_once_with_the_arguments_that_were_sent(answer, ran, events, expected):
    turn = await answer("openai_responses", events)
    calls = [json.loads(each["arguments"])["target"] for each in expected if "arguments" in each]
    assert (sorted(ran), list(turn.reply_messages)) == (calls, expected)


async def test_calls_of_a_streamed_response_with_one_call_id_and_other_arguments_run_both(answer, ran):
    other = {**SECOND, "call_id": "a"}
    turn = await answer("openai_responses", [done(0, FIRST), done(1, other), completed(FIRST, other)])
    assert sorted(ran) == ["/srv/a", "/srv/b"]
    assert len({each["call_id"] for each in turn.reply_messages}) == 2


async def test_a_call_that_changes_after_it_has_started_is_an_error_with_the_result_of_what_ran(answer, ran):
    with pytest.raises(IncompleteReplyError, match="changed a call after it was complete") as raised:
        await answer("openai_responses", [done(0, FIRST), completed(item("a", WRITTEN_B))])
    assert (ran, list(raised.value.turn.reply_messages)) == (["/srv/a"], [FIRST])


@pytest.mark.parametrize("last", [(), (item("a", ""),)], ids=["no item", "no arguments"])
@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": WRITTEN_A},
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": WRITTEN_A},
    ],
)
async def test_arguments_that_the_complete_response_lacks_are_an_error_and_no_final_reply(answer, ran, event, last):
    with pytest.raises(ReplyError, match="arguments of a call that the complete response lacks"):
        await answer("openai_responses", [event, completed(*last)])
    assert ran == []


@pytest.mark.parametrize("more", [{"thoughtSignature": "S"}, {"thought_signature": "S"}, {"text": ""}, {"text": "Hi."}])
async def test_an_unknown_member_of_a_gemini_part_is_an_error_whatever_stands_beside_it(answer, more):
    candidate = {"content": {"role": "model", "parts": [{"a_call_of_tomorrow": {"id": 1}, **more}]}}
    whole = {"candidates": [{**candidate, "finishReason": "STOP"}]}
    for received in (whole, [whole]):
        with pytest.raises(ReplyError, match=r"received a part .*a_call_of_tomorrow.*cannot answer"):
            await answer("gemini", received)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_type_of_an_item_that_is_no_text_is_an_error(answer, is_stream):
    whole = {"object": "response", "status": "completed", "output": [{"type": ["message"], "id": "m"}]}
    end = {"type": "response.completed", "response": whole}
    with pytest.raises(ReplyError, match=r"received a part of the type \['message'\], which agenttool cannot answer"):
        await answer("openai_responses", [end] if is_stream else whole)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("reason", ["tool_calls", "function_call"])
async def test_a_reply_that_ended_with_calls_and_has_none_is_an_error(answer, provider, reason, is_stream):
    message = {"role": "assistant", "content": "Let me look."}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    events = chunks(message, reason=reason)
    if provider == "anthropic":
        reason = "tool_use"
        whole = {"type": "message", "role": "assistant", "content": [], "stop_reason": reason}
        events = [START, END]
    with pytest.raises(ReplyError, match=f"ended with the reason '{reason}', but it has no calls"):
        await answer(provider, events if is_stream else whole)


@pytest.mark.parametrize("before", [[], [{"choices": []}]], ids=["first", "after a chunk without choices"])
@pytest.mark.parametrize("reason", ["tool_calls", "stop"])
async def test_a_complete_completion_as_an_event_of_a_stream_is_reported_as_such(answer, ran, before, reason):
    calls = [part(None, "a", "remove", WRITTEN_A)] if reason == "tool_calls" else None
    message = {"role": "assistant", "content": "Hi.", "tool_calls": calls}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    with pytest.raises(ReplyError, match=r"received a complete reply .*request no stream from this server"):
        await answer("openai", [*before, whole])
    assert ran == []


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
async def test_a_complete_reply_as_an_event_of_a_stream_is_reported_as_such(answer, provider):
    whole = {
        "anthropic": {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
        "openai_responses": {"object": "response", "status": "completed", "output": []},
    }
    with pytest.raises(ReplyError, match=r"received a complete reply of .*; pass the reply itself"):
        await answer(provider, [whole[provider]])


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_function_call_beside_tool_calls_is_an_error_and_no_call_runs(answer, ran, is_stream):
    call = {"id": "a", "type": "function", "function": {"name": "remove", "arguments": WRITTEN_A}}
    older = {"name": "remove", "arguments": WRITTEN_B}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "function_call": older}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    with pytest.raises(ReplyError, match="received a `function_call`"):
        await answer("openai", chunks(message) if is_stream else whole)
    assert ran == []


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_gemini_call_with_arguments_in_pieces_names_the_option_to_leave_off(answer, ran, is_stream):
    pieces = [{"jsonPath": "$.target", "stringValue": "/srv/a"}]
    parts = [{"functionCall": {"name": "remove", "partialArgs": pieces, "willContinue": True}}]
    whole = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    with pytest.raises(ReplyError, match="leave stream_function_call_arguments off"):
        await answer("gemini", [whole] if is_stream else whole)
    assert ran == []


@pytest.mark.parametrize("is_stream", [False, True])
async def test_content_in_parts_is_text_and_is_repeated_as_it_came(answer, is_stream):
    parts = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "7."},
    ]
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}]}
    events = chunks({"content": ""}, {"content": parts[:2]}, {"content": "7."}, reason="stop")
    pieces = []
    turn = await answer("openai", events if is_stream else whole, on_text=pieces.append)
    assert (turn.text, "".join(pieces), turn.is_final) == ("It is 7.", "It is 7.", True)
    assert turn.messages == [{"role": "assistant", "content": parts}]


async def test_arguments_that_ran_from_their_text_are_repeated_as_an_object(answer, ran):
    parts = [{"functionCall": {"name": "remove", "args": WRITTEN_A}}]
    whole = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    turn = await answer("gemini", whole)
    assert turn.reply_messages[0]["parts"][0]["function_call"]["args"] == A
    block = {"type": "tool_use", "id": "a", "name": "remove", "input": WRITTEN_A}
    message = {"type": "message", "role": "assistant", "content": [block], "stop_reason": "tool_use"}
    turn = await answer("anthropic", message)
    assert (echoed(turn), ran) == ([A], ["/srv/a", "/srv/a"])
