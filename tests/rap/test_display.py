"""A display script yields a text, or it is not served."""

import pytest

from agenttool.errors import ConfigError
from agenttool.rap import Provider


def offer(script):
    provider = Provider("greenhouse")

    @provider.tool(display_script=script)
    async def water(bed: int, gardener: str, note: str = "") -> str:
        """Water a bed."""
        return f"{bed} {gardener} {note}"

    return provider


@pytest.mark.requirement("RAP-166")
@pytest.mark.parametrize(
    "script",
    [
        '"probe"',
        '"bed " + args.bed',
        'args.bed + " by " + args.gardener',
        "args.gardener",
        'args["gardener"]',
        "`bed ${args.bed} by ${args.gardener + 1}`",
        '"a \\"quoted\\" bed: " + args.bed + ", " + (args.note + "!")',
        'if args.bed == 1 { "the first" } else if args.bed != 2 { args.gardener } else { `bed ${args.bed}` }',
        'if !(args.bed == 1 && args.note != "") || (args.bed == 3) { "a" } else { "b" }',
        'let who = args.gardener; let bed = "bed " + args.bed; bed + who',
    ],
)
def test_a_script_that_yields_a_text_is_served(script):
    [tool] = offer(script).definitions
    assert tool.display_script == script


@pytest.mark.requirement("RAP-166")
@pytest.mark.parametrize(
    "script",
    [
        "",
        "5",
        "true",
        "args",
        "args.bed",
        "args.note",
        "args.bed + args.note",
        "args.bed + 1",
        "args.bed - 1",
        '"a" - "b"',
        'if args.bed == 1 { "one" }',
        'if args.bed == 1 { "one" } else { args.bed }',
        'if args.bed { "one" } else { "two" }',
        'let bed = args.bed; "a"; bed',
        "let bed = args.bed; bed",
        '{ let bed = "a"; bed } + bed',
        'nobody + "a"',
        "`${nobody}`",
        "`${args.bed - 1}`",
        '"a" "b"',
        '"unended',
        "while true {}",
        'throw "a"',
        'print("a")',
        'fn f() { "a" } f()',
        '"a" + if',
    ],
)
def test_a_script_that_may_yield_something_else_is_refused(script):
    with pytest.raises(ConfigError, match="display_script must yield a text"):
        offer(script)
