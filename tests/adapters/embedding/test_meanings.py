"""Vectors are made in the background, once per content, and search finds what shares no word with the query."""

import pytest

from agenttool import Runtime, tool
from agenttool.adapters.embedding.meanings import Meanings
from agenttool.adapters.embedding.model import open_model
from agenttool.errors import ConfigError


def test_the_same_content_is_put_to_the_model_once(static_model):
    encode, seen = open_model(static_model), []
    meanings = Meanings(lambda texts: seen.extend(texts) or encode(texts))
    for number, text in enumerate(["rain", "song", "rain", "invoice", "song"]):
        meanings.put(number, text)
        meanings.settle()
    meanings.remove(0)
    meanings.put(7, "rain")
    meanings.settle()
    assert sorted(seen) == ["invoice", "rain", "song"]
    assert set(meanings.nearest("umbrella", 2)) == {2, 7}
    assert set(meanings.likeness("umbrella", [0, 1, 2])) == {1, 2}


def test_what_is_not_known_yet_is_as_if_it_were_not_there(static_model):
    meanings = Meanings(open_model(static_model))
    assert meanings.nearest("umbrella", 3) == []
    assert meanings.likeness("umbrella", [1]) == {}


def test_a_text_that_the_model_fails_on_costs_no_other(static_model):
    encode = open_model(static_model)

    def choosy(texts):
        if "poison" in texts:
            raise ValueError
        return encode(texts)

    meanings = Meanings(choosy)
    for number, text in enumerate(["rain", "poison", "song", "invoice"]):
        meanings.put(number, text)
    meanings.settle()
    assert set(meanings.likeness("umbrella", range(4))) == {0, 2, 3}
    meanings.put(1, "umbrella")
    meanings.settle()
    assert set(meanings.nearest("umbrella", 2)) == {0, 1}


def check_weather(day: str) -> str:
    """Tell the weather forecast."""
    return day


def send_invoice(customer: str) -> str:
    """Bill a customer."""
    return customer


def start_music(title: str) -> str:
    """Play a song."""
    return title


@pytest.mark.parametrize("kind", ["static_model", "network"])
async def test_search_finds_what_shares_no_word_with_the_query(kind, request):
    folder = request.getfixturevalue(kind)
    tools = [tool(each) for each in (check_weather, send_invoice, start_music)]
    async with Runtime.open(tools=tools, search_model=folder) as rt:
        surface = await rt.surface()
        found = await rt.search("umbrella", surface=surface)
        assert found.matches[0].name.endswith("check_weather")
        assert found.matches[0].reason == "it means much the same"
        exact = await rt.search("send_invoice", surface=surface)
        assert exact.matches[0].name.endswith("send_invoice")


async def test_in_a_letter_one_sentence_is_the_wish(static_model):
    tools = [tool(each) for each in (check_weather, send_invoice, start_music)]
    async with Runtime.open(tools=tools, search_model=static_model) as rt:
        surface = await rt.surface()
        letter = (
            "Umbrella, rain rain? My friend was here yesterday. Hello!\nRain, umbrella. The song music song please."
        )
        found = await rt.search(letter, surface=surface)
    assert {each.name.rpartition(".")[2] for each in found.matches[:2]} == {"check_weather", "start_music"}


async def test_settings_name_the_folder_and_a_missing_one_is_refused(static_model, tmp_path):
    settings = tmp_path / "agenttool.toml"
    settings.write_text('[search]\nmodel = "."\n')
    async with Runtime.open(tools=[tool(check_weather)], config=settings) as rt:
        assert (await rt.search("forecast", surface=await rt.surface())).matches
    settings.write_text('[search]\nmodel = "nowhere"\n')
    with pytest.raises(ConfigError, match="there is no folder"):
        Runtime.open(config=settings)
    settings.write_text("[search]\nmodell = 3\n")
    with pytest.raises(ConfigError, match=r"toml:2: \[search\] has no 'modell'"):
        Runtime.open(config=settings)
