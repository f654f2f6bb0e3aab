"""Where things are kept, as settings say it."""

import asyncio

import pytest

from agenttool import ConfigError, Runtime, tool
from agenttool.config import read_config


@tool(namespace="math", read_only=True, open_world=False)
async def add(a: int) -> int:
    """Add. Not for text."""
    return a + 1


async def results_kept(**options):
    """Make a call, close, and count the calls that a new runtime finds."""
    async with Runtime.open(tools=[add], **options) as rt:
        made = await rt.call("add", {"a": 1}, surface=await rt.surface())
    async with Runtime.open(**options) as rt:
        return await rt.result(made.invocation_id) is not None


@pytest.fixture
def settings(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return home / "agenttool.toml"


def test_the_store_of_the_settings_lies_beside_them_wherever_the_program_is_started(settings, tmp_path, monkeypatch):
    settings.write_text('[store]\nurl = "sqlite:calls.db"\npayloads = "large"\n')
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(results_kept(config=settings))
    assert sorted(each.name for each in settings.parent.iterdir() if "calls.db-" not in each.name) == [
        "agenttool.toml",
        "calls.db",
        "large",
    ]


def test_a_program_that_names_a_store_is_heard_before_the_settings(settings, tmp_path):
    settings.write_text('[store]\nurl = "sqlite:calls.db"\n')
    assert asyncio.run(results_kept(config=settings, store=f"sqlite:{tmp_path}/own.db"))
    assert not asyncio.run(results_kept(config=settings, store="memory:"))
    assert not (settings.parent / "calls.db").exists()


def test_without_a_word_everything_stays_in_memory(settings):
    settings.write_text("")
    assert not asyncio.run(results_kept(config=settings))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[store]", 'FILE:1: [store] says not where; write url = "sqlite:agenttool.db"'),
        ('\n[store]\nurl = "postgres://x"', "FILE:2: no store answers to 'postgres://x'; use 'memory:' or 'sqlite:PATH'"),
        ("[store]\nurl = 1", "FILE:1: url must be text, got 1; write it in quotes"),
        ('\n\n[store]\nurl = ""', "FILE:3: url must be text, got ''; write it in quotes"),
        ('[store]\npath = "x"', "FILE:1: [store] has no 'path'; use one of payloads, url"),
        ("store = 1", "FILE:1: store must be a table; write [store]"),
    ],
)  # fmt: skip
def test_a_wrong_store_is_told_with_its_file_and_line(settings, text, told):
    settings.write_text(text)

    async def start():
        Runtime.open(config=settings)

    with pytest.raises(ConfigError) as error:
        asyncio.run(start())
    assert str(error.value).replace(str(settings), "FILE") == told


@pytest.mark.parametrize("port", [-1, 65_536, 99_999_999])
def test_a_port_that_no_machine_has_is_refused_with_its_line(tmp_path, port):
    file = tmp_path / "agenttool.toml"
    file.write_text(f"\n[server]\nport = {port}\n")
    with pytest.raises(ConfigError, match=rf"agenttool\.toml:2: port must be from 0 to 65535, got {port}"):
        read_config(file)
