"""The front door: one table of commands, each loaded only when it is called."""

import errno
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from typer.core import TyperArgument, TyperGroup, TyperOption

from agenttool import __version__
from agenttool.cli.dropping import complaining, drop_output
from agenttool.cli.refusing import speaking, tell

UNWRITABLE = 2

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

# name → (module that holds `app`, first line of the command's own help; a test compares the two)
COMMANDS = {
    "demo": ("agenttool.cli.demo", "Run governed calls, an approval and a crash, and check what happens"),
    "tools": ("agenttool.cli.tools", "List the tools of a module, and what is assumed of them"),
    "search": ("agenttool.cli.search", "Find tools by what they do or exactly by name, as a model would"),
    "call": ("agenttool.cli.call", "Call one tool through the whole pipeline, and be asked if it asks"),
    "approvals": ("agenttool.cli.approvals", "List the calls that wait for approval, and answer them"),
    "serve": ("agenttool.cli.serve", "Serve one runtime: where tools call back, and a page of what waits"),
    "views": ("agenttool.cli.views", "Show what servers want shown of each thread, and go on while it changes"),
    "show": ("agenttool.cli.show", "Draw one call: what was asked, what was changed, who decided, what came of it"),
    "log": ("agenttool.cli.log", "Tell what happened, one line per event, and go on while others write"),
    "export": ("agenttool.cli.export", "Write every record of the journal as JSON Lines, as it is at one moment"),
    "verify": (
        "agenttool.cli.verify",
        "Check that nothing in the journal was changed, and that every call's story is possible",
    ),
    "policy": ("agenttool.cli.policy", "Show what other rules would have decided about the recorded calls"),
    "backup": ("agenttool.cli.backup", "Copy the journal as it is at one moment, while others write it"),
    "retain": ("agenttool.cli.retain", "Keep stored bytes and facts for so many days, and let go of what is older"),
    "rap": ("agenttool.cli.rap", "Serve a provider's tools over the Reactive Agent Protocol"),
    "validate": ("agenttool.cli.validate", "Check records from anyone: their shape, and whether they make sense"),
    "conformance": (
        "agenttool.cli.conformance",
        "Show which requirements of the standards are proved by a passing test",
    ),
}


class LazyCommands(TyperGroup):
    """Commands by name, imported on use, so that `--help` costs no more than the terminal libraries."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 -- as typer has it
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 -- as typer has it
        **extra: object,
    ) -> object:
        """Run a command; if it was asked for JSON, say in JSON, too, what is wrong with its words."""
        words = sys.argv[1:] if args is None else args
        is_for_program = "--json" in words
        if not is_for_program:
            _spell_out()
        with speaking(to_program=is_for_program):
            alone = standalone_mode and not is_for_program
            try:
                status: object = super().main(args, prog_name, complete_var, alone, windows_expand_args, **extra)
            except typer.TyperException as fault:
                if not is_for_program:
                    raise
                tell("usage_error", fault.format_message())
                status = fault.exit_code
            except typer.Abort:
                if not is_for_program:
                    raise
                status = 1
        return sys.exit(status if isinstance(status, int) else 0) if standalone_mode else status

    def list_commands(self, ctx: object) -> list[str]:
        """Give the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str):  # noqa: ANN201 -- the type is private to typer
        """Import a command when it is asked for."""
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(COMMANDS[cmd_name][0]).app)
        command.name = cmd_name
        for each in (command, *getattr(command, "commands", {}).values()):
            each.help = _flowing(each.help)
            for parameter in each.get_params(cast("typer.Context", ctx)):
                _say_plainly(parameter)
        return command

    def format_help(self, ctx: object, formatter: object) -> None:
        """Print the table by hand: typer's own page loads a Markdown parser, which costs more than all the rest."""
        console = Console()
        console.print(Text("agenttool", style="bold"), "the governed tool layer for AI agents\n")
        console.print("Usage: [bold]agenttool[/] COMMAND … [dim](every command has --help and --json)[/]\n")
        table = Table(box=None, show_header=False, padding=(0, 2), pad_edge=False)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for name, (_, sentence) in COMMANDS.items():
            table.add_row(name, sentence)
        table.add_section()
        table.add_row("--version", "Print the version")
        table.add_row("--help", "Print this page")
        console.print(table)


app = typer.Typer(cls=LazyCommands, add_completion=False, no_args_is_help=True)


def _spell_out() -> None:
    """Let an output in an older encoding spell out what it has no letter for, instead of failing in the middle."""
    output: object = sys.stdout
    if isinstance(output, TextIOWrapper):
        output.reconfigure(errors="backslashreplace")


def _flowing(page: str | None) -> str:
    """Let a terminal break the lines of a page as it is wide, and take no word of it for markup."""
    paragraphs = inspect.cleandoc(page or "").split("\n\n")
    return escape("\n\n".join(" ".join(each.split()) for each in paragraphs))


def _say_plainly(parameter: object) -> None:
    """Show a flag as a flag: typer's own page says `<bool>` to it, as if a word had to follow."""
    if isinstance(parameter, TyperOption) and parameter.is_flag:
        parameter.metavar = ""
    if isinstance(parameter, TyperOption | TyperArgument) and parameter.help:
        parameter.help = escape(parameter.help)


def show_version(value: bool) -> None:  # noqa: FBT001 -- typer calls it with the flag
    """Print the version and stop, when the flag is given."""
    if value:
        typer.echo(f"agenttool {__version__}")
        raise typer.Exit


@app.callback()
def agenttool(
    *,
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True)] = False,
) -> None:
    """The governed tool layer for AI agents."""


def main() -> None:
    """Run the command line; a full disk behind the output is told in a line, for it is no fault of the program."""
    try:
        app()
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        drop_output()
        told = f"the output cannot be written: {error.strerror}; make room, or send it elsewhere"
        with complaining():
            Console(stderr=True).print(told, style="red", soft_wrap=True)
        sys.exit(UNWRITABLE)
