import json

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
    (tmp_path / "agenttool.toml").write_text(
        '[permissions]\nmode = "default"\n[[rules]]\nname = "x"\nbehavior = "ask"\ntool = "*"\n'
    )
    (tmp_path / "agenttool.local.toml").write_text('[permissions]\nmode = "read_only"\n')
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


def test_an_invalid_settings_file_is_an_error_with_its_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agenttool.local.toml").write_text('[permissions]\nmood = "x"\n')
    done = run("settings")
    assert done.exit_code == 2
    assert "agenttool.local.toml:2: [permissions] has no 'mood'; did you mean 'mode'?" in done.stderr
