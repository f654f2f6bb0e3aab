import inspect
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenttool import __version__
from agenttool.cli.main import COMMANDS, app, load_command

run = CliRunner().invoke


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_page_has_the_first_line_of_each_command(name):
    command = load_command(name).registered_commands[0]
    assert inspect.getdoc(command.callback).splitlines()[0] == COMMANDS[name][1]


def test_the_help_page_lists_every_command():
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


@pytest.mark.parametrize("name", ["approvals", "serve"])
def test_help_text_is_not_parsed_as_markup(name):
    page = run(app, [name, "--help"], env={"TERM": "dumb", "COLUMNS": "200"}).stdout
    assert "default: agenttool.toml in the working directory" in page
    assert re.search(r" ;", page) is None


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"], ["search", "add", "--from", "sums"]])
def test_characters_that_the_output_cannot_encode_are_escaped(words, tmp_path):
    source = ["from agenttool import tool", "@tool(namespace='math')", "def add(a: int) -> int:", '    """Add."""']
    (tmp_path / "sums.py").write_text("\n".join(source))
    done = subprocess.run(
        [sys.executable, "-m", "agenttool", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def words_of(page):
    return " ".join(page.replace("│", " ").split())


def test_a_table_of_the_settings_is_named_on_a_help_page():
    assert "as [store] in agenttool.toml says" in words_of(run(app, ["retain", "--help"]).stdout)


@pytest.mark.parametrize("words", [["serve"], ["verify"], ["policy", "replay"], ["rap", "check"], ["rap", "serve"]])
def test_the_lines_of_a_help_page_are_as_long_as_the_terminal_is_wide(words):
    page = run(app, [*words, "--help"], env={"TERM": "dumb", "COLUMNS": "64"}).stdout
    lines = [line.strip() for line in page.partition("╭")[0].splitlines()]
    ragged = [(one, other) for one, other in pairwise(lines) if one and other and len(f"{one} {other.split()[0]}") < 62]
    assert ragged == []


@pytest.mark.parametrize("words", [["search"], ["approvals"], ["rap", "serve"]])
def test_a_flag_is_shown_without_a_value(words):
    page = run(app, [*words, "--help"], env={"TERM": "dumb", "COLUMNS": "100"}).stdout
    assert "--json" in page
    assert "<bool>" not in page


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["conformance"]])
def test_a_full_disk_is_reported_in_one_line(words):
    with Path("/dev/full").open("wb") as full:
        outcome = subprocess.run(
            [sys.executable, "-m", "agenttool", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert outcome.returncode == 2
    assert outcome.stderr == (
        "the output cannot be written: No space left on device; free some space, or send it elsewhere\n"
    )
