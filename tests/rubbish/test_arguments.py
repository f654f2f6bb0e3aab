"""Arguments that no tool should ever see."""

import subprocess
import sys
import textwrap

import pytest

from agenttool import Runtime, tool

DEEP = 100_000


def short(value):
    return repr(value)[:24]


class Seen:
    """A tool that takes anything, and remembers what it got."""

    def __init__(self):
        self.values = []

        @tool
        async def take(a: object = None, b: int = 1) -> str:
            """Take anything. Not for keeps."""
            self.values.append(a)
            return "taken"

        self.tool = take


@pytest.fixture
def seen():
    return Seen()


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def endless():
    value = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"b": "two"}, "at '/b': expected integer; change it from a string"),
        ({"b": None}, "at '/b': expected integer"),
        ({"b": True}, "at '/b': expected integer"),
        ({"c": 1}, "remove 'c'"),
        (None, "JSON object"),
        ([1], "JSON object"),
        (5, "JSON object"),
        ("[1]", "JSON object"),
        ("null", "JSON object"),
        ("", "JSON"),
        (b"", "JSON"),
        ("{", "JSON"),
        (b'{"a":1} trailing', "trailing"),
        (b'{"a":1}{"a":2}', "trailing"),
        (b'\xef\xbb\xbf{"a":1}', "JSON"),
        (b'{"a":"\xff\xfe"}', "UTF-8"),
        (b'{"a":NaN}', "JSON"),
        (b'{"a":-Infinity}', "JSON"),
        (b'{"a":1e999}', "out of range"),
        ({"a": float("nan")}, "'/a'"),
        ({"a": [1, float("inf")]}, "'/a/1'"),
        ({"a": {"b": b"bytes"}}, "'/a/b'"),
        ({"a": {1, 2}}, "set"),
        ({"a": object()}, "object"),
        ({1: 2}, "int"),
        ({"a": "\ud800"}, "surrogate"),
        ('{"a":"\ud800"}', "surrogate"),
        (b'{"a":"\\ud800"}', "JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "out of range"),
        ({"a": 10**5000}, "digits"),
        (b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}", "nested too deeply"),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested too deeply"),
        (nested(800), "nested too deeply"),
        (nested(5000), "recursion depth|nested too deeply"),
        (endless(), "recursion depth|nested too deeply|circular"),
    ],
    ids=lambda value: None if isinstance(value, dict) else short(value),
)
async def test_rubbish_is_refused_in_words_and_never_reaches_the_tool(once, seen, arguments, problem):
    result = await once(seen.tool, arguments)
    assert seen.values == []
    assert (result.status, result.error.error_class) == ("failed", "schema_validation_failed")
    assert any(words in result.error.message for words in problem.split("|"))
    assert result.error.retry.arguments_must_change is True


@pytest.mark.parametrize("sent", [b'{"b":"x","b":2}', b'{"b":1,"b":2}'])
async def test_arguments_with_a_member_twice_are_refused_and_run_nothing(sent, sound, allow):
    ran = []

    @tool
    async def spy(b: int) -> int:
        """Note what it got. Not for keeps."""
        ran.append(b)
        return b

    async with Runtime.open(tools=[spy], rules=allow) as runtime:
        result = await runtime.call("spy", sent, surface=await runtime.surface())
        await sound(runtime)
    assert ran == []
    assert result.error.message == "arguments have the member 'b' more than once in an object; write it once"


@pytest.mark.parametrize("number", [2**53 + 1, 10**30, -(10**300)])
async def test_an_integer_beyond_64_bits_arrives_whole_or_not_at_all(once, seen, number):
    result = await once(seen.tool, {"a": number})
    assert not result.is_error
    assert seen.values == [number]


@pytest.mark.parametrize("name", ["", "\ud800", "take\n", "x" * 1_000_000, b"take", 5, ["take"]], ids=short)
async def test_a_name_that_is_none_leads_nowhere_and_is_reported_briefly(once, seen, name):
    result = await once(seen.tool, {}, name=name)
    assert seen.values == []
    assert result.error.error_class == "unknown_tool"
    assert len(result.error.message) < 400


HUGE = """
    import asyncio, resource
    from agenttool import Runtime, tool
    from agenttool.policy.rules import Rule
    from agenttool.records import Behavior, RuleSource

    @tool
    async def measure(text: str) -> int:
        "Measure a text. Not for files."
        return len(text)

    async def main():
        rules = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
        async with Runtime.open(tools=[measure], rules=rules) as rt:
            surface = await rt.surface()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            sent = {"text": "x" * (100 << 20)}
            result = await rt.call("measure", sent, surface=surface)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(result.error.error_class, "1000000" in result.error.message, (peak - before) >> 10)

    asyncio.run(main())
"""


@pytest.mark.slow
def test_an_argument_of_100_megabytes_is_refused_without_many_copies():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HUGE)], capture_output=True, text=True, timeout=120, check=True
    )
    error, names_limit, megabytes = done.stdout.split()
    assert (error, names_limit) == ("schema_validation_failed", "True")
    assert int(megabytes) < 350, "the caller's text, and its bytes"
