import json

import pytest
from typer.testing import CliRunner

from agenttool.cli.main import app

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["call", "add", "--from", "nowhere"], "config_error"),
        (["call"], "usage_error"),
        (["call", "add", "--from", "nowhere", "--fly"], "usage_error"),
        (["fly"], "usage_error"),
        (["tools", "nowhere"], "config_error"),
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
def test_whoever_asks_for_json_is_told_in_json_why_a_command_stops(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = run(app, [*words, "--json"])
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["error_code"], told.stderr) == (2, code, "")
    spoken = run(app, words, env={"TERM": "dumb", "COLUMNS": "1000"})
    assert (spoken.exit_code, spoken.stdout) == (2, "")
    assert error["message"].split(";")[0] in spoken.stderr


def test_what_is_wrong_cannot_command_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spoken = run(app, ["tools", "no\x1b[2Jwhere"])
    assert "\x1b" not in spoken.stderr
    assert "no\\x1b[2Jwhere" in spoken.stderr
