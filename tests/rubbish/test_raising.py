"""Tools that end in every way but a proper one."""

import asyncio

import pytest

from agenttool import Runtime, ToolFailure, tool


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Parting(Exception):
    def __str__(self):
        raise SystemExit(3)


class Alien(BaseException):
    """Neither an error nor an exit: what some frameworks raise to unwind themselves."""


def explode(flavour, crash):
    """Make a tool that raises, in each of the ways a function can be one."""

    async def coroutine() -> str:
        """Raise. Not for success."""
        raise crash

    async def later() -> str:
        """Raise after a while. Not for success."""
        await asyncio.sleep(0)
        raise crash

    def thread() -> str:
        """Raise in a thread. Not for success."""
        raise crash

    def generator():
        """Raise after a part. Not for success."""
        yield 1
        raise crash

    async def stream():
        """Raise after a part. Not for success."""
        yield 1
        raise crash

    return tool(name="explode")(locals()[flavour])


FLAVOURS = ["coroutine", "later", "thread", "generator", "stream"]


def named(value):
    return type(value).__name__ if isinstance(value, BaseException) else value


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "crash",
    [
        SystemExit(3),
        StopIteration(1),
        StopAsyncIteration(2),
        MemoryError(),
        RecursionError(),
        ExceptionGroup("several", [ValueError("one")]),
        ValueError("half of \ud800 a pair"),
        ValueError("x" * 1_000_000),
        Mute(),
    ],
    ids=named,
)
async def test_whatever_a_tool_raises_is_a_result_that_names_it(once, flavour, crash):
    result = await once(explode(flavour, crash), {})
    assert (result.status, result.error.error_class) == ("failed", "execution_failed")
    assert type(crash).__name__ in result.error.message
    assert len(result.error.message) < 5000
    assert "Traceback" not in result.model_facing_content[0].text


@pytest.mark.parametrize("flavour", ["thread", "generator"])
@pytest.mark.parametrize(
    "crash", [KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Alien("from afar")], ids=named
)
async def test_what_a_tool_raises_in_its_thread_interrupts_no_other_call(once, flavour, crash):
    result = await once(explode(flavour, crash), {})
    assert (result.status, result.error.error_class) == ("failed", "execution_failed")
    assert type(crash).__name__ in result.error.message


def test_an_interruption_of_the_program_is_raised_after_the_result_is_written(allow, sound):
    crash, written = KeyboardInterrupt(), []

    async def main():
        async with Runtime.open(tools=[explode("coroutine", crash)], rules=allow) as runtime:
            surface = await runtime.surface()
            try:
                await runtime.call("explode", {}, surface=surface)
            except type(crash):
                await sound(runtime)
                written.extend(
                    [record.status async for record in runtime.journal.export() if hasattr(record, "is_error")]
                )

    asyncio.run(main())
    assert written == ["canceled"]


@pytest.mark.parametrize("flavour", ["coroutine", "later", "stream"])
@pytest.mark.parametrize(
    "crash", [GeneratorExit(), Alien("from afar"), BaseExceptionGroup("b", [SystemExit(1)])], ids=named
)
async def test_an_exception_of_another_tree_is_a_result_too(once, flavour, crash):
    result = await once(explode(flavour, crash), {})
    assert (result.status, result.error.error_class) == ("failed", "execution_failed")
    assert type(crash).__name__ in result.error.message


@pytest.mark.parametrize("flavour", ["coroutine", "later", "stream"])
async def test_a_tool_that_cancels_itself_was_not_canceled_by_its_user(once, flavour):
    result = await once(explode(flavour, asyncio.CancelledError("own")), {})
    assert (result.status, result.error.error_class) == ("failed", "execution_failed")


def test_an_exception_whose_words_end_the_program_is_a_result_too(once):
    result = asyncio.run(once(explode("coroutine", Parting()), {}))
    assert result.error.error_class == "execution_failed"


async def test_a_tool_failure_without_an_error_says_what_to_raise_instead(once):
    @tool
    async def curt() -> str:
        """Fail in a word. Not for work."""
        raise ToolFailure("no")

    result = await once(curt, {})
    assert result.error.error_class == "execution_failed"
    assert "raise ValueError" in result.error.message
