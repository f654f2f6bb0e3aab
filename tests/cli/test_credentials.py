"""`agenttool credentials` lists sources and faults, fetches on request, and prints no value."""

import json

import pytest
from project_settings import write_settings
from typer.testing import CliRunner

from agenttool.cli.main import app

TOKEN = "ghp_0123456789abcdef"  # noqa: S105 -- not a real one
SETTINGS = """
[credentials.github]
env = "GITHUB_TOKEN"

[credentials.mail]
env = "NOT_SET_ANYWHERE"

[credentials.bank.actors]
"user:ada" = {env = "GITHUB_TOKEN"}
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    write_settings(tmp_path / "agenttool.toml", SETTINGS)
    return lambda *words: CliRunner().invoke(app, ["credentials", *words], env={"COLUMNS": "200", "TERM": "dumb"})


def test_each_credential_is_listed_with_its_source_and_whether_it_can_be_had(command):
    done = command("--json")
    assert done.exit_code == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"name": "github", "source": "env", "per_actor": False, "place": "agenttool.toml:2", "available": True},
        {
            "name": "mail",
            "source": "env",
            "per_actor": False,
            "place": "agenttool.toml:5",
            "available": False,
            "reason": "the environment variable 'NOT_SET_ANYWHERE' is not set (agenttool.toml:5); set it",
        },
        {"name": "bank", "source": "actors", "per_actor": True, "place": "agenttool.toml:8", "available": True},
    ]


def test_a_check_fetches_each_for_an_actor_and_fails_if_one_cannot_be_had(command):
    assert command("github", "bank", "--check", "--actor", "user:ada").exit_code == 0
    refused = command("bank", "--check", "--actor", "user:bob")
    assert refused.exit_code == 1
    assert "the actor 'user:bob' has none" in refused.stdout
    assert command("--check").exit_code == 1


def test_no_value_is_printed_and_a_wrong_name_gets_a_suggestion(command):
    printed = [command(*words) for words in ([], ["--check"], ["--check", "--json"], ["githb"])]
    assert not any(TOKEN in each.output for each in printed)
    assert "did you mean 'github'?" in printed[3].output


def test_settings_without_credentials_say_how_to_add_one(command, tmp_path):
    write_settings(tmp_path / "agenttool.toml", "")
    assert "add [credentials.NAME] to agenttool.toml" in command().output
