"""The command that messages suggest."""

import pytest

from agenttool.config.program import program_name


@pytest.mark.parametrize(
    ("folder", "has_script", "on_path", "expected"),
    [
        (".venv/bin", True, False, ".venv/bin/agenttool"),
        (".venv/bin", True, True, "agenttool"),
        ("/opt/a b/bin", False, False, "'/opt/a b/bin/python' -m agenttool"),
    ],
)
def test_a_suggested_command_starts_the_same_program(tmp_path, monkeypatch, folder, has_script, on_path, expected):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / folder
    if has_script:
        place.mkdir(parents=True)
        (place / "agenttool").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(place / "python"))
    monkeypatch.setenv("PATH", str(place) if on_path else "")
    assert program_name() == expected
