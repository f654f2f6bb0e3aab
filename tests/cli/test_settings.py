import json

from project_settings import write_settings

from agenttool.config import load_config


def test_the_first_settings_file_is_valid_and_never_overwritten(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("init").stdout == "wrote agenttool.toml; see it with: agenttool settings\n"
    written = (tmp_path / "agenttool.toml").read_text()
    assert load_config(tmp_path / "agenttool.toml").store.url == "sqlite:agenttool.db"
    again = run("init")
    assert again.exit_code == 2
    assert "agenttool.toml exists; change it with an editor" in again.stderr
    assert (tmp_path / "agenttool.toml").read_text() == written


def test_settings_show_the_place_of_each_and_what_overrides_it(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_settings(
        tmp_path / "agenttool.toml",
        '[permissions]\nmode = "default"\n[[rules]]\nname = "x"\nbehavior = "ask"\ntool = "*"\n',
    )
    write_settings(tmp_path / "agenttool.local.toml", '[permissions]\nmode = "read_only"\n')
    shown = json.loads(run("settings", "--json").stdout)
    assert [(each["layer"], each["exists"]) for each in shown["files"]] == [
        ("user", False),
        ("project", True),
        ("local", True),
    ]
    assert [tuple(each.values()) for each in shown["settings"]] == [
        ("permissions.mode", "default", "agenttool.toml:2", "local"),
        ("[[rules]]", "x", "agenttool.toml:3", None),
        ("permissions.mode", "read_only", "agenttool.local.toml:2", None),
    ]


def test_the_strictest_mode_and_the_last_store_are_the_ones_that_apply(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_settings(
        tmp_path / "agenttool.toml",
        '[permissions]\nmode = "read_only"\n[store]\nurl = "sqlite:a.db"\njournal_days = 3\n[roles]\nx = "user:ada"\n',
    )
    write_settings(
        tmp_path / "agenttool.local.toml",
        '[permissions]\nmode = "default"\n[store]\nurl = "sqlite:b.db"\n[roles]\nx = "user:bob"\n',
    )
    rows = json.loads(run("settings", "--json").stdout)["settings"]
    assert [(each["setting"], each["value"], each["overridden_by"]) for each in rows] == [
        ("permissions.mode", "read_only", None),
        ("store.url", "sqlite:a.db", "local"),
        ("store.journal_days", 3, "local"),
        ("roles.x", "user:ada", None),
        ("permissions.mode", "default", "project"),
        ("store.url", "sqlite:b.db", None),
        ("roles.x", "user:bob", None),
    ]


SECRETS = """
[credentials.github]
command = ["echo", "hunter-2"]
[credentials.crm.actors]
"user:ada" = { file = "hunter-2" }
[sources.files]
kind = "mcp"
command = "npx"
args = ["server"]
env = { TOKEN = "hunter-2", LEVEL = "${credentials.github}" }
[sources.docs]
kind = "mcp"
url = "https://ada:hunter-2@docs.example/mcp?key=hunter-2"
headers = { Authorization = "Bearer ${credentials.github}", X-Key = "hunter-2", Y = "hunter-2 ${credentials.github}" }
[[hooks]]
name = "guard"
event = "pre_tool_use"
command = "guard"
env = { KEY = "hunter-2" }
"""


def test_secrets_in_settings_are_masked(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path / "agenttool.toml", SECRETS)
    shown = run("settings", "--json").stdout
    assert "hunter-2" not in shown + run("settings").stdout
    values = {each["setting"]: each["value"] for each in json.loads(shown)["settings"]}
    assert values["sources.docs"] == {
        "kind": "mcp",
        "url": "https://[redacted]@docs.example/mcp?[redacted]",
        "headers": {"Authorization": "Bearer ${credentials.github}", "X-Key": "[redacted]", "Y": "[redacted]"},
    }
    assert values["sources.files"]["env"] == {"TOKEN": "[redacted]", "LEVEL": "${credentials.github}"}
    assert values["credentials.github"] == {"command": ["[redacted]", "[redacted]"]}
    assert values["[[hooks]]"] == "guard"


def test_secrets_among_the_words_of_a_command_are_masked(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = ["--token", "hunter-2", "--api-key=hunter-2", "-H", "Authorization: Bearer hunter-2", "DB_PASSWORD=hunter-2"]
    shown = [
        "--token",
        "[redacted]",
        "--api-key=[redacted]",
        "-H",
        "Authorization: [redacted]",
        "DB_PASSWORD=[redacted]",
    ]
    plain = [
        "--token",
        "${credentials.github}",
        "--port=8080",
        "https://docs.example/mcp",
        "./server.py",
        "ghcr.io/docs:1",
    ]
    write_settings(
        tmp_path / "agenttool.toml",
        f'[sources.docs]\nkind = "mcp"\ncommand = "npx"\nargs = {json.dumps([*args, *plain])}\n'
        '[sources.files]\nkind = "mcp"\ncommand = "files --secret hunter-2"\n',
    )
    listed = run("settings", "--json").stdout
    assert "hunter-2" not in listed + run("settings").stdout
    values = {each["setting"]: each["value"] for each in json.loads(listed)["settings"]}
    assert values["sources.docs"]["args"] == [*shown, *plain]
    assert values["sources.files"]["command"] == "files --secret [redacted]"


def test_settings_are_shown_although_their_file_is_not_trusted(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agenttool.toml").write_text('[store]\nurl = "sqlite:calls.db"\n')
    done = run("settings", "--json")
    shown = json.loads(done.stdout)
    assert [(each["layer"], each["state"]) for each in shown["files"]] == [
        ("user", "none"),
        ("project", "not trusted"),
        ("local", "none"),
    ]
    assert shown["settings"][0]["value"] == "sqlite:calls.db"
    assert "a file is not trusted, so commands do not run here; see: agenttool trust" in run("settings").stdout


def test_an_invalid_settings_file_is_an_error_with_its_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path / "agenttool.local.toml", '[permissions]\nmood = "x"\n')
    done = run("settings")
    assert done.exit_code == 2
    assert "agenttool.local.toml:2: [permissions] has no 'mood'; did you mean 'mode'?" in done.stderr
