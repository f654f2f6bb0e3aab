import json

import pytest
from typer.testing import CliRunner

from agenttool.cli.main import app
from agenttool.cli.output import plain_table, print_blocks
from agenttool.history.printable import one_line, printable

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["call", "add", "--from", "nowhere"], "config_error"),
        (["call"], "usage_error"),
        (["call", "add", "--from", "nowhere", "--fly"], "usage_error"),
        (["fly"], "usage_error"),
        (["tools", "--from", "nowhere"], "config_error"),
        (["search", "bread", "--from", "nowhere"], "config_error"),
        (["approvals", "--store", "nowhere.db"], "config_error"),
        (["show", "--store", "nowhere.db"], "config_error"),
        (["log", "--store", "nowhere.db"], "config_error"),
        (["export", "--store", "nowhere.db"], "config_error"),
        (["verify", "--store", "nowhere.db"], "config_error"),
        (["validate", "nowhere.jsonl"], "unusable"),
        (["conformance", "--area", "NOWHERE"], "unusable"),
    ],
)
def test_errors_are_json_when_json_is_asked_for(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = run(app, [*words, "--json"])
    error = json.loads(printed.stdout)["error"]
    assert (printed.exit_code, error["error_code"], printed.stderr) == (2, code, "")
    spoken = run(app, words, env={"TERM": "dumb", "COLUMNS": "1000"})
    assert (spoken.exit_code, spoken.stdout) == (2, "")
    assert error["message"].split(";")[0] in spoken.stderr


def test_an_error_message_cannot_control_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spoken = run(app, ["tools", "--from", "no\x1b[2Jwhere"])
    assert "\x1b" not in spoken.stderr
    assert "no\\x1b[2Jwhere" in spoken.stderr


def test_characters_that_control_a_terminal_are_escaped():
    assert printable("a\x1b[2J\u202eb\n") == "a\\x1b[2J\\u202eb\\n"
    assert printable("a\x07\nb", keep="\n") == "a\\x07\nb"
    assert printable("grün …") == "grün …"
    assert one_line("a\n  9\tb\x1b[2J") == "a 9 b\\x1b[2J"


@pytest.mark.parametrize(("columns", "lines"), [(None, 2), ("80", 4)])
def test_a_table_has_one_line_for_each_row_without_a_terminal_unless_its_width_is_set(
    capsys, monkeypatch, columns, lines
):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    print_blocks([plain_table("tool", "description", rows=[("math.add", "long " * 40)])])
    assert len(capsys.readouterr().out.splitlines()) == lines
