"""Outputs and messages cost bounded work: large ones leave the event loop, and counting stops at a limit."""

import asyncio
import base64
import dataclasses
import json
import random
import threading
from types import SimpleNamespace
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from strategies import json_values

from agenttool import Context, Runtime, Sensitive, ToolFailure, tool
from agenttool.call.plan import MAX_INPUT_BYTES, MAX_INPUT_VALUES
from agenttool.codec import is_quick, visible_text
from agenttool.ports.output import MAX_TEXT_CHARS, MAX_VALUES
from agenttool.records import ErrorClass, Phase
from agenttool.results import mapping, media, persistence, redaction
from agenttool.results.failure import complete_error, guided
from agenttool.results.mapping_plan import PLAIN
from agenttool.results.media import MediaExtractor
from agenttool.results.redaction import (
    MARKER,
    MAX_SECRET_CHARS,
    MAX_SECRETS,
    compile_scrubber,
    map_json,
    scrubbed_message,
)
from agenttool.schema import explain
from agenttool.schema.compile import compile_schema


def returning(output):
    @tool(read_only=True, open_world=False)
    async def probe() -> object:
        """Return something. Not for anything else."""
        return output

    return probe


class Counted(list):
    """A list that counts how many of its items are read."""

    reads = 0

    def __iter__(self):
        for each in super().__iter__():
            self.reads += 1
            yield each


@pytest.mark.parametrize("kind", [list, tuple, set, lambda items: dict.fromkeys(items, 0)])
def test_an_output_over_the_limit_is_refused_before_its_items_are_read(kind):
    with pytest.raises(ToolFailure) as caught:
        mapping.map_output(kind(range(MAX_VALUES + 1)), PLAIN, "inv_x", "2026-01-01T00:00:00Z")
    assert caught.value.error.error_code == "too_many_values"
    counted = Counted(range(MAX_VALUES + 1))
    with pytest.raises(ToolFailure):
        mapping.map_output(counted, PLAIN, "inv_x", "2026-01-01T00:00:00Z")
    assert counted.reads == 0


@pytest.mark.parametrize("output", ["x" * (MAX_TEXT_CHARS + 1), ["x" * (MAX_TEXT_CHARS + 1)]])
def test_a_text_over_the_limit_is_refused(output):
    with pytest.raises(ToolFailure) as caught:
        mapping.map_output(output, PLAIN, "inv_x", "2026-01-01T00:00:00Z")
    assert caught.value.error.error_code == "too_many_characters"


@dataclasses.dataclass
class Rows:
    rows: list[int]


@pytest.mark.parametrize(
    ("output", "quick"),
    [
        (5, True),
        ("short", True),
        ({"a": [1, 2, {"b": None}]}, True),
        (Rows([1, 2]), True),
        ("x" * 200_000, False),
        ([[0] * 10] * 1000, False),
        (Rows([0] * 10_000), False),
        (b"x" * 1_000_000, False),
    ],
)
def test_only_a_large_output_is_mapped_in_a_worker_thread(output, quick, monkeypatch):
    assert is_quick(output) is quick
    threads = []
    plain = mapping.map_output

    def map_output(*args, **options):
        threads.append(threading.current_thread() is threading.main_thread())
        return plain(*args, **options)

    monkeypatch.setattr("agenttool.call.completion.map_output", map_output)

    async def scenario():
        async with Runtime.open(tools=[returning(output)]) as rt:
            return await rt.call("probe", {}, surface=await rt.surface())

    assert asyncio.run(scenario()).status == "succeeded"
    assert threads == [quick]


def called_with(arguments):
    @tool(read_only=True, open_world=False)
    async def probe(value: object) -> str:
        """Take anything. Not for outputs."""
        return "done"

    async def scenario():
        async with Runtime.open(tools=[probe]) as rt:
            result = await rt.call("probe", arguments, surface=await rt.surface())
            return result, await rt.journal.invocation(result.invocation_id)

    return asyncio.run(scenario())


OBJECTS = [{"a": number} for number in range(MAX_INPUT_VALUES // 2)]


@pytest.mark.parametrize("convert", [dict, json.dumps, lambda value: json.dumps(value).encode()])
@pytest.mark.parametrize(
    ("value", "unit"), [("x" * MAX_INPUT_BYTES, "bytes"), ([0] * MAX_INPUT_VALUES, "values"), (OBJECTS, "values")]
)
def test_an_input_over_the_limit_is_refused_and_not_recorded(value, unit, convert):
    result, invocation = called_with(convert({"value": value}))
    assert result.error.error_class == "schema_validation_failed"
    assert f"{unit}; pass a file" in result.error.message
    assert len(repr(invocation)) < 10_000


def test_an_input_over_the_limit_is_refused_before_the_types_of_its_members_are_checked(monkeypatch):
    checked = []
    monkeypatch.setattr("agenttool.codec.encode._has_json_types", lambda value: checked.append(len(value)) or True)
    result, _ = called_with({str(each): each for each in range(MAX_INPUT_VALUES + 1)})
    assert (f"{MAX_INPUT_VALUES} values" in result.error.message, MAX_INPUT_VALUES + 1 in checked) == (True, False)


@pytest.mark.parametrize("convert", [dict, json.dumps])
def test_an_input_with_very_long_integers_is_refused(convert):
    result, _ = called_with(convert({"value": [{"a": -(10**4000)}] * 200}))
    assert "integer of more than 300 digits; pass it as text" in result.error.message
    assert called_with(convert({"value": [10**299, "," + "1" * 20_000]}))[0].status == "succeeded"


@pytest.mark.parametrize("value", ["[,{" * 300_000, [0] * (MAX_INPUT_VALUES - 1), OBJECTS[1:]])
def test_an_input_at_the_limit_is_taken_whatever_its_texts_contain(value):
    assert called_with({"value": value})[0].status == "succeeded"


@pytest.mark.parametrize(("chars", "quick"), [(50_000, True), (200_000, False)])
def test_only_a_large_result_is_encoded_for_storing_in_a_worker_thread(chars, quick, monkeypatch):
    threads, plain = [], persistence.decide_persistence

    def decide(*args):
        threads.append(threading.current_thread() is threading.main_thread())
        return plain(*args)

    monkeypatch.setattr("agenttool.call.completion.decide_persistence", decide)

    async def scenario():
        async with Runtime.open(tools=[returning("x" * chars)]) as rt:
            return await rt.call("probe", {}, surface=await rt.surface())

    assert asyncio.run(scenario()).content[0].type == "persisted_output_ref"
    assert threads == [quick]


def test_no_copy_is_made_of_a_value_that_is_stored_as_text(monkeypatch):
    copied = []
    monkeypatch.setattr(mapping, "clone", copied.append)

    async def scenario():
        async with Runtime.open(tools=[returning([[each] for each in range(20_000)])]) as rt:
            result = await rt.call("probe", {}, surface=await rt.surface())
            return result, await rt.journal.payload(result.content[0].ref)

    result, stored = asyncio.run(scenario())
    assert (result.content[0].media_type, json.loads(stored)) == ("application/json", [[n] for n in range(20_000)])
    assert copied == []


@pytest.mark.parametrize("value", [["a"] * 10_000, {str(number): "a" for number in range(10_000)}])
def test_only_the_first_misfit_of_a_large_value_is_explained(value):
    integers = {"type": "integer"}
    checker = compile_schema({"items": integers, "additionalProperties": integers})
    assert [each.pointer for each in checker.misfits(value)] == ["/0"]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("count", "expected"), [(2, "a member 'a0' or a member 'a1'"), (3000, "one of 3000 alternatives")]
)
def test_the_alternatives_of_a_schema_are_explained_only_if_they_are_few(keyword, count, expected, monkeypatch):
    explained, explain_one = [], explain.explain
    monkeypatch.setattr(explain, "explain", lambda error: explained.append(error) or explain_one(error))
    checker = compile_schema({keyword: [{"required": [f"a{number}"]} for number in range(count)]})
    assert [each.expected for each in checker.misfits({"b": 1})] == [expected]
    assert len(explained) < 10


def test_a_large_input_that_does_not_fit_shows_none_of_its_values_in_records():
    @tool(read_only=True, open_world=False)
    async def probe(numbers: list[int], pin: Annotated[str, Sensitive]) -> str:
        """Take numbers. Not for texts."""
        return "done"

    async def scenario():
        async with Runtime.open(tools=[probe]) as rt:
            arguments = {"numbers": ["a"] * 10_000 + ["hunter22"], "pin": "1234"}
            result = await rt.call("probe", arguments, surface=await rt.surface())
            return result, [record async for record in rt.journal.export()]

    result, records = asyncio.run(scenario())
    assert result.error.error_class == "schema_validation_failed"
    assert "hunter22" not in repr(records)


@pytest.mark.parametrize("before", [0, 1, 255, 256, 257, 511, 600])
def test_base64_is_found_once_wherever_it_starts(before):
    data = bytes(range(256)) * 5
    coded = base64.b64encode(data).decode()
    text = "a " * 300 + "." * before + " " + coded + ". " + "a " * 300 + coded
    found = media.find_media(text)
    assert [text[each.start : each.end] for each in found] == [coded, coded]
    assert {each.data for each in found} == {data}


def test_a_text_of_many_heads_of_data_urls_is_searched_once(monkeypatch):
    head, searched = media._URL_HEAD, []

    class Counting:
        def fullmatch(self, text, start, end):
            searched.append(end - start)
            return head.fullmatch(text, start, end)

    monkeypatch.setattr(media, "_URL_HEAD", Counting())
    text = ("data:" + ";a=" * 20) * 20_000 + ";base64," + "QUJD" * 20
    assert [found.start for found in media.find_media(text)] == [text.rindex("data:")]
    assert sum(searched) <= 256


def test_many_texts_are_searched_together_before_each_of_them_is():
    scrubber, searched = compile_scrubber(["Qz7-first-last"]), []
    scrubber.text = lambda text: searched.append(text) or text
    value = {"names": [{"a few words": number} for number in range(1000)]}
    assert scrubber.value(value) is value
    assert MediaExtractor(scrubber).value(value) is value
    assert searched == []


@given(json_values(max_leaves=20), st.sampled_from(["value", "12.5", "Qz7\n-last"]))
def test_texts_that_are_searched_together_are_masked_as_each_alone(value, secret):
    scrubber = compile_scrubber([secret, "other-secret"])
    held = {"held": [value, {secret: f"{secret}!"}, "other-" + secret]}
    assert scrubber.value(held) == map_json(held, lambda leaf, _: scrubber.leaf(leaf), scrubber.text)


def test_a_call_with_very_many_secrets_has_its_texts_masked_as_a_whole():
    scrubber = compile_scrubber([f"secret {number}" for number in range(MAX_SECRETS + 1)])
    assert scrubber.text("something harmless") == MARKER
    assert scrubber.value({"a": ["something harmless", 1]}) == {"a": [MARKER, 1]}


def test_a_call_with_very_long_secrets_has_texts_that_may_hold_one_masked_as_a_whole(monkeypatch):
    monkeypatch.setattr(redaction, "forms_of", lambda _: pytest.fail("the forms of a very long secret were made"))
    document = "one long\u200bline " * MAX_SECRET_CHARS
    scrubber = compile_scrubber([document])
    assert scrubber.text("done") == "done"
    assert scrubber.text(f"a{document}b") == MARKER
    assert scrubbed_message("x" * 5_000, scrubber) == scrubbed_message("x" * 5_000, None)
    assert scrubbed_message(f"a{document}b", scrubber) == MARKER


class Counting:
    """A pattern that notes how many characters each of its searches may read."""

    def __init__(self, pattern):
        self.pattern, self.read = pattern, [0]

    def __getattr__(self, name):
        method = getattr(self.pattern, name)

        def search(*args):
            text = args[1] if name == "sub" else args[0]
            start, end = args[1:] if len(args) > 2 and name != "sub" else (0, len(text))
            self.read.append(end - start)
            return method(*args)

        return search


LONG = {
    "invisible": "a\u200b" * 150_000,
    "beyond ASCII": "für " * 75_000,
    "returns": "a\r" * 150_000,
    "terminal codes": "\x1b]\u200d" * 100_000,
}


@pytest.mark.parametrize("name", LONG)
async def test_no_search_for_hidden_characters_reads_a_long_text_at_once(monkeypatch, name):
    patterns = {each: Counting(getattr(visible_text, each)) for each in ("_HIDDEN", "_CANDIDATE", "_INVISIBLE")}
    for each, pattern in patterns.items():
        monkeypatch.setattr(visible_text, each, pattern)

    @tool(read_only=True, open_world=False)
    async def read(pin: Annotated[str, Sensitive], ctx: Context) -> str:
        """Read a long text."""
        ctx.progress(LONG[name])
        ctx.log(LONG[name])
        return LONG[name]

    @tool(read_only=True, open_world=False)
    async def fail(pin: Annotated[str, Sensitive]) -> str:
        """Fail with a long text."""
        raise ValueError(LONG[name])

    async with Runtime.open(tools=[read, fail]) as rt:
        assert (await rt.call("read", {"pin": "Qz7-first-last"})).ok
        assert not (await rt.call("fail", {"pin": "Qz7-first-last"})).ok
    assert max(max(pattern.read) for pattern in patterns.values()) < 50_000


def test_long_base64_is_found_part_by_part_and_returned_as_a_whole(monkeypatch):
    data = random.Random(7).randbytes(200_000)
    wrapped, plain = base64.encodebytes(data).decode(), base64.b64encode(data[:90_000]).decode()
    pattern = Counting(media._LONG_BASE64)
    text = "a\r\n" * 50_000 + f"\n{wrapped}. {plain} " + "a\n" * 50_000
    monkeypatch.setattr(media, "_LONG_BASE64", SimpleNamespace(search=pattern.search, match=pattern.pattern.match))
    assert [found.data for found in media.find_media(text)] == [data, data[:90_000]]
    assert max(pattern.read) < 50_000


def test_a_long_message_is_cut_before_it_is_searched_and_keeps_no_half_of_a_secret():
    scrubber, searched = compile_scrubber(["Qz7-first-last"]), []
    plain = scrubber.text
    scrubber.text = lambda text: searched.append(len(text)) or plain(text)
    for padding in range(9_900, 10_100):
        text = "a" * padding + "Qz7-first-last" + "b" * 5_000_000
        assert "Qz7-" not in scrubbed_message(text, scrubber, 20_000)
    assert max(searched) < 21_000
    error = guided(ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message="x" * 5_000_000)
    assert len(complete_error(error, scrubber).message) <= 2000


class Even(BaseModel):
    inner: "Even | Odd | None" = None
    even: int


class Odd(BaseModel):
    inner: "Even | Odd | None" = None
    odd: int


def test_a_value_that_fits_no_alternative_of_a_recursive_union_is_rejected_at_once():
    # The errors of all alternatives double with each level: 30 levels would take days.
    @tool(read_only=True, open_world=False)
    async def probe(node: Even | Odd) -> str:
        """Take a node. Not for trees."""
        return "done"

    async def scenario(node):
        async with Runtime.open(tools=[probe]) as rt:
            return await rt.call("probe", {"node": node}, surface=await rt.surface())

    node = {}
    for _ in range(60):
        node = {"inner": node}
    result = asyncio.run(scenario(node))
    assert "expected a value that fits the schema" in result.error.message


class Left(BaseModel):
    inner: "Left | Right | None" = None
    kind: Literal["left"]


class Right(BaseModel):
    inner: "Left | Right | None" = None
    kind: Literal["right"]


@pytest.mark.parametrize(("levels", "status"), [(8, "succeeded"), (60, "failed")])
def test_a_value_for_which_pydantic_would_try_too_many_alternatives_is_refused(levels, status):
    # Each level of the wrong alternative is read in full: 60 levels would never end.
    @tool(read_only=True, open_world=False)
    async def probe(node: Left | Right) -> str:
        """Take a node. Not for trees."""
        return "done"

    async def scenario(node):
        async with Runtime.open(tools=[probe]) as rt:
            return await rt.call("probe", {"node": node}, surface=await rt.surface())

    node = {"kind": "right"}
    for _ in range(levels):
        node = {"inner": node, "kind": "right"}
    result = asyncio.run(scenario(node))
    assert result.status == status
    if status == "failed":
        assert "discriminator" in result.error.message


class Tree(BaseModel):
    kind: Literal["tree"] = "tree"
    inner: "list[Tree | Leaf]" = []


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"


class Marked(BaseModel):
    inner: "Annotated[Marked | Plain, Field(discriminator='kind')] | None" = None
    kind: Literal["marked"]


class Plain(BaseModel):
    inner: "Annotated[Marked | Plain, Field(discriminator='kind')] | None" = None
    kind: Literal["plain"]


def test_trees_and_unions_with_a_discriminator_may_be_deep():
    @tool(read_only=True, open_world=False)
    async def probe(tree: Tree, node: Marked) -> str:
        """Take trees. Not for lists."""
        return "done"

    async def scenario():
        tree, node = {"kind": "tree"}, {"kind": "plain"}
        for _ in range(40):
            tree, node = {"inner": [{"kind": "leaf"}] * 20 + [tree]}, {"inner": node, "kind": "plain"}
        async with Runtime.open(tools=[probe]) as rt:
            arguments = {"tree": tree, "node": {"inner": node, "kind": "marked"}}
            return await rt.call("probe", arguments, surface=await rt.surface())

    assert asyncio.run(scenario()).status == "succeeded"
