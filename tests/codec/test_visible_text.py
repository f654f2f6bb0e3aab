"""Invisible characters are marked in texts for models; texts of people stay as they are."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Context, Runtime, ToolFailure, tool
from agenttool.codec.visible_text import visible_text
from agenttool.errors import ConfigError
from agenttool.records import ErrorClass, ToolError, ToolProgress
from agenttool.testing.fakes import scripted_tool

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
        "☎\ufe0e",
        "🙂\u200d↔\ufe0f",
        "❤\ufe0f\u200d🔥",
        "©\ufe0f",
        "naïve — “quoted”…",
        "two\r\n\tlines\n",
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
        "a\ufe0f",
        "é\ufe0e",
        "1\ufe0f",
        "❤\ufe0f\ufe0f",
        "é\u200dé",
        "漢\u200c字",
        "\u0645\u200cé",
        "x\u009b31m",
        "漢\U000e0101",
        "\u2800",
        "a\ufffcb",
        "\U0001d159",
        "\x1b[8mhidden\x1b[0m",
        "good\b\b\b\bevil",
        "a\x7fb",
        "a\x00b\n",
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

    async def scenario():
        async with Runtime.open(tools=[probe]) as rt:
            return await rt.call("probe", {}, surface=await rt.surface())

    result = asyncio.run(scenario())
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

    async def scenario():
        async with Runtime.open(tools=[probe]) as rt:
            surface = await rt.surface()
            result = await rt.call("probe", {}, surface=surface)
            return result, [each for each in rt.surfaces.offered(surface) if each.name == "probe"]

    result, [offered] = asyncio.run(scenario())
    for text in (result.model_facing_content[0].text, result.error.message, offered.description):
        assert MARKS[0] in text
        assert visible_text(text) is text


@pytest.mark.parametrize(
    "member",
    [
        {"enum": ["one", NASTY]},
        {"const": NASTY},
        {"default": {"title": NASTY}},
        {"examples": [NASTY]},
        {"pattern": NASTY},
        {"properties": {NASTY: {}}},
        {"required": [NASTY]},
    ],
)
async def test_a_tool_with_invisible_characters_in_names_or_values_of_its_schema_is_refused(member):
    probe = scripted_tool("probe", lambda _: "done", schema={"type": "object", "properties": {"m": member}})
    with pytest.raises(ConfigError, match=r"'probe'.*\\u200b.*invisible characters; remove them \(at '.*/properties/m"):
        async with Runtime.open(tools=[probe]):
            pass


@pytest.mark.parametrize("api", ["anthropic", "openai", "openai_responses", "gemini"])
async def test_no_provider_is_sent_an_invisible_character(api):
    shown = {"title": NASTY, "description": NASTY, "$comment": NASTY, "properties": {"default": {"title": NASTY}}}
    probe = scripted_tool("probe", lambda _: "done", schema={"type": "object", "properties": {"m": shown}})
    async with Runtime.open(tools=[probe]) as rt:
        sent = json.dumps((await rt.tools_for(api)).request(), ensure_ascii=False)
    assert visible_text(sent) is sent


async def test_a_traceback_is_logged_without_invisible_and_control_characters(caplog):
    @tool(read_only=True, open_world=False)
    async def probe() -> str:
        """Fail. Not for anything else."""
        raise ValueError(f"\x1b[31m{NASTY}\x9b")

    async with Runtime.open(tools=[probe]) as rt:
        await rt.call("probe", {}, surface=await rt.surface())
    [message] = [each.message for each in caplog.records if "Traceback" in each.message]
    assert MARKS[0] in message
    assert message.replace("\n", "").isprintable()


async def test_progress_is_recorded_without_invisible_and_control_characters():
    @tool(read_only=True, open_world=False)
    async def probe(context: Context) -> str:
        """Report something. Not for anything else."""
        context.progress(f"\x1b[31m{NASTY}", step=NASTY)
        return "done"

    async with Runtime.open(tools=[probe]) as rt:
        await rt.call("probe", {}, surface=await rt.surface())
        records = [each async for each in rt.journal.export()]
    [progress] = [each for each in records if isinstance(each, ToolProgress)]
    assert [mark for mark in MARKS if mark not in progress.message or mark not in progress.current_step] == []
    assert visible_text(progress.message) is progress.message
    assert "\x1b" not in progress.message


@given(st.text(alphabet="aé \u200b\u200c\u200d\ufe0e\ufe0f\u2764\U0001f469", max_size=60), st.integers(2, 9))
def test_a_long_text_is_marked_in_pieces_as_it_is_as_a_whole(text, piece):
    whole = visible_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agenttool.codec.visible_text._PIECE", piece)
        assert visible_text(text) == whole
        assert (visible_text(text) is text) == (whole is text)
