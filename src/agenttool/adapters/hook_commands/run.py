"""A hook that is an external command."""

from collections.abc import Callable
from dataclasses import dataclass

from agenttool.adapters.hook_commands.process import Program, run_program
from agenttool.adapters.hook_commands.wire import answer_of, told
from agenttool.ports.hooks import HookQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """Runs a program for every question: the question on stdin, the answer on stdout.

    It keeps no deadline of its own: whoever asks cancels the run, and the program ends with everything it started.

    Attributes:
        clean: takes out of the program's stderr what nobody should read; stderr becomes part of a fault's message.
    """

    program: Program
    clean: Callable[[str], str] = str

    async def run(self, question: HookQuestion) -> object:
        """Ask the command.

        Raises:
            OSError: it could not be started, did not end well, or said too much.
            RecordError: what it said is no JSON object.
        """
        return answer_of(await run_program(self.program, told(question)), self.clean)
