"""`agenttool trust`: what a project would do, the question, the list, and the end of trust."""

import json
import os
import pty
import subprocess
import sys

import pytest

SETTINGS = """
[[hooks]]
name = "guard"
event = "pre_tool_use"
command = ["touch", "started"]

[sources.docs]
kind = "mcp"
url = "https://docs.example/mcp"
headers = { Authorization = "Bearer ${credentials.github}" }
"""
SCREEN = """\
{file} is not trusted. It would
  start      touch started
  connect to https://docs.example
  use        the credential github (yours)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A cloned project with settings, which is the working directory; the user has a credential."""
    config, folder = tmp_path / "config/agenttool", tmp_path / "project"
    config.mkdir(parents=True)
    folder.mkdir()
    (config / "agenttool.toml").write_text('[credentials.github]\nenv = "GITHUB_TOKEN"\n')
    (folder / "agenttool.toml").write_text(SETTINGS)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(folder)
    return folder


def state(run):
    return json.loads(run("settings", "--json").stdout)["files"][1]["state"]


@pytest.mark.parametrize(
    "words",
    [("tools",), ("call", "x"), ("log",), ("show",), ("status",), ("sources",), ("credentials",), ("policy", "rules")],
)
def test_commands_refuse_a_project_that_is_not_trusted(run, project, words):
    done = run(*words)
    assert done.exit_code == 2
    assert f"{project}/agenttool.toml is not trusted, so it is not used. It would start touch started" in done.stderr
    assert "use the credential github (yours)" in done.stderr
    assert f"agenttool trust {project}" in done.stderr
    assert not (project / "started").exists()


def test_a_file_that_the_user_names_needs_no_trust(run, project):
    assert run("credentials", "--settings", "agenttool.toml").exit_code == 0
    assert "is not trusted" in run("credentials").stderr


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ('[[rules]]\nbehavior = "denny"\ntool = "a"\n', "toml:1: behavior must be allow, ask or deny, got 'denny'"),
        ('[permissions]\nmode = "lax"\n', "toml:2: no permission mode is called 'lax'"),
        ('[[hooks]]\nname = "a"\nevent = "pre"\ncommand = ["a"]\n', "toml:1: event must be one or more of"),
        ('[sources.a]\nkind = "mpc"\n', "toml:1: no source is of the kind 'mpc'"),
        ('[credentials.a]\nenvv = "A"\n', "toml:1: [credentials.a] has no 'envv'; did you mean 'env'?"),
    ],
)
def test_settings_that_are_invalid_cannot_be_trusted(run, project, settings, reason):
    (project / "agenttool.toml").write_text(settings)
    done = run("trust", "--yes")
    assert (done.exit_code, reason in done.stderr) == (2, True)
    assert state(run) == "not trusted"


def test_without_a_terminal_trust_needs_a_word_and_prints_what_it_is_about(run, project):
    done = run("trust")
    assert (done.exit_code, done.stdout) == (2, SCREEN.format(file=project / "agenttool.toml"))
    assert "pass --yes" in done.stderr
    assert state(run) == "not trusted"
    done = run("trust", "--yes")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, f"trusted {project}/agenttool.toml")
    assert state(run) == "trusted"
    assert run("credentials").exit_code == 0


@pytest.mark.parametrize(("typed", "code", "after"), [(b"y\n", 0, "trusted"), (b"n\n", 1, "not trusted"), (b"\n", 1, "not trusted")])  # fmt: skip
def test_on_a_terminal_the_user_is_asked(run, project, typed, code, after):
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    command = [sys.executable, "-m", "agenttool", "trust"]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, timeout=60)
    os.close(ours)
    os.close(theirs)
    assert SCREEN.format(file=project / "agenttool.toml") in done.stdout
    assert (done.returncode, state(run)) == (code, after)


def test_trust_ends_with_a_change_and_can_be_revoked(run, project):
    run("trust", "--yes")
    (listed,) = map(json.loads, run("trust", "--list", "--json").stdout.splitlines())
    assert (listed["file"], listed["state"]) == (str(project / "agenttool.toml"), "trusted")
    (project / "agenttool.toml").write_text(SETTINGS + "# changed\n")
    assert "changed" in run("trust", "--list").stdout
    assert "has changed since you trusted it" in run("tools").stderr
    assert "has changed. It would" in run("trust").stdout
    run("trust", "--yes")
    done = run("trust", "--revoke", project)
    assert done.stdout == f"revoked {project}/agenttool.toml\n"
    assert state(run) == "not trusted"
    again = run("trust", "--revoke", project)
    assert (again.exit_code, "is not trusted; list the trusted files" in again.stderr) == (2, True)


def test_a_folder_is_trusted_with_its_local_file_and_as_json(run, project, monkeypatch):
    (project / "agenttool.local.toml").write_text('[store]\nurl = "memory:"\n')
    monkeypatch.chdir(project.parent)
    shown = [json.loads(each) for each in run("trust", project, "--yes", "--json").stdout.splitlines()]
    assert shown[1] == {
        "file": str(project / "agenttool.local.toml"),
        "state": "trusted",
        "would": [{"verb": "store", "what": "calls in memory:"}],
    }
    monkeypatch.chdir(project)
    assert run("credentials").exit_code == 0


@pytest.mark.parametrize(
    ("path", "reason"), [("/etc/hosts", "use --settings for it"), ("/", "no settings of a project")]
)
def test_only_files_that_are_found_can_be_trusted(run, project, path, reason):
    done = run("trust", path, "--yes")
    assert (done.exit_code, reason in done.stderr) == (2, True)


def test_what_init_writes_is_trusted_so_that_the_next_command_works(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("init").exit_code == 0
    assert state(run) == "trusted"
    assert run("policy", "rules").exit_code == 0


def test_init_adds_the_store_to_the_ignored_files_of_a_repository_once(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (run("init").exit_code, (tmp_path / ".gitignore").exists()) == (0, False)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build")
    for _ in range(2):
        (tmp_path / "agenttool.toml").unlink()
        assert run("init").exit_code == 0
        assert (tmp_path / ".gitignore").read_text() == "build\n/agenttool.db*\n/agenttool.*.db*\n"


def test_a_module_of_the_user_is_not_imported_from_a_project(run, project, tmp_path):
    (project / "agenttool.toml").unlink()
    own = tmp_path / "config/agenttool"
    (own / "agenttool.toml").write_text('[sources.mine]\nkind = "python"\nmodule = "mine_not_theirs"\n')
    tool = (
        'from agenttool import tool\n@tool(namespace="mine", read_only=True)\ndef {name}() -> str:\n    """Look."""\n'
    )
    (own / "mine_not_theirs.py").write_text(tool.format(name="good"))
    (project / "mine_not_theirs.py").write_text(tool.format(name="bad"))
    listed = run("tools").stdout
    assert ("good" in listed, "bad" in listed) == (True, False), listed
