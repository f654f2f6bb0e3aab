"""Outputs and messages cost bounded work: large ones leave the event loop, and counting stops at a limit."""

import asyncio
import dataclasses
import threading

import pytest

from agenttool import Runtime, ToolFailure, tool
from agenttool.records import ErrorClass, Phase
from agenttool.results import mapping, media
from agenttool.results.failure import complete_error, guided
from agenttool.results.jsonable import MAX_TEXT_CHARS, MAX_VALUES, is_quick
from agenttool.results.redaction import MARKER, MAX_SECRETS, compile_scrubber, scrubbed_message


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
        mapping.map_output(kind(range(MAX_VALUES + 1)), mapping.PLAIN, "inv_x", "2026-01-01T00:00:00Z")
    assert caught.value.error.error_code == "too_many_values"
    counted = Counted(range(MAX_VALUES + 1))
    with pytest.raises(ToolFailure):
        mapping.map_output(counted, mapping.PLAIN, "inv_x", "2026-01-01T00:00:00Z")
    assert counted.reads == 0


@pytest.mark.parametrize("output", ["x" * (MAX_TEXT_CHARS + 1), ["x" * (MAX_TEXT_CHARS + 1)]])
def test_a_text_over_the_limit_is_refused(output):
    with pytest.raises(ToolFailure) as caught:
        mapping.map_output(output, mapping.PLAIN, "inv_x", "2026-01-01T00:00:00Z")
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

    def map_output(*args):
        threads.append(threading.current_thread() is threading.main_thread())
        return plain(*args)

    monkeypatch.setattr("agenttool.pipeline.phases.result.map_output", map_output)

    async def story():
        async with Runtime.open(tools=[returning(output)]) as rt:
            return await rt.call("probe", {}, surface=await rt.surface())

    assert asyncio.run(story()).status == "succeeded"
    assert threads == [quick]


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


def test_a_call_with_very_many_secrets_has_its_texts_masked_as_a_whole():
    scrubber = compile_scrubber([f"secret {number}" for number in range(MAX_SECRETS + 1)])
    assert scrubber.text("something harmless") == MARKER
    assert scrubber.value({"a": ["something harmless", 1]}) == {"a": [MARKER, 1]}


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
