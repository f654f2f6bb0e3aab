import json

import pytest

from agenttool.adapters.hook_commands.command_hook import find_program, parse_answer, question_json
from agenttool.adapters.hook_commands.process import ProcessResult
from agenttool.errors import RecordError
from agenttool.ports.hooks import HookQuestion
from agenttool.records import HookEvent


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


@pytest.mark.parametrize("name", ["no-such-program", "guard", "./gone", "hooks", "./hooks", "hooks/notes"])
def test_what_is_not_there_or_may_not_be_executed_is_refused(folder, name):
    with pytest.raises(ValueError, match="can be executed; install it, or correct its path or its mode"):
        find_program((name,), folder=folder, path="/usr/bin:/bin")


QUESTION = HookQuestion(
    hook_event=HookEvent.PRE_TOOL_USE,
    invocation_id="inv_1",
    tool_id="tool_files.read",
    tool_name="files.read",
    input={"path": "ä"},
)


def ended(code=0, out=b"", err=b""):
    return ProcessResult(code=code, out=out, err=err)


def test_a_command_gets_what_any_hook_gets():
    assert json.loads(question_json(QUESTION)) == {
        "hook_event": "pre_tool_use",
        "invocation_id": "inv_1",
        "tool_id": "tool_files.read",
        "tool_name": "files.read",
        "input": {"path": "ä"},
    }


@pytest.mark.parametrize("out", [b"", b" \n\t\n"])
def test_nothing_on_stdout_is_no_opinion(out):
    assert parse_answer(ended(out=out, err=b"just talking"), str) is None


@pytest.mark.parametrize("out", [b"yes", b"[]", b'{"stop": ', b'{"a":1}{"b":2}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(out):
    with pytest.raises(RecordError, match="stdout must hold one JSON object or nothing"):
        parse_answer(ended(out=out), str)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (1, "exit code 1: oops"),
        (-9, "killed by signal 9: oops"),
        (-11, "killed by signal 11"),
        (-60, "killed by signal 60"),
    ],
)
def test_an_end_that_is_not_good_is_reported_with_stderr_whatever_stdout_says(code, message):
    with pytest.raises(ChildProcessError, match=message):
        parse_answer(ended(code, b'{"permission_result": "allow"}', b" oops\n"), str)


def test_stderr_is_cleaned_and_its_absence_is_reported():
    with pytest.raises(ChildProcessError, match=r"exit code 1: token \*\*\*$"):
        parse_answer(ended(1, err=b"token hunter2"), lambda text: text.replace("hunter2", "***"))
    with pytest.raises(ChildProcessError, match="its stderr is empty"):
        parse_answer(ended(1), str)
