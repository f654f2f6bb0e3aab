"""Results as models read them; media are sent under the type of their bytes."""

import asyncio
import base64

import pytest

from agenttool import Media, Runtime, tool
from agenttool.adapters.function_calling.call_output import INTERRUPTED, NO_OUTPUT, media_refs, outputs_of
from agenttool.adapters.function_calling.formats import FORMATS
from agenttool.adapters.function_calling.tool_payload import ProviderLimits, ToolRequestOptions, build_payload
from agenttool.records import ContentClass, ContentItem, Ref, ResultStatus, ToolResult, replace, text_item
from agenttool.testing.replies import ModelCall, reply

EMPTY = build_payload((), ProviderLimits(), ToolRequestOptions())
PICTURE = Ref(id="payload:1", digest="sha256:" + "0" * 64, media_type="image/png", title="a.png")
PROVIDERS = list(FORMATS)


def result(*content, **fields):
    ids = {"result_id": "res_1", "invocation_id": "inv_1", "created_at": "2026-05-08T00:00:00Z"}
    return ToolResult(status=ResultStatus.SUCCEEDED, is_error=False, model_facing_content=content, **ids, **fields)


def model_reply(provider, count=2, **fields):
    calls = [ModelCall(name=f"t{number}", arguments={}, call_id=f"call_{number}") for number in range(count)]
    return FORMATS[provider].read(reply(provider, *calls, **fields), EMPTY)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_without_a_result_cannot_be_written(provider):
    read = model_reply(provider, 3)
    outputs = outputs_of(read.calls, [result(text_item("first"))], {})
    assert [each.text for each in outputs] == ["first", INTERRUPTED, INTERRUPTED]
    written = str(FORMATS[provider].write(outputs))
    assert all(f"call_{number}" in written for number in range(3))
    assert str(written).count("the turn was interrupted") == 2


def test_media_without_bytes_are_shown_by_their_caption():
    picture = ContentItem(type=ContentClass.IMAGE, text="image a.png", ref=PICTURE)
    pictured = result(picture)
    assert list(media_refs([pictured])) == [PICTURE]
    read = model_reply("anthropic", 1)
    (alone,) = outputs_of(read.calls, [pictured], {})
    (empty,) = outputs_of(read.calls, [pictured], {PICTURE.digest: b""})
    (shown,) = outputs_of(read.calls, [pictured], {PICTURE.digest: b"\x89PNG\r\n\x1a\n"})
    assert (alone.pieces, alone.media) == (empty.pieces, empty.media) == (("image a.png",), ())
    assert [each.data for each in shown.media] == [b"\x89PNG\r\n\x1a\n"]


def test_anthropic_gets_the_image_of_a_failed_call_after_the_results():
    whole = result(ContentItem(type=ContentClass.IMAGE, text="image a.png", ref=PICTURE))
    failed = replace(whole, status=ResultStatus.FAILED, is_error=True)
    outputs = outputs_of(model_reply("anthropic").calls, [failed, whole], {PICTURE.digest: b"\x89PNG\r\n\x1a\n"})
    (message,) = FORMATS["anthropic"].write(outputs)
    first, second, *beside = message["content"]
    assert (first["is_error"], [each["type"] for each in first["content"]]) == (True, ["text"])
    assert [each["type"] for each in second["content"]] == ["text", "image"]
    assert beside == [{"type": "text", "text": "Output of call call_0:"}, second["content"][1]]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_media_that_a_provider_does_not_take_leave_their_caption(provider):
    film = ContentItem(type=ContentClass.FILE, text="file a.zip", ref=PICTURE, media_type="application/zip")
    outputs = outputs_of(model_reply(provider, 1).calls, [result(film)], {PICTURE.digest: b"PK"})
    written = str(FORMATS[provider].write(outputs))
    assert "file a.zip" in written
    assert "PK" not in written
    assert "UEs" not in written


@pytest.mark.parametrize("content", [(), (text_item(""),)])
def test_an_empty_result_has_a_text_that_says_so(content):
    (output,) = outputs_of(model_reply("openai", 1).calls, [result(*content)], {})
    assert output.pieces == (NO_OUTPUT,)


def test_a_link_without_text_is_shown_by_its_address():
    link = ContentItem(type=ContentClass.RESOURCE_LINK, name="notes", uri="https://example.org/notes")
    (output,) = outputs_of(model_reply("openai", 1).calls, [result(link)], {})
    assert output.text == "resource_link notes https://example.org/notes"


PNG, JPEG = b"\x89PNG\r\n\x1a\n" + bytes(20), b"\xff\xd8\xff\xe0" + bytes(20)
WEBP, GIF = b"RIFF\x20\0\0\0WEBPVP8 " + bytes(20), b"GIF89a" + bytes(20)


def shown_as(data, media_type, provider):
    """Return what a model is sent of an image, as text."""

    @tool(namespace="depot", read_only=True, open_world=False)
    async def picture() -> Media:
        """Show it. Not for words."""
        return Media(data, media_type, "picture")

    async def run():
        async with Runtime.open(tools=[picture]) as rt:
            model = await rt.tools_for(provider)
            taken = await model.answer(reply(provider, ModelCall(name="picture", arguments={}, call_id="call_1")))
            return str(taken.result_messages)

    return asyncio.run(run())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("data", "declared", "true"),
    [
        (JPEG, "image/png", "image/jpeg"),
        (PNG, "image/jpeg", "image/png"),
        (WEBP, "image/png", "image/webp"),
        (JPEG, "image/jpg", "image/jpeg"),
        (PNG, "image/bmp", "image/png"),
    ],
)
def test_an_image_is_sent_under_the_type_of_its_bytes(provider, data, declared, true):
    written = shown_as(data, declared, provider)
    sent = {"anthropic": f"'media_type': '{true}'", "gemini": f"'mime_type': '{true}'"}
    assert sent.get(provider, f"data:{true};base64,{base64.b64encode(data).decode()}") in written
    assert f"{declared};base64" not in written
    assert f"_type': '{declared}'" not in written


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("data", "declared"),
    [
        (b"\x00\x01 no image", "image/png"),
        (b"\x89PNG\r\n", "image/png"),
        (b"%PDF-1.4\n\xe2\xe3", "image/jpeg"),
        (b"BM\xff\x00\x00", "image/webp"),
        (b"\xff\x00 no document", "application/pdf"),
    ],
)
def test_unreadable_media_are_replaced_by_a_text(provider, data, declared):
    written = shown_as(data, declared, provider)
    assert f"not shown: declared as {declared}, but its bytes are something else" in written
    assert base64.b64encode(data).decode() not in written
    assert "inline_data" not in written


def test_an_image_type_that_gemini_does_not_take_leaves_its_caption():
    written = shown_as(GIF, "image/png", "gemini")
    assert "inline_data" not in written
    assert "[image: 'picture', image/png, 26 bytes" in written
