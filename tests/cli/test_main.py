import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from agenttool import __version__
from agenttool.cli.commands import COMMANDS, EXAMPLES, GROUPS
from agenttool.cli.main import app, load_command

run = CliRunner().invoke
LAZY = typer.main.get_command(app)
CONTEXT = LAZY.make_context("agenttool", [], resilient_parsing=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_page_has_the_first_line_of_each_command(name):
    loaded = load_command(name)
    command = (
        loaded.registered_callback if name in ("policy", "sources", "keys", "store") else loaded.registered_commands[0]
    )
    assert inspect.getdoc(command.callback).splitlines()[0] == COMMANDS[name][1]


@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_help_page_lists_every_command_in_its_group(columns):
    page = run(app, ["--help"], env={"TERM": "dumb", "COLUMNS": columns}).stdout
    found = re.findall(r"^(?:([A-Z][a-z ]+)|  ([a-z-]+)  +([A-Z].*))$", page, re.MULTILINE)
    listed = [title or (name, sentence) for title, name, sentence in found]
    expected = []
    for title, commands in GROUPS.items():
        expected += [title, *((name, sentence) for name, (_, sentence) in commands.items())]
    assert listed[: len(expected)] == expected, "each command takes one line, also in 80 columns"
    assert EXAMPLES[""][0] in page


def leaf(words):
    """Return the command that an example runs, its path, and the words after it."""
    command = LAZY.get_command(CONTEXT, words[0])
    path, rest = words[0], words[1:]
    if subcommands := getattr(command, "commands", None):
        command, path, rest = subcommands[rest[0]], f"{path} {rest[0]}", rest[1:]
    return command, path, rest


PATHS = [
    path
    for name in COMMANDS
    for path in ([f"{name} {each}" for each in getattr(LAZY.get_command(CONTEXT, name), "commands", {})] or [name])
]


@pytest.mark.parametrize("path", PATHS)
def test_the_help_of_every_command_ends_with_examples_that_it_accepts(path):
    page = run(app, [*path.split(), "--help"], env={"TERM": "dumb", "COLUMNS": "200"}).stdout
    _, _, shown = page.partition("Examples")
    assert [line.strip() for line in shown.splitlines() if line.strip()] == list(EXAMPLES[path])
    for example in EXAMPLES[path]:
        words = shlex.split(example.split(" | ")[0])
        command, found, rest = leaf(words[1:])
        assert words[0] == "agenttool"
        assert found == path or " | " in example
        command.make_context(found, rest)  # raises for an unknown option, and for a missing or wrong value


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["valdate"], "Did you mean 'validate'?"),
        (["policy", "repaly"], "Did you mean 'replay'?"),
        (["log", "--statsu", "failed"], "--status"),
    ],
)
def test_a_misspelled_command_or_option_gets_a_suggestion(words, says):
    outcome = run(app, words, env={"TERM": "dumb", "COLUMNS": "200"})
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert says in outcome.stderr
    as_json = run(app, [*words, "--json"])
    assert says in json.loads(as_json.stdout)["error"]["message"]


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("agenttool va", ["validate"]),
        ("agenttool log --si", ["--since", "--sizes"]),
        ("agenttool log --status time", ["timed_out"]),
        ("agenttool call --from shapes sq", ["square"]),
        ("agenttool call --from shapes geo", ["geometry.square", "geometry.circle"]),
        ("agenttool call --from nowhere sq", []),
    ],
)
def test_a_shell_completes_commands_options_statuses_and_tools(words, completions, tmp_path):
    source = "from agenttool import tool\n@tool(namespace='geometry')\ndef {}(a: int) -> int:\n    'Measure.'\n"
    (tmp_path / "shapes.py").write_text(source.format("square") + source.format("circle"))
    env = {"_AGENTTOOL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    program = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'agenttool'; from agenttool.cli import start; start.main()",
    ]
    done = subprocess.run(program, cwd=tmp_path, env=os.environ | env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == completions


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
    assert "default: agenttool.toml here or above" in page
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
    assert "in [store] of agenttool.toml" in words_of(run(app, ["retain", "--help"]).stdout)


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
