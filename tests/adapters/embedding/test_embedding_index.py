"""Vectors are computed in the background, once per content, and search never waits for them."""

import asyncio
import logging
from threading import Event

import pytest

from agenttool import Runtime, tool
from agenttool.adapters.embedding.embedding_index import EmbeddingIndex
from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError

TIMEOUT_S = 60.0


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
    """Replace the functions of the model that runtimes open."""

    def use_instead(folder, encode=None, encode_query=None):
        model = open_model(folder)
        changed = model._replace(encode=encode or model.encode, encode_query=encode_query or model.encode_query)
        monkeypatch.setattr("agenttool.assemble.settings.open_model", lambda _: changed)

    return use_instead


@pytest.fixture
def recording(static_model):
    """Return a model, and the list of texts that it has encoded."""
    model, seen = open_model(static_model), []
    recorder = model._replace(encode=lambda texts: seen.extend(texts) or model.encode(texts))
    return recorder, seen


def test_equal_texts_are_encoded_once(recording):
    model, seen = recording
    index = EmbeddingIndex(model)
    for number, text in enumerate(["rain", "song", "rain", "invoice", "song"]):
        index.put(number, text)
        index.wait(TIMEOUT_S)
    index.remove(0)
    index.put(7, "rain")
    index.wait(TIMEOUT_S)
    assert sorted(seen) == ["invoice", "rain", "song"]
    assert set(index.nearest("brolly", 2)) == {2, 7}
    assert set(index.similarity("brolly", [0, 1, 2])) == {1, 2}
    index.close()


def test_after_a_restart_only_new_texts_are_encoded(recording, tmp_path):
    model, seen = recording
    for texts in (["rain", "song"], ["rain", "song", "invoice"]):
        index = EmbeddingIndex(model, tmp_path)
        for number, text in enumerate(texts):
            index.put(number, text)
        index.wait(TIMEOUT_S)
        assert set(index.nearest("brolly", 9)) == set(range(len(texts)))
        index.close()
    assert sorted(seen) == ["invoice", "rain", "song"]


def test_a_text_without_a_vector_is_treated_as_absent(static_model):
    index = EmbeddingIndex(open_model(static_model))
    assert index.nearest("brolly", 3) == []
    assert index.similarity("brolly", [1]) == {}
    index.close()


def test_a_text_replaced_while_it_is_encoded_leaves_no_vector(static_model):
    model, go, begun = open_model(static_model), Event(), Event()

    def slowly(texts):
        begun.set()
        assert go.wait(TIMEOUT_S)
        return model.encode(texts)

    index = EmbeddingIndex(model._replace(encode=slowly))
    index.put(1, "rain")
    assert begun.wait(TIMEOUT_S)
    index.put(1, "song")
    index.put(2, "invoice")
    index.remove(2)
    go.set()
    index.wait(TIMEOUT_S)
    assert index.similarity("music", [1, 2]) == {1: pytest.approx(1.0, abs=0.01)}
    index.close()


def test_after_a_text_that_the_model_fails_on_no_text_waits_and_the_warning_does_not_quote_it(static_model, caplog):
    model = open_model(static_model)

    def choosy(texts):
        if any("poison" in text for text in texts):
            raise ValueError(texts)
        return model.encode(texts)

    index = EmbeddingIndex(model._replace(encode=choosy))
    index.put(0, "rain")
    index.wait(TIMEOUT_S)
    for number, text in enumerate(["poison", "song", "poison pill"], 1):
        index.put(number, text)
    index.wait(TIMEOUT_S)
    assert 0 in index.similarity("brolly", range(5))
    assert not index.pending
    assert len(caplog.records) == 1
    assert "poison" not in caplog.text
    index.close()


@pytest.mark.parametrize("kind", ["static_model", "network"])
async def test_search_finds_a_tool_that_shares_no_word_with_the_query(kind, request):
    async with Runtime.open(tools=tools(), search_model=request.getfixturevalue(kind)) as rt:
        surface = await rt.surface()
        assert await rt.surfaces.prepare_search()
        found = await rt.search("brolly", surface=surface)
        assert [match.name.rpartition(".")[2] for match in found.matches] == ["check_weather"]
        assert found.matches[0].reason == "its meaning is similar"
        assert found.pending_providers == ()
        exact = await rt.search("send_invoice", surface=surface)
        assert exact.matches[0].name.endswith("send_invoice")


async def test_search_does_not_wait_for_vectors_and_reports_the_pending_model(static_model, use):
    model, go = open_model(static_model), Event()
    use(static_model, encode=lambda texts: go.wait(TIMEOUT_S) and model.encode(texts))
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        surface = await rt.surface()
        by_words = await rt.search("weather", surface=surface)
        nothing = await rt.search("brolly", surface=surface)
        ready = await rt.surfaces.prepare_search(seconds=0)
        go.set()
        assert await rt.surfaces.prepare_search(seconds=TIMEOUT_S)
        by_meaning = await rt.search("brolly", surface=surface)
    assert not ready
    assert by_words.matches[0].name.endswith("check_weather")
    assert by_words.pending_providers == ("search_model",)
    assert (nothing.matches, nothing.next_action) == ((), "wait_for_provider")
    assert by_meaning.matches[0].name.endswith("check_weather")
    assert by_meaning.pending_providers == ()


async def test_a_new_tool_leads_to_one_more_encoded_text(static_model, use):
    model, seen = open_model(static_model), []
    use(static_model, encode=lambda texts: seen.extend(texts) or model.encode(texts))
    async with Runtime.open(tools=tools()[:2], search_model=static_model) as rt:
        assert await rt.surfaces.prepare_search()
        before = len(seen)
        rt.declare(tools()[2])
        assert await rt.surfaces.prepare_search()
        found = await rt.search("music", surface=await rt.surface())
    assert [text for text in seen[before:] if "tool search" not in text] == ["local start music. Play a song"]
    assert found.matches[0].name.endswith("start_music")


@pytest.mark.parametrize("fails", ["encode", "encode_query"])
async def test_a_failing_model_leaves_search_by_words_and_is_logged_once(fails, static_model, use, caplog):
    def broken(texts):
        raise MemoryError(texts)

    use(static_model, **{fails: broken})
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        surface = await rt.surface()
        assert await rt.surfaces.prepare_search(seconds=TIMEOUT_S)
        for query in ("weather", "forecast", "weather"):
            found = await rt.search(query, surface=surface)
            assert [match.name.rpartition(".")[2] for match in found.matches] == ["check_weather"]
            assert found.pending_providers == ()
    (warning,) = [record for record in caplog.records if record.name == "agenttool.search"]
    assert warning.levelno == logging.WARNING
    assert "the search model failed (MemoryError)" in warning.getMessage()


async def test_search_by_meaning_does_not_reveal_absent_tools(static_model):
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        assert await rt.surfaces.prepare_search()
        surface = await rt.surface(only=["send_invoice", "start_music"])
        found = await rt.search("brolly rain weather", surface=surface)
        assert not any("weather" in match.name for match in found.matches)


async def test_each_sentence_of_a_letter_is_compared_separately(static_model):
    async with Runtime.open(tools=tools(), search_model=static_model) as rt:
        surface = await rt.surface()
        assert await rt.surfaces.prepare_search()
        letter = "Brolly, rain rain? My friend was here yesterday. Hello!\nRain, brolly. The song music song please."
        found = await rt.search(letter, surface=surface)
    assert {each.name.rpartition(".")[2] for each in found.matches[:2]} == {"check_weather", "start_music"}


async def test_settings_name_the_model_folder_and_a_missing_one_is_rejected(static_model, tmp_path):
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


async def test_concurrent_searches_work_while_a_real_model_encodes(real_model):
    made = [tool(_named(number)) for number in range(300)]
    async with Runtime.open(tools=made, search_model=real_model) as rt:
        surface = await rt.surface()
        asked = ["get rid of an account", "how hot is it outside", "task number 7"]
        early = await asyncio.gather(*(rt.search(query, surface=surface) for query in asked * 5))
        assert all(isinstance(each.matches, tuple) for each in early)
        assert await rt.surfaces.prepare_search()
        found = await rt.search("get rid of an account", surface=surface, limit=5)
    assert all("user" in match.name for match in found.matches)


def _named(number):
    does = [("delete_user", "Remove a user for good."), ("read_thermometer", "Tell the temperature.")][number % 2]

    def function(number: int) -> int:
        return number

    function.__name__, function.__doc__ = f"{does[0]}_{number}", does[1]
    return function
