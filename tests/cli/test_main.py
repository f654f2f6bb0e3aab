import inspect
from importlib import import_module

import pytest
from typer.testing import CliRunner

from agenttool import __version__
from agenttool.cli.main import COMMANDS, app

run = CliRunner().invoke


@pytest.mark.parametrize("name", COMMANDS)
def test_the_front_page_says_of_a_command_what_the_command_says_of_itself(name):
    module, sentence = COMMANDS[name]
    command = import_module(module).app.registered_commands[0]
    assert inspect.getdoc(command.callback).splitlines()[0] == sentence


def test_the_front_page_lists_every_command():
    page = run(app, ["--help"]).stdout
    assert all(name in page for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(name):
    outcome = run(app, [name, "--help"], env={"TERM": "dumb", "COLUMNS": "100"})
    assert outcome.exit_code == 0
    assert "--json" in outcome.stdout


def test_the_version_can_be_asked_for():
    assert run(app, ["--version"]).stdout == f"agenttool {__version__}\n"


def test_an_unknown_command_is_refused():
    outcome = run(app, ["fly"])
    assert outcome.exit_code == 2
    assert "fly" in outcome.stderr
