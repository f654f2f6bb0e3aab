"""Invisible characters are marked in texts for models; texts of people stay as they are."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Runtime, ToolFailure, tool
from agenttool.codec.visible_text import visible_text
from agenttool.records import ErrorClass, ToolError

HIDDEN = "".join(chr(0xE0000 + ord(each)) for each in "evil")
NASTY = f"a\u200bb \u202ereversed {HIDDEN} \u2066x\u2069 \ufeff"
MARKS = ("\\u200b", "\\u202e", "\\udb40\\udc65", "\\u2066", "\\ufeff")


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "é漢字",
        "👩\u200d👩\u200d👧",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e\u0648",
        "क्\u200dष",
        "ひ゛",
        "naïve — “quoted”…",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert visible_text(text) is text


@pytest.mark.parametrize(
    "text",
    [
        "a\u200bb",
        "a\u200db",
        "\u200c\u200d\u200c",
        "x\u202e",
        HIDDEN,
        "a\u00adb",
        "\u3164",
        "a\ufe0f\ufe0f",
        "漢\U000e0101",
    ],
)
def test_what_cannot_be_seen_is_marked(text):
    marked = visible_text(text)
    assert marked != text
    assert "\\u" in marked
    assert visible_text(marked) is marked


@pytest.mark.parametrize("output", [NASTY, {"text": NASTY}, [NASTY]])
def test_a_model_reads_marks_and_a_program_reads_the_value(output):
    @tool(read_only=True, open_world=False)
    async def probe() -> object:
        """Return something. Not for anything else."""
        return output

    async def story():
        async with Runtime.open(tools=[probe]) as rt:
            return await rt.call("probe", {}, surface=await rt.surface())

    result = asyncio.run(story())
    [shown] = result.model_facing_content
    assert [mark for mark in MARKS if mark not in shown.text.replace("\\\\", "\\")] == []
    assert HIDDEN not in shown.text
    if isinstance(output, str):
        assert result.content[0].text == output
    else:
        assert result.structured_content == output


def test_an_error_and_a_description_have_no_invisible_characters():
    @tool(read_only=True, open_world=False, description=f"Fail. {NASTY}", title=NASTY)
    async def probe(text: str = "") -> str:
        raise ToolFailure(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=NASTY))

    async def story():
        async with Runtime.open(tools=[probe]) as rt:
            surface = await rt.surface()
            result = await rt.call("probe", {}, surface=surface)
            return result, [each for each in rt.offered(surface) if each.name == "probe"]

    result, [offered] = asyncio.run(story())
    for text in (result.model_facing_content[0].text, result.error.message, offered.description):
        assert MARKS[0] in text
        assert visible_text(text) is text


@given(st.text(alphabet="aé \u200b\u200c\u200d\ufe0e\ufe0f\u2764\U0001f469", max_size=60), st.integers(2, 9))
def test_a_long_text_is_marked_in_pieces_as_it_is_as_a_whole(text, piece):
    whole = visible_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agenttool.codec.visible_text._PIECE", piece)
        assert visible_text(text) == whole
        assert (visible_text(text) is text) == (whole is text)
