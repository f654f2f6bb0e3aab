"""Where data is stored, according to the settings."""

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
        return await rt.journal.result(made.invocation_id) is not None


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


def test_a_program_that_names_a_store_takes_precedence_over_the_settings(settings, tmp_path):
    settings.write_text('[store]\nurl = "sqlite:calls.db"\n')
    assert asyncio.run(results_kept(config=settings, store=f"sqlite:{tmp_path}/own.db"))
    assert not asyncio.run(results_kept(config=settings, store="memory:"))
    assert not (settings.parent / "calls.db").exists()


def test_without_a_word_everything_stays_in_memory(settings):
    settings.write_text("")
    assert not asyncio.run(results_kept(config=settings))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[store]", 'FILE:1: url must be a text, got None; write url = "sqlite:agenttool.db"'),
        ('\n[store]\nurl = "postgres://x"', "FILE:3: no store answers to 'postgres://x'; use 'memory:', 'sqlite:PATH' or a PATH"),
        ("[store]\nurl = 1", 'FILE:2: url must be a text, got 1; write url = "sqlite:agenttool.db"'),
        ('\n\n[store]\nurl = ""', "FILE:4: url must be a text, got ''; write url = \"sqlite:agenttool.db\""),
        ('[store]\npath = "x"', "FILE:2: [store] has no 'path'; use one of url, payloads, payload_days, journal_days"),
        ("store = 1", "FILE:1: store must be a table; write [store]"),
    ],
)  # fmt: skip
def test_a_wrong_store_is_reported_with_its_file_and_line(settings, text, message):
    settings.write_text(text)

    async def start():
        Runtime.open(config=settings)

    with pytest.raises(ConfigError) as error:
        asyncio.run(start())
    assert str(error.value).replace(str(settings), "FILE") == message


@pytest.mark.parametrize("port", [-1, 65_536, 99_999_999])
def test_a_port_that_no_machine_has_is_refused_with_its_line(tmp_path, port):
    file = tmp_path / "agenttool.toml"
    file.write_text(f"\n[server]\nport = {port}\n")
    with pytest.raises(ConfigError, match=rf"agenttool\.toml:3: port must be from 0 to 65535, got {port}"):
        read_config(file)


NOT_A_LIST = "rules must be a list of tables; write [[rules]]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n[permission]\n", "FILE:2: no setting is called 'permission'; did you mean 'permissions'?"),
        ("\nmode = 1", "FILE:2: no setting is called 'mode'; use one of "),
        ('[permissions]\n\nmood = "x"', "FILE:3: [permissions] has no 'mood'; did you mean 'mode'?"),
        ("\n[permissions]\nmode = 1", "FILE:3: mode must be a text, got 1; write it in quotes"),
        ("permissions.mode = 1", "FILE:1: mode must be a text, got 1; write it in quotes"),
        ('[permissions]\n# mode =\nmode = "lax"', "FILE:3: no permission mode is called 'lax'; use one of default, "),
        ("[permissions]\ninteractive = 0", "FILE:2: interactive must be true or false, got 0; write one of them"),
        ("[permissions]\nworkspace = [1]", "FILE:2: workspace must be a folder or a list of folders, got [1]; write "),
        ("\npermissions = 1", "FILE:2: permissions must be a table; write [permissions]"),
        ("\n[rules]\nx = 1", "FILE:2: " + NOT_A_LIST),
        ("\nrules = [1]", "FILE:2: " + NOT_A_LIST),
        ("\n\n[telemetry]", "FILE:3: no setting is called 'telemetry'; use one of "),
        (
            '[surface]\nmax_tools = "many"',
            "FILE:2: max_tools must be a whole number or false, got 'many'; false means no",
        ),
        (
            "[surface]\nmax_tokens = true",
            "FILE:2: max_tokens must be a whole number or false, got True; false means no limit",
        ),
        ("[surface]\nhide_denied = 1", "FILE:2: hide_denied must be true or false, got 1; write one of them"),
        ('[surface]\nallows_shell = "no"', "FILE:2: allows_shell must be true or false, got 'no'; write one of them"),
        ('[surface]\ngates = "beta"', "FILE:2: gates must be a list of names, got 'beta'; write "),
        ("[surface]\nskills = [1]", "FILE:2: skills must be a list of names, got "),
        ("[search]\nmodel = 3", 'FILE:2: model must be a folder or "none", got 3; write model = "FOLDER"'),
        ("\nsources = 1", "FILE:2: sources must be tables; write [sources.NAME]"),
        ('[sources.a]\nkind = "rap"\n[sources.b]\nkind = "x"', "FILE:3: no source is of the kind 'x'; use one of "),
        ("[server]\nport = true", "FILE:2: port must be from 0 to 65535, got True; 0 is any free port"),
    ],
)
def test_whatever_is_wrong_in_the_settings_is_reported_with_its_line(settings, text, message):
    settings.write_text(text)

    async def start():
        Runtime.open(config=settings)

    with pytest.raises(ConfigError) as error:
        asyncio.run(start())
    assert str(error.value).replace(str(settings), "FILE").startswith(message)


def test_a_rule_keeps_its_own_line_whatever_tables_stand_between(settings):
    settings.write_text('[[rules]]\nid = "a"\n[rules.arguments]\nx = 1\n[[hooks]]\n\n[[ rules ]]\nid = "b"\n')
    assert [(each.members["id"], each.line) for each in read_config(settings).rules] == [("a", 1), ("b", 7)]
