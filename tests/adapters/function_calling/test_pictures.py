"""What a model is shown of an image is what its bytes are, whatever the tool called it."""

import asyncio
import base64

import pytest

from agenttool import Media, Runtime, tool
from agenttool.testing.replies import Asked, reply

PROVIDERS = ["openai", "openai_responses", "anthropic", "gemini"]
PNG, JPEG = b"\x89PNG\r\n\x1a\n" + bytes(20), b"\xff\xd8\xff\xe0" + bytes(20)
WEBP, GIF = b"RIFF\x20\0\0\0WEBPVP8 " + bytes(20), b"GIF89a" + bytes(20)


def shown_as(data, media_type, provider):
    """Give what a model is sent of an image, as text."""

    @tool(namespace="depot", read_only=True, open_world=False)
    async def picture() -> Media:
        """Show it. Not for words."""
        return Media(data, media_type, "picture")

    async def run():
        async with Runtime.open(tools=[picture]) as rt:
            model = await rt.tools_for(provider)
            taken = await model.answer(reply(provider, Asked(name="picture", arguments={}, call_id="call_1")))
            return str(taken.answers)

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
def test_an_image_whose_bytes_belie_its_type_is_sent_under_the_type_that_it_has(provider, data, declared, true):
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
def test_what_no_provider_could_read_is_told_in_words_and_does_not_break_the_conversation(provider, data, declared):
    written = shown_as(data, declared, provider)
    assert f"not shown: it was said to be {declared}, and its bytes are something else" in written
    assert base64.b64encode(data).decode() not in written
    assert "inline_data" not in written


def test_an_image_that_turns_out_to_be_one_that_gemini_does_not_take_is_left_at_its_words():
    written = shown_as(GIF, "image/png", "gemini")
    assert "inline_data" not in written
    assert "[image: 'picture', image/png, 26 bytes" in written
