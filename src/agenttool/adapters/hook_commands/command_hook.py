"""Hooks that are external commands: one JSON object on stdin, nothing or one on stdout."""

import os.path
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from agenttool.adapters.hook_commands.process import ProcessResult, Program, run_program
from agenttool.codec import json_bytes, parse_object
from agenttool.errors import RecordError
from agenttool.ports.hooks import HookQuestion
from agenttool.records import JsonObject


def find_program(command: tuple[str, ...], *, folder: str, path: str | None) -> tuple[str, ...]:
    """Return a command with the absolute path of its program, so that a missing program is found at start.

    A bare name is searched on `path`; a name with a slash is relative to `folder`, unless it is absolute.

    Raises:
        ValueError: there is no such program, or it may not be executed.
    """
    name, *arguments = command
    place = os.path.join(folder, name) if "/" in name else name  # noqa: PTH118 -- a command is text, and stays as written
    found = shutil.which(place, path=path)
    if found is None:
        raise ValueError(f"no program {place!r} can be executed; install it, or correct its path or its mode")
    return found, *arguments


def question_json(question: HookQuestion) -> bytes:
    """Return a question as one JSON object; `output` and `details` are left out if the event has none."""
    members: JsonObject = {
        "hook_event": question.hook_event.value,
        "invocation_id": question.invocation_id,
        "tool_id": question.tool_id,
        "tool_name": question.tool_name,
        "input": question.input,
        "output": question.output,
        "details": question.details,
    }
    return json_bytes({name: value for name, value in members.items() if value is not None})


def parse_answer(ended: ProcessResult, clean: Callable[[str], str]) -> JsonObject | None:
    """Parse the answer of a command that succeeded; an empty stdout is no vote.

    Args:
        ended: its exit code and its output.
        clean: removes secrets from its stderr.

    Raises:
        ChildProcessError: its exit code is not 0; the message contains its stderr.
        RecordError: its stdout is not a JSON object.
    """
    if ended.code:
        written = clean(ended.err.decode(errors="replace")).strip() or "its stderr is empty"
        end = f"exit code {ended.code}" if ended.code > 0 else f"killed by signal {-ended.code}"
        raise ChildProcessError(f"{end}: {written}")
    if not ended.out.strip():
        return None
    try:
        return parse_object(ended.out, what="it")
    except RecordError as error:
        raise RecordError(f"stdout must hold one JSON object or nothing: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """Runs a program for every question: the question on stdin, the answer on stdout.

    It has no timeout of its own: the caller cancels the run, which kills the process group.

    Attributes:
        clean: removes secrets from the program's stderr, which becomes part of error messages.
    """

    program: Program
    clean: Callable[[str], str] = str

    async def run(self, question: HookQuestion) -> object:
        """Run the command.

        Raises:
            OSError: it could not be started, failed, or wrote too much.
            RecordError: its output is not a JSON object.
        """
        return parse_answer(await run_program(self.program, question_json(question)), self.clean)
