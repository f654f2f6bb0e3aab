import json

import pytest

from agenttool.adapters.hook_commands.process import Ended
from agenttool.adapters.hook_commands.wire import answer_of, told
from agenttool.errors import RecordError
from agenttool.ports.hooks import HookQuestion
from agenttool.records import HookEvent

QUESTION = HookQuestion(
    hook_event=HookEvent.PRE_TOOL_USE,
    invocation_id="inv_1",
    tool_id="tool_files.read",
    tool_name="files.read",
    input={"path": "ä"},
)


def ended(code=0, out=b"", err=b""):
    return Ended(code=code, out=out, err=err)


def test_a_command_is_told_what_any_hook_is_told():
    assert json.loads(told(QUESTION)) == {
        "hook_event": "pre_tool_use",
        "invocation_id": "inv_1",
        "tool_id": "tool_files.read",
        "tool_name": "files.read",
        "input": {"path": "ä"},
    }


@pytest.mark.parametrize("out", [b"", b" \n\t\n"])
def test_nothing_on_stdout_is_no_opinion(out):
    assert answer_of(ended(out=out, err=b"just talking"), str) is None


@pytest.mark.parametrize("out", [b"yes", b"[]", b'{"stop": ', b'{"a":1}{"b":2}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(out):
    with pytest.raises(RecordError, match="stdout must hold one JSON object or nothing"):
        answer_of(ended(out=out), str)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (1, "exit code 1: oops"),
        (-9, "killed by SIGKILL: oops"),
        (-11, "killed by SIGSEGV"),
        (-60, "killed by signal 60"),
    ],
)
def test_an_end_that_is_not_good_is_told_with_stderr_whatever_stdout_says(code, message):
    with pytest.raises(ChildProcessError, match=message):
        answer_of(ended(code, b'{"permission_result": "allow"}', b" oops\n"), str)


def test_stderr_is_cleaned_and_its_absence_is_told():
    with pytest.raises(ChildProcessError, match=r"exit code 1: token \*\*\*$"):
        answer_of(ended(1, err=b"token hunter2"), lambda text: text.replace("hunter2", "***"))
    with pytest.raises(ChildProcessError, match="it said nothing on stderr"):
        answer_of(ended(1), str)
