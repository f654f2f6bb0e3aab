"""Streamed replies, replies that are none, and turns that wait, in every provider's format."""

import asyncio
import json

import pytest

from agenttool import Runtime, tool
from agenttool.errors import ConfigError, ReplyError
from agenttool.providers import IncompleteReplyError
from agenttool.testing.replies import ModelCall, reply, stream

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
SOAP = ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1")
SALT = ModelCall(name="stock", arguments={"article": "salt"}, call_id="call_2")


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str = "all") -> str:
    """Count what is left of an article. Not for prices."""
    return f"{article}: 7"


async def one_by_one(events):
    for event in events:
        await asyncio.sleep(0)
        yield event


def comparable(turn):
    """Return all of a turn but its results, and what is null in a complete reply only."""
    written = [{key: value for key, value in each.items() if value is not None} for each in turn.reply_messages]
    return turn.text, written, turn.result_messages, turn.calls, turn.is_final


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("read", [one_by_one, iter, list])
@pytest.mark.parametrize(
    "content",
    [
        {"text": "Let me look."},
        {"calls": (SOAP, SALT), "text": "Let me look."},
        {"calls": (ModelCall(name="stock", arguments={}, call_id="call_1"), SALT)},
        {"calls": (SOAP, SALT), "cut_off": True},
        {"calls": (SOAP, ModelCall(name="stock", arguments={"article": "soap"}))},
    ],
)
async def test_a_stream_is_answered_like_the_complete_reply(provider, read, content):
    content = dict(content)
    calls = content.pop("calls", ())
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for(provider)
        complete = await tools.answer(reply(provider, *calls, **content))
        pieces = []
        streamed = await tools.answer(read(stream(provider, *calls, **content)), on_text=pieces.append)
    if provider == "gemini":  # only the stream has an id, which ids of calls without one are made of
        assert (comparable(streamed)[:3], streamed.is_final) == (comparable(complete)[:3], complete.is_final)
    else:
        assert comparable(streamed) == comparable(complete)
    assert [each.status for each in streamed.results] == [each.status for each in complete.results]
    assert "".join(pieces) == content.get("text", "")
    assert len(pieces) == (2 if content.get("text") else 0)


@pytest.mark.parametrize("provider", ["openai_responses", "anthropic", "gemini"])
async def test_a_call_starts_when_its_arguments_are_complete_and_not_at_the_end_of_the_stream(provider):
    started = asyncio.Event()

    @tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
    async def look(article: str) -> str:
        """Look. Not for prices."""
        started.set()
        return "seen"

    async def events():
        for event in stream(provider, *asked, text="Let me look."):
            if "call_3" in json.dumps(event):
                async with asyncio.timeout(60):
                    await started.wait()
            yield event

    arguments = {"article": "soap"}
    asked = [ModelCall(name="look", arguments=arguments, call_id=f"call_{number}") for number in (1, 2, 3)]
    seen = []
    async with Runtime.open(tools=[look], approve="wait") as rt:
        turn = await (await rt.tools_for(provider)).answer(events(), on_event=seen.append)
    assert [each.status for each in turn.results] == ["succeeded"] * 3
    assert seen == stream(provider, *asked, text="Let me look.")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_is_no_reply_raises_and_names_what_was_received_and_what_was_expected(provider):
    async def fetch():
        return reply(provider, SOAP)

    received = {
        "received None;": None,
        "received 'It is done.' (str);": "It is done.",
        "received {} (dict);": {},
        "received 7 (int);": 7,
        "received a coroutine that was not awaited; write `await`": fetch(),
        "received an error: overloaded;": {"type": "error", "error": {"type": "overloaded", "message": "overloaded"}},
        "received an error: no such model;": {"error": {"message": "no such model", "code": 404}},
        "received an object with answer;": {"answer": 42},
        "received 'data: {}' (str);": ["data: {}"],
        "received an error: too long;": one_by_one([{"error": "too long"}]),
    }
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for(provider)
        for words, value in received.items():
            with pytest.raises(ReplyError) as caught:
                await tools.answer(value)
            assert words in str(caught.value)
            assert "expected a complete reply of " in str(caught.value)
        with pytest.raises(ReplyError, match="the stream ended without an event"):
            await tools.answer([])


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("other", PROVIDERS)
async def test_a_reply_of_another_provider_raises_and_names_the_format_to_use(provider, other):
    events = stream(other, SOAP)
    received = [reply(other, SOAP), reply(other, text="Done."), events, iter(events), one_by_one(events), events[0]]
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for(provider)
        for value in received if other != provider else ():
            with pytest.raises(ReplyError, match=rf"use tools_for\('{other}'\)"):
                await tools.answer(value)
        assert rt.calls.open_ids() == ()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "fault", [None, OSError("reset by peer"), {"type": "error", "error": {"message": "overloaded"}}]
)
async def test_a_stream_that_ends_early_raises_with_the_results_of_the_calls_that_had_started(provider, fault):
    events = stream(provider, SOAP, SALT)

    async def broken(end):
        for event in events[:end]:
            yield event
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            yield fault

    expected = {None: ReplyError, OSError: OSError}.get(fault and type(fault), ReplyError)
    seen = set()
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for(provider)
        whole = await tools.answer(reply(provider, SOAP))
        for end in range(1, next(end for end in range(len(events)) if _ends(events[end]))):
            with pytest.raises((expected, IncompleteReplyError)) as caught:
                await tools.answer(broken(end))
            seen.add(type(caught.value))
            if isinstance(caught.value, IncompleteReplyError):
                turn = caught.value.turn
                assert turn.result_messages == whole.result_messages
                assert tools.repair(turn.messages) == turn.messages
                assert not turn.is_final
                assert isinstance(fault, dict | None) or caught.value.__cause__ is fault
            else:
                assert "started" not in str(caught.value)
    assert seen == ({expected} if provider in ("gemini", "openai") else {expected, IncompleteReplyError})


def _ends(event):
    """Return whether an event says why the reply ended."""
    written = json.dumps(event)
    reasons = ('"finish_reason": "', '"stop_reason": "', '"finishReason": "', '"response.completed"')
    return any(each in written for each in reasons)


async def test_what_a_callback_raises_reaches_the_caller():
    def fail(text):
        raise ValueError(text)

    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for("anthropic")
        with pytest.raises(ValueError, match="Let me"):
            await tools.answer(one_by_one(stream("anthropic", SOAP, text="Let me look.")), on_text=fail)


class Stream:
    """A stream as the SDKs have it for synchronous clients."""

    is_closed = False

    def __iter__(self):
        return iter(stream("gemini", SOAP))

    def close(self):
        self.is_closed = True


class AsyncStream(Stream):
    """A stream as the SDKs have it for asynchronous clients."""

    __iter__ = None

    def __aiter__(self):
        return one_by_one(stream("gemini", SOAP))

    async def close(self):
        self.is_closed = True


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("opened", [Stream(), AsyncStream()], ids=["sync", "async"])
async def test_a_stream_that_is_not_read_to_its_end_is_closed(provider, opened):
    async with Runtime.open(tools=[stock]) as rt:
        with pytest.raises(ReplyError):
            await (await rt.tools_for(provider)).answer(opened)
    assert opened.is_closed


async def test_a_turn_that_is_canceled_in_the_middle_of_a_stream_cancels_its_calls():
    started = asyncio.Event()

    @tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
    async def wait(article: str) -> str:
        """Wait for ever. Not for the impatient."""
        started.set()
        await asyncio.Event().wait()
        return ""

    async def endless():
        asked = [ModelCall(name="wait", arguments={"article": "soap"}, call_id=f"call_{n}") for n in (1, 2)]
        for event in stream("anthropic", *asked)[:-3]:
            yield event
        await asyncio.Event().wait()

    async with Runtime.open(tools=[wait]) as rt:
        tools = await rt.tools_for("anthropic")
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            turn = group.create_task(tools.answer(endless()))
            await started.wait()
            (invocation_id,) = rt.calls.open_ids()
            turn.cancel()
        assert (await rt.journal.result(invocation_id)).status == "canceled"
        assert rt.calls.open_ids() == ()


async def test_a_response_that_failed_and_a_prompt_that_was_blocked_are_no_turns():
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for("openai_responses")
        failed = {**reply("openai_responses"), "status": "failed", "error": {"message": "server is busy"}}
        for value in (
            failed,
            [{"type": "response.created", "response": {}}, {"type": "response.failed", "response": failed}],
        ):
            with pytest.raises(ReplyError, match="server is busy"):
                await tools.answer(value)
        tools = await rt.tools_for("gemini")
        with pytest.raises(ReplyError, match="the prompt was blocked: SAFETY"):
            await tools.answer({"promptFeedback": {"blockReason": "SAFETY"}})


@tool(namespace="depot")
async def order(article: str) -> str:
    """Order an article. Not for prices."""
    return f"ordered {article}"


ORDER = ModelCall(name="order", arguments={"article": "soap"}, call_id="call_2")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("write", [reply, stream])
@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_turn_that_waits_for_an_approval_is_returned_and_resumed_by_another_runtime(
    provider, write, answer, tmp_path
):
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with Runtime.open(store=store, tools=[stock, order], approve="wait") as rt:
        tools = await rt.tools_for(provider)
        turn = await tools.answer(write(provider, SOAP, ORDER, text="I order."), pending="return")
        assert ([each.tool_name for each in turn.pending], turn.is_final) == (["depot.order"], False)
        assert [each.text for result in turn.results for each in result.model_facing_content] == ["soap: 7"]
        with pytest.raises(ConfigError, match=r"waits for depot\.order; decide"):
            _ = turn.messages
        assert (await tools.resume(turn, pending="return")).pending == turn.pending
        invocation = await rt.journal.invocation(turn.pending[0].invocation_id)
        assert invocation.external_mappings[0].tool_call_id == "call_2"
        text = turn.to_json()
    async with Runtime.open(store=store, tools=[stock, order], approve="wait") as rt:
        tools = await rt.tools_for(provider)
        (pending,) = (await tools.resume(text, pending="return")).pending
        assert pending.approval.shown == {"article": "soap"}
        await rt.approvals.decide(pending.approval, answer)
        async with asyncio.timeout(60):
            resumed = await tools.resume(text)
        with pytest.raises(ConfigError, match=f"a turn of '{provider}'"):
            await (await rt.tools_for("gemini" if provider != "gemini" else "openai")).resume(text)
    assert [each.status for each in resumed.results] == ["succeeded", "succeeded" if answer == "allow" else "rejected"]
    assert resumed.pending == ()
    assert resumed.messages[: len(turn.reply_messages)] == list(turn.reply_messages)
    assert tools.repair(resumed.messages) == resumed.messages
    assert "ordered soap" in str(resumed.messages) or answer == "deny"


async def test_resume_rejects_what_is_no_turn():
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for("openai")
        for value in ("", "{}", "[]", None, 7, '{"provider": "openai"}'):
            with pytest.raises(ConfigError, match="takes a turn"):
                await tools.resume(value)
        with pytest.raises(ConfigError, match="pending is 'wait' or 'return', not 'later'"):
            await tools.answer(reply("openai"), pending="later")


async def test_bytes_of_a_reply_survive_the_way_through_text():
    signed = {"functionCall": {"name": "stock", "args": {}, "id": "call_1"}, "thought_signature": b"\x00\xff"}
    message = {"candidates": [{"content": {"role": "model", "parts": [signed]}, "finish_reason": "STOP"}]}
    async with Runtime.open(tools=[stock], approve="wait") as rt:
        tools = await rt.tools_for("gemini")
        turn = await tools.answer(message)
        assert (await tools.resume(turn.to_json())).messages == turn.messages


def ended(provider, reason, text):
    """Write a reply that ends for a reason of its provider, and its stream."""
    match provider:
        case "openai":
            message = {"role": "assistant", "content": text or None}
            choice = {"index": 0, "finish_reason": reason}
            chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}]
            whole = {"object": "chat.completion", "choices": [{**choice, "message": message}]}
            return whole, [*chunks, {"choices": [{**choice, "delta": {}}]}]
        case "openai_responses":
            part = {"type": "output_text", "text": text}
            output = [{"type": "message", "role": "assistant", "content": [part]}] if text else []
            status = "completed" if reason is None else "incomplete"
            whole = {"object": "response", "status": status, "output": output}
            whole |= {} if reason is None else {"incomplete_details": {"reason": reason}}
            done = [{"type": "response.output_item.done", "output_index": 0, "item": each} for each in output]
            created = {"type": "response.created", "response": {"object": "response", "status": "in_progress"}}
            return whole, [created, *done, {"type": f"response.{status}", "response": whole}]
        case "anthropic":
            blocks = [{"type": "text", "text": text}] if text else []
            whole = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": reason}
            start = {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
            inner = [{"type": "content_block_start", "index": 0, "content_block": each} for each in blocks]
            inner += [{"type": "content_block_stop", "index": 0}] if blocks else []
            end = {"type": "message_delta", "delta": {"stop_reason": reason}}
            return whole, [start, *inner, end, {"type": "message_stop"}]
        case "gemini":
            content = {"content": {"role": "model", "parts": [{"text": text}]}} if text else {}
            whole = {"candidates": [{**content, "finishReason": reason}]}
            return whole, [whole]


ENDS = [
    ("openai", "stop", False),
    ("openai", "length", True),
    ("openai", "content_filter", True),
    ("openai", "refusal", True),
    ("openai_responses", None, False),
    ("openai_responses", "max_output_tokens", True),
    ("openai_responses", "content_filter", True),
    ("anthropic", "end_turn", False),
    ("anthropic", "stop_sequence", False),
    ("anthropic", "max_tokens", True),
    ("anthropic", "refusal", True),
    ("gemini", "STOP", False),
    ("gemini", "MAX_TOKENS", True),
    ("gemini", "SAFETY", True),
    ("gemini", "RECITATION", True),
    ("gemini", "PROHIBITED_CONTENT", True),
    ("gemini", "A_FILTER_OF_TOMORROW", True),
]


@pytest.mark.parametrize("text", ["", "There is"])
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("provider", "reason", "is_cut"), ENDS)
async def test_a_reply_that_a_limit_or_a_filter_ended_is_cut_also_if_it_is_empty(
    provider, reason, is_cut, is_stream, text
):
    whole, events = ended(provider, reason, text)
    async with Runtime.open(tools=[stock]) as rt:
        tools = await rt.tools_for(provider)
        turn = await tools.answer(one_by_one(events) if is_stream else whole)
    assert (turn.text, turn.is_final, turn.is_cut, turn.calls) == (text, True, is_cut, ())
    assert bool(turn.messages) is bool(text)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_refusal_that_the_model_wrote_is_text_of_a_complete_reply(is_stream):
    words = "I cannot help with that."
    message = {"role": "assistant", "content": None, "refusal": words}
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    events = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "refusal": each}}]} for each in (words[:5], words[5:])
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    pieces = []
    async with Runtime.open(tools=[stock]) as rt:
        tools = await rt.tools_for("openai")
        turn = await tools.answer(one_by_one(events) if is_stream else whole, on_text=pieces.append)
    assert (turn.text, turn.is_final, turn.is_cut, "".join(pieces)) == (words, True, False, words)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_text_before_a_call_that_gemini_could_not_read_is_no_final_reply(is_stream):
    whole, events = ended("gemini", "MALFORMED_FUNCTION_CALL", "Let me look.")
    async with Runtime.open(tools=[stock]) as rt:
        tools = await rt.tools_for("gemini")
        turn = await tools.answer(one_by_one(events) if is_stream else whole)
    assert (turn.text, turn.is_final, turn.is_cut) == ("Let me look.", False, False)
    assert [each["role"] for each in turn.messages] == ["model", "user"]


async def test_a_stream_that_ends_early_says_what_to_do_also_if_a_call_waits():
    async with Runtime.open(tools=[stock, order], approve="wait") as rt:
        tools = await rt.tools_for("anthropic")
        with pytest.raises(IncompleteReplyError, match=r"add `error\.turn\.messages` to the conversation"):
            await tools.answer(one_by_one(stream("anthropic", SOAP, SALT)[:9]))
        bought = ModelCall(name="order", arguments={"article": "soap"}, call_id="call_1")
        with pytest.raises(IncompleteReplyError) as raised:
            await tools.answer(one_by_one(stream("anthropic", bought, SALT)[:9]), pending="return")
        assert "decide the calls in `error.turn.pending`" in str(raised.value)
        assert "`await tools.resume(error.turn)`" in str(raised.value)
        [waiting] = raised.value.turn.pending
        await rt.approvals.decide(waiting.approval, "deny")
        turn = await tools.resume(raised.value.turn)
        assert [each["role"] for each in turn.messages] == ["assistant", "user"]
