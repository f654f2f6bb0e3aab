import pytest

from agenttool.adapters.hook_commands.program import find_program


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hooks").mkdir()
    for name, mode in (("hooks/guard", 0o755), ("hooks/notes", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    return str(tmp_path)


def test_a_bare_name_is_found_on_the_path_and_a_place_below_the_folder(folder):
    assert find_program(("sh", "-c", "x"), folder=folder, path="/usr/bin:/bin")[1:] == ("-c", "x")
    assert find_program(("hooks/guard", "-v"), folder=folder, path=None) == (f"{folder}/hooks/guard", "-v")
    assert find_program((f"{folder}/hooks/guard",), folder="/", path=None) == (f"{folder}/hooks/guard",)
    assert find_program(("guard",), folder="/", path=f"{folder}/hooks") == (f"{folder}/hooks/guard",)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no-such-program", "no program on the PATH is called 'no-such-program'"),
        ("guard", "no program on the PATH"),
        ("./gone", "no program lies at"),
        ("hooks", "no program on the PATH"),
        ("./hooks", "no program lies at"),
    ],
)
def test_what_is_not_there_is_refused(folder, name, told):
    with pytest.raises(ValueError, match=told):
        find_program((name,), folder=folder, path="/usr/bin:/bin")


def test_what_may_not_be_executed_is_refused(folder):
    with pytest.raises(ValueError, match="may not be executed; make it executable"):
        find_program(("hooks/notes",), folder=folder, path=None)
