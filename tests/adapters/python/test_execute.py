import asyncio
import datetime as dt
import threading
from dataclasses import dataclass

import pytest

from agenttool import Context, Progress, Runtime, tool
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]


async def run(declared, arguments):
    async with Runtime.open(tools=[declared], rules=ALLOW) as rt:
        surface = await rt.surface()
        result = await rt.call(declared.declared.declaration.name, arguments, surface=surface)
        events = [event async for event in history(rt)]
    return result, events


async def history(rt):
    async for _, event in rt.journal.events():
        yield event
        if event.event_type.is_terminal:
            return


async def test_a_plain_function_runs_in_a_thread_and_the_loop_continues():
    @tool
    def where() -> bool:
        """Return whether it runs in the main thread."""
        return threading.current_thread() is threading.main_thread()

    result, _ = await run(where, {})
    assert result.structured_content is False


async def test_arguments_arrive_as_the_types_the_author_asked_for():
    @dataclass
    class Stay:
        nights: int
        start: dt.date
        walk: dt.timedelta = dt.timedelta()

    @tool
    async def book(stay: Stay, tags: set[str]) -> str:
        """Book a stay. Not for flights."""
        return f"{type(stay).__name__} {stay.start.isoformat()} {stay.nights} {sorted(tags)}"

    result, _ = await run(book, {"stay": {"nights": 2, "start": "2026-05-08"}, "tags": ["b", "a"]})
    assert result.model_facing_content[0].text == "Stay 2026-05-08 2 ['a', 'b']"
    unfit, _ = await run(book, {"stay": {"nights": 2, "start": "2026-02-30"}, "tags": []})
    assert unfit.error.error_class == "schema_validation_failed"
    wrong, _ = await run(book, {"stay": {"nights": 2, "start": "2026-05-08", "walk": "a while"}, "tags": []})
    assert wrong.error.error_class == "invalid_arguments"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_generator_reports_progress_and_its_parts_are_the_result(is_async):
    if is_async:

        @tool
        async def count(to: int):
            """Count. Not for sheep."""
            for n in range(1, to + 1):
                yield Progress(f"at {n}", percent=100 * n / to)
                yield {"n": n}
    else:

        @tool
        def count(to: int):
            """Count. Not for sheep."""
            for n in range(1, to + 1):
                yield Progress(f"at {n}", percent=100 * n / to)
                yield {"n": n}

    result, events = await run(count, {"to": 3})
    assert result.structured_content == [{"n": 1}, {"n": 2}, {"n": 3}]
    kinds = [event.event_type.value.rsplit(".", 1)[-1] for event in events]
    assert kinds.count("progress") == 3
    assert kinds.count("partial_result") == 3


@pytest.mark.parametrize(
    ("parts", "value"),
    [(["a ", "b"], "a b"), ([{"row": 1}], {"row": 1}), (["a", 1], ["a", 1]), ([[1], [2]], [[1], [2]]), ([], None)],
)
async def test_texts_that_a_generator_yields_are_joined_and_other_parts_are_a_list(parts, value):
    @tool
    def rows():
        """Return rows."""
        yield from parts

    @tool
    async def rows_async():
        """Return rows."""
        for part in parts:
            yield part

    for declared in (rows, rows_async):
        result, _ = await run(declared, {})
        assert (result.ok, result.value) == (True, value)


async def test_the_return_value_of_a_generator_is_its_result():
    @tool
    def count():
        """Count."""
        yield 1
        yield 2
        return "counted"

    result, _ = await run(count, {})
    assert result.value == "counted"


async def test_a_generator_that_never_waits_and_never_ends_is_stopped_by_its_deadline():
    @tool(timeout_s=0.05)
    async def flood():
        """Yield for ever."""
        while True:
            yield Progress("more")

    result, _ = await run(flood, {})
    assert result.error.error_class == "timeout"


async def test_a_tool_in_a_thread_can_report_and_see_that_it_should_stop():
    seen = []

    @tool(timeout_s=1)  # so long that its thread reports before
    def slow(context: Context) -> str:
        """Wait for the signal to stop."""
        context.progress("working", percent=5)
        while not context.is_canceled:
            threading.Event().wait(0.001)
        seen.append(context.cancel_reason)
        return "stopped"

    result, events = await run(slow, {})
    assert result.error.error_class == "timeout"
    assert any((event.data or {}).get("message") == "working" for event in events)
    while not seen:  # noqa: ASYNC110 -- a thread sends no event
        await asyncio.sleep(0.001)
    assert seen == ["timeout"]
