"""Payloads fit the types of the providers' SDKs, and SDK objects are read like the JSON of the API."""

import asyncio
import importlib

import pytest

from agenttool import Media, Runtime, tool
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.testing.replies import ModelCall, reply

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
PDF = b"%PDF-1.4 none"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def stock(article: str, least: int = 0, where: dict[str, str] | None = None) -> str:
    """Count what is left of an article. Not for prices."""
    return "7"


@tool(namespace="depot", read_only=True, concurrency_safe=True, open_world=False)
async def gallery(article: str) -> list[Media]:
    """Show all there is of an article. Not for words."""
    return [Media(PNG, "image/png", "a.png"), Media(PDF, "application/pdf", "a.pdf"), Media(WAV, "audio/wav", "a.wav")]


@tool(namespace="depot", read_only=True, open_world=False, should_defer=True)
async def weigh(article: str) -> int:
    """Weigh an article. Not for prices."""
    return 12


@tool(namespace="depot", read_only=True, open_world=False)
async def fail() -> int:
    """Fail. Not for success."""
    raise ValueError("no")


ASKED = [
    ModelCall(name="stock", arguments={"article": "soap"}, call_id="call_1"),
    ModelCall(name="gallery", arguments={"article": "soap"}, call_id="call_2"),
    ModelCall(name="fail", arguments={}, call_id="call_3"),
    ModelCall(name="missing", arguments={}, call_id="call_4"),
]


def turn(provider, raw, **options):
    async def run():
        async with Runtime.open(tools=[stock, gallery, weigh, fail]) as rt:
            model = await rt.tools_for(provider, **options)
            return model.request(), await model.answer(raw)

    return asyncio.run(run())


def types_of(provider):
    """Return the SDK's types of tools, tool choice, messages and replies."""
    match provider:
        case "openai":
            chat = importlib.import_module("openai.types.chat")
            return (
                list[chat.ChatCompletionToolParam],
                chat.ChatCompletionToolChoiceOptionParam,
                list[chat.ChatCompletionMessageParam],
                chat.ChatCompletion,
            )
        case "openai_responses":
            responses = importlib.import_module("openai.types.responses")
            params = importlib.import_module("openai.types.responses.response_create_params")
            return list[responses.ToolParam], params.ToolChoice, responses.ResponseInputParam, responses.Response
        case "anthropic":
            types = importlib.import_module("anthropic.types")
            return list[types.ToolUnionParam], types.ToolChoiceParam, list[types.MessageParam], types.Message
        case "gemini":
            types = importlib.import_module("google.genai.types")
            return (
                types.GenerateContentConfigDict,
                types.ToolConfigDict,
                list[types.ContentDict],
                types.GenerateContentResponse,
            )


@pytest.mark.parametrize("choice", [None, "auto", "none", "required", "stock"])
@pytest.mark.parametrize("provider", FORMATS)
def test_a_request_fits_the_types_of_the_sdk(provider, choice, fits):
    request, _ = turn(provider, reply(provider), tool_choice=choice, parallel_tool_calls=False)
    of_tools, of_choice, _, _ = types_of(provider)
    if provider == "gemini":
        genai = importlib.import_module("google.genai.types")
        read = genai.GenerateContentConfig.model_validate(request)
        assert read.model_dump(exclude_unset=True, mode="json") == request
        assert all(
            set(each) <= set(genai.FunctionDeclaration.model_fields)
            for each in request["tools"][0]["function_declarations"]
        )
    else:
        fits(of_tools, request["tools"])
        fits(of_choice, request.get("tool_choice", "auto" if provider != "anthropic" else {"type": "auto"}))
        assert request.keys() <= {"tools", "tool_choice", "parallel_tool_calls"}


@pytest.mark.parametrize("provider", FORMATS)
def test_a_turn_with_text_media_and_failures_fits_the_types_of_the_sdk(provider, fits):
    _, taken = turn(provider, reply(provider, *ASKED, text="Let me look."))
    if provider == "gemini":
        genai = importlib.import_module("google.genai.types")
        for message in taken.result_messages:
            read = genai.Content.model_validate(message)
            assert read.model_dump(exclude_unset=True, mode="python") == message
        genai.Content.model_validate(taken.reply_messages[0])
    else:
        fits(types_of(provider)[2], taken.messages)


@pytest.mark.parametrize("provider", FORMATS)
def test_a_repaired_conversation_fits_the_types_of_the_sdk(provider, fits):
    _, taken = turn(provider, reply(provider, *ASKED))
    repaired = FORMATS[provider].repair(taken.reply_messages)
    assert len(str(repaired).split("the turn was interrupted")) == 1 + len(ASKED)
    if provider == "gemini":
        genai = importlib.import_module("google.genai.types")
        assert [genai.Content.model_validate(each).role for each in repaired] == ["model", "user"]
    else:
        fits(types_of(provider)[2], repaired)


@pytest.mark.parametrize("provider", FORMATS)
def test_an_sdk_object_is_read_like_the_json_of_the_api(provider, fits):
    raw = reply(provider, *ASKED, text="Let me look.")
    read = types_of(provider)[3].model_validate(raw)
    (_, one), (_, other) = turn(provider, raw), turn(provider, read)
    assert one.calls == other.calls
    assert one.result_messages == other.result_messages
    if provider != "gemini":
        fits(types_of(provider)[2], other.messages)


def test_a_thought_signature_is_repeated_unchanged():
    genai = importlib.import_module("google.genai.types")
    part = genai.Part(
        function_call=genai.FunctionCall(name="stock", args={"article": "a"}), thought_signature=b"\xff\x00"
    )
    content = genai.Content(role="model", parts=[part])
    raw = genai.GenerateContentResponse(candidates=[genai.Candidate(content=content)])
    _, taken = turn("gemini", raw)
    assert genai.Content.model_validate(taken.reply_messages[0]) == content


def test_the_check_rejects_a_member_that_the_sdk_does_not_know(fits):
    of_tools = types_of("openai")[0]
    with pytest.raises(AssertionError):
        fits(of_tools, [{"type": "function", "function": {"name": "a", "defer": True}}])
