"""Arguments as JSON text: repeated members, half characters, and where a text is not JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool import Runtime, tool
from agenttool.codec import json_bytes, parse_object, repeated_name
from agenttool.testing.replies import ModelCall, stream


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def note(text: str = "", labels: dict[str, str] | None = None, pin: str = "") -> str:
    """Write a note. Not for letters."""
    return text


@tool(read_only=True, concurrency_safe=True, open_world=False, sensitive=["pin"])
async def login(pin: str) -> str:
    """Log in. Not for letters."""
    return "in"


async def error_of(arguments, name="note"):
    async with Runtime.open(tools=[note, login]) as rt:
        result = await rt.call(name, arguments)
    assert result.error.error_class == "schema_validation_failed"
    return result.error.message


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ('{"text": "a", "text": "b"}', "text"),
        ('{"text" :"a: b", "text"\n: "b"}', "text"),
        (b'{"text": "a", "t\\u0065xt": "b"}', "text"),
        ('{"labels": {"a": "x", "a": "y"}}', "a"),
    ],
)
async def test_a_member_that_is_written_twice_is_an_error_that_names_it(arguments, named):
    assert f"the member '{named}' more than once" in await error_of(arguments)


async def test_a_repeated_member_of_a_tool_with_secrets_is_not_named():
    assert "a member more than once" in await error_of('{"pin": "4711-0815", "pin": "4711-0816"}', "login")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_repeated_member_in_a_reply_of_a_model_is_an_error(provider):
    written = '{"text": "a", "text": "b", "labels": null}'
    async with Runtime.open(tools=[note]) as rt:
        tools = await rt.tools_for(provider)
        turn = await tools.answer(stream(provider, ModelCall(name="note", arguments=written, call_id="call_1")))
    assert "more than once" in turn.results[0].text


@pytest.mark.parametrize(
    "text", ['{"text": "a: b"}', '{"text" : "\\"a\\": \\"b\\":"}', '{"labels": {"a:": "b :"}}', "{}"]
)
async def test_a_colon_in_a_text_repeats_no_member(text):
    async with Runtime.open(tools=[note]) as rt:
        assert (await rt.call("note", text)).ok


VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a:" \\\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='ab:" '), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(alphabet='ab:" \\'), VALUES, max_size=4))
def test_no_member_of_an_encoded_object_is_repeated_and_a_copy_of_one_is(value):
    written = json_bytes(value)
    assert repeated_name(written, parse_object(written)) is None
    for name in list(value)[:1]:
        twice = b'{%s:"x",%s' % (json_bytes(name), written[1:])
        assert repeated_name(twice, parse_object(twice)) == name


@pytest.mark.parametrize(
    "arguments", ['{"text": "\\ud83d"}', '{"text": "\\ud83d!"}', '{"text": "\ud83d"}', {"text": "\ud83d"}]
)
async def test_half_of_a_surrogate_pair_is_reported_as_such(arguments):
    message = await error_of(arguments)
    assert "half of a surrogate pair" in message
    assert "truncated" not in message


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ('{"text": "x",}', "line 1, column 14"),
        ('{"text": "ä",\n "labels": tru}', "line 2, column 16"),
        ('```json\n{"text": "x"}\n```', "line 1, column 1"),
    ],
)
async def test_text_that_is_no_json_is_reported_with_line_and_column(arguments, place):
    assert f"at {place}; complete or repair it" in await error_of(arguments)
