"""Vectors are made in the background, once per content, and search never waits for them."""

import asyncio
import dataclasses
import logging
from threading import Event

import pytest

from agenttool import Runtime, tool
from agenttool.adapters.embedding.meanings import Meanings
from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError

LONG_ENOUGH_S = 60.0


def check_weather(day: str) -> str:
    """Tell the weather forecast."""
    return day


def send_invoice(customer: str) -> str:
    """Bill a customer."""
    return customer


def start_music(title: str) -> str:
    """Play a song."""
    return title


def tools():
    return [tool(each) for each in (check_weather, send_invoice, start_music)]


@pytest.fixture
def use(monkeypatch):
    """Let runtimes have a model that encodes as told, in place of the one in the folder."""

    def use_instead(folder, encode=None, ask=None):
        model = open_model(folder)
        changed = dataclasses.replace(model, encode=encode or model.encode, ask=ask or model.ask)
        monkeypatch.setattr("agenttool.adapters.embedding.model.open_model", lambda _: changed)

    return use_instead


@pytest.fixture
def heard(static_model):
    """Give a model that notes what it is asked to read."""
    model, seen = open_model(static_model), []
    noting = dataclasses.replace(model, encode=lambda texts: seen.extend(texts) or model.encode(texts))
    return noting, seen


def test_the_same_content_is_put_to_the_model_once(heard):
    model, seen = heard
    meanings = Meanings(model)
    for number, text in enumerate(["rain", "song", "rain", "invoice", "song"]):
        meanings.put(number, text)
        meanings.settle(LONG_ENOUGH_S)
    meanings.remove(0)
    meanings.put(7, "rain")
    meanings.settle(LONG_ENOUGH_S)
    assert sorted(seen) == ["invoice", "rain", "song"]
    assert set(meanings.nearest("brolly", 2)) == {2, 7}
    assert set(meanings.likeness("brolly", [0, 1, 2])) == {1, 2}
    meanings.close()


def test_a_restart_asks_the_model_for_what_is_new_only(heard, tmp_path):
    model, seen = heard
    for texts in (["rain", "song"], ["rain", "song", "invoice"]):
        meanings = Meanings(model, tmp_path)
        for number, text in enumerate(texts):
            meanings.put(number, text)
        meanings.settle(LONG_ENOUGH_S)
        assert set(meanings.nearest("brolly", 9)) == set(range(len(texts)))
        meanings.close()
    assert sorted(seen) == ["invoice", "rain", "song"]


def test_what_is_not_known_yet_is_as_if_it_were_not_there(static_model):
    meanings = Meanings(open_model(static_model))
    assert meanings.nearest("brolly", 3) == []
    assert meanings.likeness("brolly", [1]) == {}
    meanings.close()


def test_a_text_that_is_replaced_while_it_is_read_never_answers_for_the_new_one(static_model):
    model, go, begun = open_model(static_model), Event(), Event()

    def slowly(texts):
        begun.set()
        assert go.wait(LONG_ENOUGH_S)
        return model.encode(texts)

    meanings = Meanings(dataclasses.replace(model, encode=slowly))
    meanings.put(1, "rain")
    assert begun.wait(LONG_ENOUGH_S)
    meanings.put(1, "song")
    meanings.put(2, "invoice")
    meanings.remove(2)
    go.set()
    meanings.settle(LONG_ENOUGH_S)
    assert meanings.likeness("music", [1, 2]) == {1: pytest.approx(1.0, abs=0.01)}
    meanings.close()


def test_a_text_that_the_model_fails_on_costs_no_other(static_model, caplog):
    model = open_model(static_model)

    def choosy(texts):
        if any("poison" in text for text in texts):
            raise ValueError(texts)
        return model.encode(texts)

    meanings = Meanings(dataclasses.replace(model, encode=choosy))
    for number, text in enumerate(["rain", "poison", "song", "poison pill", "invoice"]):
        meanings.put(number, text)
    meanings.settle(LONG_ENOUGH_S)
    assert set(meanings.likeness("brolly", range(5))) == {0, 2, 4}
    assert not meanings.pending
    assert len(caplog.records) == 1
    assert "poison" not in caplog.text
    meanings.close()


def about(word, number):
    """Make a tool that a word is said of."""

    def act(amount: int) -> int:
        return amount

    act.__name__, act.__doc__ = f"act_{word}_{number}", f"{word} {word}."
    return tool(act)


async def test_tools_that_mean_a_wish_make_room_as_those_do_that_share_a_word_with_one(static_model):
    by_meaning, by_words = "weather", "invoice"  # a bill is one, as every table of synonyms knows
    crowd = [about(by_meaning, number) for number in range(6)] + [about(by_words, number) for number in range(9)]
    async with Runtime.open(tools=crowd, search_model=static_model) as rt:
        surface = await rt.surface()
        assert await rt.prepare_search()
        found = await rt.search("Brolly, a brolly. Bill a customer.", surface=surface, limit=6)
        meant = [match.name.split("_")[1] for match in found.matches]
        assert sorted(meant) == [by_words] * 3 + [by_meaning] * 3


@pytest.mark.parametrize("kind", ["static_model", "network"])
async def test_search_finds_what_shares_no_word_with_the_query(kind, request):
    async with Runtime.open(tools=tools(), search_model=request.getfixturevalue(kind)) as rt:
        surface = await rt.surface()
        assert await rt.prepare_search()
        found = await rt.search("brolly", surface=surface)
        assert [match.name.rpartition(".")[2] for match in found.matches] == ["check_weather"]
        assert found.matches[0].reason == "it means much the same"
        assert found.pending_providers == ()
        exact = await rt.search("send_invoice", surface=surface)
        assert exact.matches[0].name.endswith("send_invoice")


async def test_search_does_not_wait_for_vectors_and_says_so(static_model, use):
    model, go = open_model(static_model), Event()
    use(static_model, encode=lambda texts: go.wait(LONG_ENOUGH_S) and model.encode(texts))
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        surface = await rt.surface()
        by_words = await rt.search("weather", surface=surface)
        nothing = await rt.search("brolly", surface=surface)
        ready = await rt.prepare_search(seconds=0)
        go.set()
        assert await rt.prepare_search(seconds=LONG_ENOUGH_S)
        by_meaning = await rt.search("brolly", surface=surface)
    assert not ready
    assert by_words.matches[0].name.endswith("check_weather")
    assert by_words.pending_providers == ("search_model",)
    assert (nothing.matches, nothing.next_action) == ((), "wait_for_provider")
    assert by_meaning.matches[0].name.endswith("check_weather")
    assert by_meaning.pending_providers == ()


async def test_one_tool_more_puts_one_text_to_the_model(static_model, use):
    model, seen = open_model(static_model), []
    use(static_model, encode=lambda texts: seen.extend(texts) or model.encode(texts))
    async with Runtime.open(tools=tools()[:2], search_model=static_model) as rt:
        assert await rt.prepare_search()
        before = len(seen)
        rt.declare(tools()[2])
        assert await rt.prepare_search()
        found = await rt.search("music", surface=await rt.surface())
    assert [text for text in seen[before:] if "tool search" not in text] == ["local start music. Play a song"]
    assert found.matches[0].name.endswith("start_music")


@pytest.mark.parametrize("fails", ["encode", "ask"])
async def test_a_model_that_fails_leaves_search_by_words_and_is_told_once(fails, static_model, use, caplog):
    def broken(texts):
        raise MemoryError(texts)

    use(static_model, **{fails: broken})
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        surface = await rt.surface()
        assert await rt.prepare_search(seconds=LONG_ENOUGH_S)
        for query in ("weather", "forecast", "weather"):
            found = await rt.search(query, surface=surface)
            assert [match.name.rpartition(".")[2] for match in found.matches] == ["check_weather"]
            assert found.pending_providers == ()
    (told,) = [record for record in caplog.records if record.name == "agenttool.search"]
    assert told.levelno == logging.WARNING
    assert "the search model failed (MemoryError)" in told.getMessage()


async def test_meaning_reveals_nothing_that_a_surface_leaves_out(static_model):
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        assert await rt.prepare_search()
        surface = await rt.surface(only=["send_invoice", "start_music"])
        found = await rt.search("brolly rain weather", surface=surface)
        assert not any("weather" in match.name for match in found.matches)


async def test_in_a_letter_one_sentence_is_the_wish(static_model):
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        surface = await rt.surface()
        assert await rt.prepare_search()
        letter = "Brolly, rain rain? My friend was here yesterday. Hello!\nRain, brolly. The song music song please."
        found = await rt.search(letter, surface=surface)
    assert {each.name.rpartition(".")[2] for each in found.matches[:2]} == {"check_weather", "start_music"}


async def test_settings_name_the_folder_and_a_missing_one_is_refused(static_model, tmp_path):
    settings = tmp_path / "agenttool.toml"
    settings.write_text('[search]\nmodel = "model"\n')
    async with Runtime.open(tools=[tool(check_weather)], config=settings) as rt:
        assert (await rt.search("forecast", surface=await rt.surface())).matches
    settings.write_text('[search]\nmodel = "nowhere"\n')
    with pytest.raises(ConfigError, match="there is no folder"):
        Runtime.open(config=settings)
    settings.write_text("[search]\nmodell = 3\n")
    with pytest.raises(ConfigError, match=r"toml:2: \[search\] has no 'modell'"):
        Runtime.open(config=settings)


async def test_searches_of_many_at_once_while_a_real_model_reads_end_well(real_model):
    made = [tool(_named(number)) for number in range(300)]
    async with Runtime.open(tools=made, search_model=real_model) as rt:
        surface = await rt.surface()
        asked = ["get rid of an account", "how hot is it outside", "task number 7"]
        early = await asyncio.gather(*(rt.search(query, surface=surface) for query in asked * 5))
        assert all(isinstance(each.matches, tuple) for each in early)
        assert await rt.prepare_search()
        found = await rt.search("get rid of an account", surface=surface, limit=5)
    assert all("user" in match.name for match in found.matches)


def _named(number):
    does = [("delete_user", "Remove a user for good."), ("read_thermometer", "Tell the temperature.")][number % 2]

    def function(number: int) -> int:
        return number

    function.__name__, function.__doc__ = f"{does[0]}_{number}", does[1]
    return function
