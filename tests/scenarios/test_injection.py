"""Parameters that the runtime fills, and results that are files."""

import asyncio
import datetime as dt
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

import pytest
from pydantic import Field

from agenttool import ConfigError, Context, File, Image, Inject, Runtime, tool

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


class Shelf:
    def __init__(self, *books):
        self.books = books


@tool(read_only=True)
def find(word: str, shelf: Annotated[Shelf, Inject]) -> list[str]:
    """Find books."""
    return [each for each in shelf.books if word in each]


@tool(read_only=True)
async def count(shelf: Annotated[Shelf, Inject], context: Context) -> int:
    """Count books."""
    context.progress("counting", percent=50)
    context.log("nearly done")
    await asyncio.sleep(0)
    return len(shelf.books)


async def test_an_injected_parameter_is_filled_by_type_and_no_model_sees_it():
    async with Runtime.open(tools=[find, count], provide={Shelf: Shelf("emma", "dune")}) as rt:
        assert (await rt.call("find", {"word": "e"})).value == ["emma", "dune"]
        assert (await rt.call("count", {})).value == 2
        assert (await rt.call("find", {"word": "e", "shelf": {}})).error.error_class == "schema_validation_failed"
        tools = (await rt.tools_for("openai")).request()["tools"]
    assert [sorted(each["function"]["parameters"]["properties"]) for each in tools] == [["word"], []]


async def test_a_function_that_is_provided_makes_an_object_for_each_call():
    made = []
    async with Runtime.open(tools=[count], provide={Shelf: lambda: made.append(1) or Shelf("emma")}) as rt:
        assert [(await rt.call("count", {})).value for _ in range(2)] == [1, 1]
    assert len(made) == 2


async def test_an_object_that_is_not_provided_is_named_at_start():
    with pytest.raises(ConfigError, match=r"parameter 'shelf' of find\(\) needs a Shelf; pass provide=\{Shelf: ...\}"):
        Runtime.open(tools=[find])


steps: list[str] = []


def open_shelf():
    steps.append("open")
    try:
        yield Shelf("emma", "dune")
    except ValueError as error:
        steps.append(f"failed: {error}")
    finally:
        steps.append("closed")


async def open_shelf_async():
    steps.append("open")
    try:
        yield Shelf("emma", "dune")
    finally:
        await asyncio.sleep(0)
        steps.append("closed")


@tool(read_only=True)
def size(shelf: Annotated[Shelf, Inject]) -> int:
    """Count books."""
    steps.append("run")
    if not shelf.books:
        raise ValueError("an empty shelf")
    return len(shelf.books)


async def make_shelf():
    await asyncio.sleep(0)
    return Shelf("emma", "dune")


@pytest.mark.parametrize("provider", [make_shelf, open_shelf, open_shelf_async, asynccontextmanager(open_shelf_async)])
async def test_a_provider_may_be_async_or_a_generator_that_is_closed_after_the_call(provider):
    steps.clear()
    async with Runtime.open(tools=[size], provide={Shelf: provider}) as rt:
        assert [(await rt.call("size", {})).value for _ in range(2)] == [2, 2]
    assert steps == (["run"] if provider is make_shelf else ["open", "run", "closed"]) * 2


async def test_a_generator_gets_the_exception_of_the_call_and_cannot_hide_it():
    def empty():
        for shelf in open_shelf():
            shelf.books = ()
            try:
                yield shelf
            except ValueError as error:
                steps.append(f"failed: {error}")

    steps.clear()
    async with Runtime.open(tools=[size], provide={Shelf: empty}) as rt:
        result = await rt.call("size", {})
    assert (result.ok, "an empty shelf" in result.error.message) == (False, True)
    assert steps == ["open", "run", "failed: an empty shelf", "closed"]


@dataclass
class Librarian:
    call: str
    shelf: Shelf


async def test_a_provider_gets_the_context_and_other_objects_and_a_type_is_made_once_for_a_call():
    async def librarian(ctx: Context, shelf: Annotated[Shelf, Inject]) -> Librarian:
        return Librarian(ctx.invocation_id, shelf)

    @tool(read_only=True)
    def ask(shelf: Annotated[Shelf, Inject], by: Annotated[Librarian, Inject]) -> str:
        """Ask."""
        return f"{by.call} {by.shelf is shelf}"

    async with Runtime.open(tools=[ask], provide={Shelf: open_shelf, Librarian: librarian}) as rt:
        result = await rt.call("ask", {})
    assert result.text == f"{result.invocation_id} True"


Book = TypeVar("Book")


class Repository(Generic[Book]):
    def __init__(self, name="none"):
        self.name = name


@pytest.mark.parametrize("annotation", [Annotated[Shelf | None, Inject], Annotated[Shelf, Inject] | None])
async def test_an_optional_parameter_is_none_if_nothing_is_provided(annotation):
    @tool(read_only=True)
    def look(shelf: annotation) -> str:
        """Look."""
        return "none" if shelf is None else "a shelf"

    async with Runtime.open(tools=[look]) as rt, Runtime.open(tools=[look], provide={Shelf: make_shelf}) as full:
        assert [(await each.call("look", {})).text for each in (rt, full)] == ["none", "a shelf"]


async def test_a_default_counts_if_nothing_is_provided():
    @tool(read_only=True)
    def peek(shelf: Annotated[Shelf, Inject] = Shelf("its own")) -> list[str]:  # noqa: B008 -- what is tested
        """Peek."""
        return list(shelf.books)

    async with Runtime.open(tools=[peek]) as rt:
        assert (await rt.call("peek", {})).value == ["its own"]


async def test_a_generic_type_is_provided_by_its_exact_name():
    @tool(read_only=True)
    def names(numbers: Annotated[Repository[int], Inject], words: Annotated[Repository[str], Inject]) -> str:
        """Say the names."""
        return f"{numbers.name} {words.name}"

    provide = {Repository[int]: Repository("numbers"), Repository[str]: lambda: Repository("words")}
    async with Runtime.open(tools=[names], provide=provide) as rt:
        assert (await rt.call("names", {})).text == "numbers words"
    message = r"'numbers' of names\(\) needs a Repository\[int\] \(Repository is provided, but a generic type must be the same"
    with pytest.raises(ConfigError, match=message):
        Runtime.open(tools=[names], provide={Repository: Repository()})


@pytest.mark.parametrize("annotation", [Shelf | int, Literal["a"], Repository[Book], None])
async def test_what_cannot_be_injected_is_named_at_the_declaration(annotation):
    def broken(shelf: Annotated[annotation, Inject]) -> int:
        """Break."""

    with pytest.raises(ConfigError, match=r"parameter 'shelf' of broken\(\) cannot be injected as .*mark one class"):
        tool(broken)


async def test_a_provider_that_cannot_be_called_is_named_at_start_and_one_that_returns_something_else_in_the_log(
    caplog,
):
    def needy(path: str) -> Shelf:
        return Shelf(path)

    def selfish(shelf: Annotated[Shelf, Inject]) -> Shelf:
        return shelf

    with pytest.raises(ConfigError, match=r"nothing fills the parameter 'path' of needy\(\), the provider of Shelf"):
        Runtime.open(tools=[size], provide={Shelf: needy})
    with pytest.raises(ConfigError, match="the providers need each other: Shelf needs Shelf"):
        Runtime.open(tools=[size], provide={Shelf: selfish})
    async with Runtime.open(tools=[size], provide={Shelf: lambda: None}) as rt:
        error = (await rt.call("size", {})).error
    assert error.error_class == "setup_required"
    assert error.message == "the provider of Shelf returned a NoneType"
    assert "the provider of Shelf returned a NoneType; return a Shelf from it" in caplog.text


async def test_progress_and_log_messages_are_recorded_with_the_call():
    async with Runtime.open(tools=[count], provide={Shelf: Shelf()}) as rt:
        await rt.call("count", {})
        progress = [each async for each in rt.journal.export() if each.__struct_config__.tag == "tool_progress"]
    assert [each.message for each in progress] == ["counting", "nearly done"]


async def test_files_images_and_bytes_are_results(tmp_path):
    (tmp_path / "note.txt").write_text("hello")

    @tool(read_only=True)
    def chart() -> Image:
        return Image(PNG)

    @tool(read_only=True)
    def note() -> File:
        return File(tmp_path / "note.txt")

    @tool(read_only=True)
    def raw() -> bytes:
        return PNG

    async with Runtime.open(tools=[chart, note, raw]) as rt:
        results = [await rt.call(name, {}) for name in ("chart", "note", "raw")]
    assert [each.ok for each in results] == [True, True, True]
    assert [each.content[0].media_type for each in results] == ["image/png", "text/plain", "image/png"]
    assert results[1].content[0].name == "note.txt"


async def test_numbers_written_as_text_are_refused_unless_the_tool_declares_that_it_takes_them():
    def scale(n: int, by: float = 1.0, up: bool = True) -> float:  # noqa: FBT001, FBT002 -- arguments of a tool
        """Scale a number."""
        return n * by if up else n / by

    strict, lenient = tool(name="strict", read_only=True)(scale), tool(read_only=True, coerce=True)(scale)
    async with Runtime.open(tools=[strict, lenient]) as rt:
        assert not (await rt.call("strict", {"n": "2"})).ok
        result = await rt.call("scale", {"n": "2", "by": "0.5", "up": "false"})
        invocation = await rt.journal.invocation(result.invocation_id)
        assert (await rt.call("scale", {"n": 3})).value == 3.0
        assert (await rt.call("scale", {"n": "two"})).error.error_class == "schema_validation_failed"
    assert result.value == 4.0
    assert invocation.model_input == {"n": "2", "by": "0.5", "up": "false"}
    assert invocation.call_input == {"n": 2, "by": 0.5, "up": False}


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"amount": "5", "tip": "2"}, "5 2"),
        ({"amount": 5, "tip": None}, "5 None"),
        ({"amount": "500"}, "at '/amount': expected a number of at most 100"),
        ({"amount": "-5"}, "at '/amount': expected a number of at least 1"),
    ],
)
async def test_a_number_written_as_text_has_the_limits_of_a_number(arguments, outcome):
    @tool(read_only=True, coerce=True)
    def pay(amount: Annotated[int, Field(ge=1, le=100)], tip: int | None = None) -> str:
        """Pay an amount."""
        return f"{amount} {tip}"

    async with Runtime.open(tools=[pay]) as rt:
        assert outcome in (await rt.call("pay", arguments)).text


class Color(Enum):
    RED = "red"


class Mood(StrEnum):
    CALM = "calm"


CASES = [
    (str, "text", 7),
    (str, Mood.CALM, None),
    (int, 3, "three"),
    (Color, Color.RED, "red"),
    (Mood, Mood.CALM, 5),
    (Mood, Mood.CALM, "wild"),
    (Mood | None, Mood.CALM, "wild"),
    (None, None, 5),
    (bytes, b"\xff", "text"),
    (bytes | None, None, 5),
    (Path, Path("a"), "a"),
    (Literal["a", "b"], "a", "c"),
    (Literal[1, 2] | None, 2, 3),
    (str | list[int], [1], ["x"]),
    (Annotated[str, "doc"], "text", 5),
    (Image, Image(b"\x89PNG"), "text"),
    (Fraction | None, None, 5),
    (dt.date, dt.date(2026, 1, 2), "soon"),
    (dt.datetime, dt.datetime(2026, 1, 2, tzinfo=dt.UTC), 5),
    (Color | None, None, 5),
]


@pytest.mark.parametrize(("kind", "right", "wrong"), CASES)
async def test_an_output_of_another_type_than_the_annotation_is_an_error(kind, right, wrong):
    async def give(is_right: bool):  # noqa: FBT001 -- an argument of a tool
        return right if is_right else wrong

    give.__annotations__["return"] = kind
    async with Runtime.open(tools=[tool(read_only=True)(give)]) as rt:
        good, bad = [await rt.call("give", {"is_right": each}) for each in (True, False)]
    assert good.ok, good
    assert bad.error.error_class == "result_mapping_failed", bad
