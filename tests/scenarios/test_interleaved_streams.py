"""Streams that interleave the parts of a reply, and parts with members and types that agenttool does not know."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Runtime, tool
from agenttool.errors import ReplyError
from agenttool.providers import IncompleteReplyError
from agenttool.testing.replies import ModelCall, reply, stream

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
SIGNATURE = {"extra_content": {"google": {"thought_signature": "c2lnbmVk", "parts": [1, None]}}, "rank": 3}


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def remove(target: str = "/", depth: int = 0) -> str:
    """Remove a target. Not for prices."""
    return f"{target} {depth}"


def pieces(data, text):
    """Cut a text at places that hypothesis chooses."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def interleaved(data, groups):
    """Merge groups of events at random; the order within a group stays."""
    order = data.draw(st.permutations([place for place, group in enumerate(groups) for _ in group]))
    rest = [iter(group) for group in groups]
    return [next(rest[place]) for place in order]


def completion(data, calls, text):
    written = [
        {"id": each.call_id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}, **more}
        for each, more in calls
    ]
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": written} if written else {})
    reason = "tool_calls" if written else "stop"
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    groups = [[{"content": piece} for piece in pieces(data, text)]]
    for place, (each, more) in enumerate(calls):
        start = {"index": place, "id": each.call_id, "type": "function", "function": {"name": each.name}}
        inner = [{"index": place, "function": {"arguments": piece}} for piece in pieces(data, each.arguments)]
        groups.append(
            [{"tool_calls": [part]} for part in (start, *interleaved(data, [inner, [{"index": place} | more]]))]
        )
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in interleaved(data, groups)]
    choices += [{"index": 0, "delta": {}, "finish_reason": reason}]
    return whole, [{"choices": [{"index": 1, "delta": {"content": "other"}}, each]} for each in choices]


def response(data, calls, text):
    part = {"type": "output_text", "text": text, "annotations": [], **SIGNATURE}
    output = [{"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}] if text else []
    for each, more in calls:
        item = {"type": "function_call", "call_id": each.call_id, "name": each.name, "arguments": each.arguments}
        output.append({**item, **more})
    groups = []
    for place, item in enumerate(output):
        at, written = {"output_index": place}, item.get("arguments", text)
        kind = "function_call_arguments" if "arguments" in item else "output_text"
        bare = {**item, **({"arguments": ""} if "arguments" in item else {"content": []})}
        groups.append(
            [
                {"type": "response.output_item.added", **at, "item": bare},
                *({"type": f"response.{kind}.delta", **at, "delta": piece} for piece in pieces(data, written)),
                {"type": "response.output_item.done", **at, "item": item},
            ]
        )
    whole = {"object": "response", "status": "completed", "output": output}
    created = {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    return whole, [created, *interleaved(data, groups), {"type": "response.completed", "response": whole}]


def message(data, calls, text):
    blocks = [{"type": "text", "text": text, **SIGNATURE}] if text else []
    blocks += [
        {"type": "tool_use", "id": each.call_id, "name": each.name, "input": json.loads(each.arguments or "{}"), **more}
        for each, more in calls
    ]
    groups = []
    for place, block in enumerate(blocks):
        is_text = block["type"] == "text"
        start = {**block, **({"text": ""} if is_text else {"input": {}})}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(data, text)]
        if not is_text:
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(data, written)]
        groups.append(
            [
                {"type": "content_block_start", "index": place, "content_block": start},
                *({"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas),
                {"type": "content_block_stop", "index": place},
            ]
        )
    reason = "tool_use" if calls else "end_turn"
    whole = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": reason}
    start = {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    end = {"type": "message_delta", "delta": {"stop_reason": reason}}
    return whole, [start, *interleaved(data, groups), end, {"type": "message_stop"}]


def candidates(data, calls, text):
    parts = [{"text": text}] if text else []
    for each, more in calls:
        call = {"name": each.name, "args": json.loads(each.arguments or "{}"), "id": each.call_id}
        parts.append({"functionCall": {**call, **more}, **more})
    sent = [{"text": piece} for piece in pieces(data, text) if piece] + [each for each in parts if "text" not in each]
    own = [{"index": 0, "content": {"role": "model", "parts": [part]}} for part in sent]
    other = [{"index": 1, "content": {"role": "model", "parts": [{"functionCall": {"name": "remove"}}]}}] * 2
    chunks = [{"candidates": [each], "responseId": "r"} for each in interleaved(data, [own, other])]
    end = {"index": 0, "finishReason": "STOP"}
    content = {"role": "model", "parts": parts}
    whole = {"candidates": [{**other[0], "finishReason": "STOP"}, {**end, "content": content}], "responseId": "r"}
    return whole, [*chunks, {"candidates": [end], "responseId": "r"}]


WRITE = {"openai": completion, "openai_responses": response, "anthropic": message, "gemini": candidates}
ARGUMENTS = st.sampled_from([
    "", "{}", '{"target": "/srv/a"}', '{"target": "/srv/b", "depth": 2}', '{"depth": [1, {"a": "}{"}]}'
])  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
@given(
    data=st.data(),
    arguments=st.lists(st.tuples(ARGUMENTS, st.sampled_from([{}, SIGNATURE])), max_size=4),
    text=st.sampled_from(["", "Let me look."]),
)
def test_an_interleaved_stream_is_answered_like_the_complete_reply(provider, data, arguments, text):
    calls = [
        (ModelCall(name="remove", arguments=written, call_id=f"call_{place}"), more)
        for place, (written, more) in enumerate(arguments)
    ]
    whole, events = WRITE[provider](data, calls, text)

    async def run():
        async with Runtime.open(tools=[remove]) as rt:
            tools = await rt.tools_for(provider)
            return await tools.answer(whole), await tools.answer(iter(events))

    complete, streamed = asyncio.run(run())
    assert streamed.calls == complete.calls
    assert streamed.messages == complete.messages
    assert (streamed.text, streamed.is_final, streamed.is_cut) == (text, not calls, False)
    assert [each.status for each in streamed.results] == [each.status for each in complete.results]


async def test_a_call_whose_arguments_arrive_after_the_start_of_the_next_call_runs_with_them():
    parts = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "remove", "arguments": ""}},
        {"index": 1, "id": "call_2", "type": "function", "function": {"name": "remove", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"target": "/srv/a"}'}},
        {"index": 1, "function": {"arguments": '{"target": "/srv/b"}'}},
    ]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]} for part in parts]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    async with Runtime.open(tools=[remove]) as rt:
        turn = await (await rt.tools_for("openai")).answer(events)
    assert [each.text for each in turn.results] == ["/srv/a 0", "/srv/b 0"]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_no_call_of_an_interleaved_stream_that_was_cut_off_runs_with_its_defaults(reason):
    parts = [
        {"index": place, "id": f"call_{place}", "type": "function", "function": {"name": "remove"}} for place in (0, 1)
    ]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]} for part in parts]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    async with Runtime.open(tools=[remove]) as rt:
        turn = await (await rt.tools_for("openai")).answer(events)
    assert [each.is_error for each in turn.results] == [True, True]
    assert all("was cut off" in each.text for each in turn.results)


async def test_a_block_that_a_limit_stopped_before_its_first_argument_does_not_run():
    asked = [ModelCall(name="remove", arguments={"target": "/srv/a"}, call_id=f"call_{place}") for place in (0, 1)]
    events = stream("anthropic", *asked, cut_off=True)
    starts = [each for each in events if each["type"] == "content_block_start"]
    stops = [each for each in events if each["type"] == "content_block_stop"]
    async with Runtime.open(tools=[remove]) as rt:
        tools = await rt.tools_for("anthropic")
        turn = await tools.answer([events[0], *starts, *stops, *events[-2:]])
        assert ["was cut off" in each.text for each in turn.results] == [True, True]
        with pytest.raises(ReplyError, match="ended before the reply was complete"):
            await tools.answer([events[0], *starts, stops[0], *events[-2:]])


def with_member(provider, more):
    """Write a reply with one call, whose part has another member."""
    whole = reply(provider, ModelCall(name="remove", arguments={}, call_id="call_1"))
    parts = {
        "openai": lambda: whole["choices"][0]["message"]["tool_calls"],
        "openai_responses": lambda: whole["output"],
        "anthropic": lambda: whole["content"],
        "gemini": lambda: whole["candidates"][0]["content"]["parts"],
    }[provider]()
    parts[0] |= more
    return whole, parts[0]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_next_request_repeats_members_of_a_call_that_agenttool_does_not_know(provider):
    whole, part = with_member(provider, SIGNATURE)
    if provider == "openai":
        part["function"] |= {"provider_note": {"a": 1}}
    async with Runtime.open(tools=[remove]) as rt:
        tools = await rt.tools_for(provider)
        turn = await tools.answer(whole)
        repeated = turn.reply_messages[0]
        inner = repeated.get("tool_calls") or repeated.get("content") or repeated.get("parts") or [repeated]
        assert inner == [part]
        assert tools.repair(turn.messages) == turn.messages


async def test_members_that_a_stream_sends_in_pieces_are_repeated_whole():
    deltas = [
        {"reasoning_content": "It is ", "reasoning_details": [{"index": 0, "text": "It is "}]},
        {"reasoning_content": "is.", "reasoning_details": [{"index": 0, "text": "is."}]},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "remove"}, "e": {"s": "ab"}}]},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"arguments": "{}"}, "e": {"s": "ab"}}]},
    ]  # fmt: skip
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    async with Runtime.open(tools=[remove]) as rt:
        turn = await (await rt.tools_for("openai")).answer(events)
    call = {"id": "call_1", "type": "function", "function": {"name": "remove", "arguments": "{}"}, "e": {"s": "abab"}}
    details = [{"index": 0, "text": "It is "}, {"index": 0, "text": "is."}]
    expected = {"reasoning_content": "It is is.", "reasoning_details": details, "tool_calls": [call]}
    assert turn.reply_messages == ({"role": "assistant", "content": None, **expected},)


UNHANDLED = [
    ("openai_responses", {"type": "computer_call", "call_id": "c", "id": "i", "status": "completed"}),
    ("openai_responses", {"type": "custom_tool_call", "call_id": "c", "name": "remove", "input": "x"}),
    ("openai_responses", {"type": "mcp_approval_request", "id": "i", "name": "n", "arguments": "{}"}),
    ("openai_responses", {"type": "shell_call", "call_id": "c", "environment": {"type": "local"}}),
    ("openai_responses", {"type": "a_call_of_tomorrow", "call_id": "c"}),
    ("anthropic", {"type": "a_block_of_tomorrow", "id": "i"}),
    ("gemini", {"a_part_of_tomorrow": {"id": "i"}}),
]


def with_part(provider, part, *calls):
    """Write a reply with calls and then another part, and its stream."""
    whole, events = reply(provider, *calls), stream(provider, *calls)
    match provider:
        case "openai_responses":
            whole["output"].append(part)
            added = [{"type": "response.output_item.done", "output_index": len(calls), "item": part}]
            events = [*events[:-1], *added, {**events[-1], "response": whole}]
        case "anthropic":
            whole["content"].append(part)
            added = [
                {"type": "content_block_start", "index": len(calls), "content_block": part},
                {"type": "content_block_stop", "index": len(calls)},
            ]
            events = [*events[:-2], *added, *events[-2:]]
        case "gemini":
            whole["candidates"][0]["content"]["parts"].append(part)
            events.insert(-1, {"candidates": [{"content": {"role": "model", "parts": [part]}}]})
    return whole, events


@pytest.mark.parametrize(("provider", "part"), UNHANDLED)
async def test_a_part_that_only_the_program_can_answer_is_an_error_and_no_final_reply(provider, part):
    whole, events = with_part(provider, part)
    called, late = with_part(provider, part, ModelCall(name="remove", arguments={}, call_id="call_1"))
    named = f"the type {part['type']!r}" if "type" in part else "a_part_of_tomorrow"
    async with Runtime.open(tools=[remove]) as rt:
        tools = await rt.tools_for(provider)
        for received in (whole, iter(events), called):
            with pytest.raises(ReplyError, match=f"received a part .*{named}.*cannot answer"):
                await tools.answer(received)
        with pytest.raises(ReplyError, match=f"received a part .*{named}") as raised:
            await tools.answer(iter(late))
        if isinstance(raised.value, IncompleteReplyError):  # the call had started before the part arrived
            assert [each.text for each in raised.value.turn.results] == ["/ 0"]


@pytest.mark.parametrize(
    ("provider", "part"),
    [
        ("openai_responses", {"type": "web_search_call", "id": "i", "status": "completed"}),
        ("openai_responses", {"type": "shell_call", "call_id": "c", "environment": {"type": "container_reference"}}),
        ("openai_responses", {"type": "tool_search_call", "id": "i", "execution": "server"}),
        ("anthropic", {"type": "server_tool_use", "id": "i", "name": "web_search", "input": {}}),
        ("anthropic", {"type": "a_search_of_tomorrow_tool_result", "tool_use_id": "i", "content": []}),
        ("gemini", {"executableCode": {"code": "1", "language": "PYTHON"}}),
    ],
)
async def test_a_part_of_a_tool_that_the_provider_runs_is_repeated(provider, part):
    async with Runtime.open(tools=[remove]) as rt:
        tools = await rt.tools_for(provider)
        for received in with_part(provider, part):
            assert json.dumps(part) in json.dumps((await tools.answer(received)).messages)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_call_in_the_form_before_tool_calls_is_an_error_and_no_final_reply(is_stream):
    call = {"name": "remove", "arguments": '{"target": "/srv/a"}'}
    message = {"role": "assistant", "content": None, "function_call": call}
    end = {"index": 0, "finish_reason": "function_call"}
    whole = {"object": "chat.completion", "choices": [{**end, "message": message}]}
    events = [{"choices": [{"index": 0, "delta": message}]}, {"choices": [{**end, "delta": {}}]}]
    async with Runtime.open(tools=[remove]) as rt:
        with pytest.raises(ReplyError, match=r"received a `function_call`.*`tool_calls`"):
            await (await rt.tools_for("openai")).answer(iter(events) if is_stream else whole)
