"""The command line: a table of commands, each imported only when it is called (ADR 0007)."""

import errno
import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, cast

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer.core import TyperArgument, TyperGroup, TyperOption

from agenttool import __version__
from agenttool.cli.output import (
    USAGE_ERROR,
    discard_output,
    ignoring_write_errors,
    is_agenttool_error,
    json_errors,
    plain_table,
    print_error,
    print_exception,
    print_text,
    replace_unencodable,
)

_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

# name → ("module:function", or "module:app" for a group; first line of the help). A test compares the two texts.
COMMANDS = {
    "demo": ("demo:demo", "Run governed calls, an approval and a crash, and check what happens."),
    "tools": ("tools:tools", "List the tools of a module, and the facts assumed about them."),
    "search": ("tools:search", "Find tools by what they do, or by exact name, as a model would."),
    "call": ("call:call", "Call one tool through the whole pipeline, and ask for approval if needed."),
    "approvals": ("approvals:approvals", "List the calls that wait for approval, and answer them."),
    "cancel": ("cancel:cancel", "Cancel an open call, whichever process runs it."),
    "serve": ("serve:serve", "Serve one runtime: callbacks of tools, health, and a status page."),
    "views": ("views:views", "Show the views that servers publish for each thread."),
    "show": ("show:show", "Show one call: its inputs, who decided, and its result."),
    "log": ("log:log", "List calls, one line each: when, which tool, how it ended, for whom, and the result."),
    "export": ("journal_files:export", "Write every record of the journal as JSON Lines, as of one moment."),
    "verify": ("verify:verify", "Check that the journal is unchanged and that its calls are consistent."),
    "policy": ("policy:app", "Show what other rules would have decided about the recorded calls."),
    "backup": ("journal_files:backup", "Copy the journal as of one moment, while others write it."),
    "retain": ("journal_files:retain", "Delete payloads and facts that are older than a number of days."),
    "rap": ("rap:app", "Serve a provider's tools over the Reactive Agent Protocol."),
    "validate": ("validate:validate", "Check records of any origin: their schemas, and whether they are consistent."),
    "conformance": (
        "conformance:conformance",
        "Show which requirements of the standards a passing test proves.",
    ),
}


def load_command(name: str) -> typer.Typer:
    """Import the module of a command and return it as a typer application."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: object = getattr(import_module(f"agenttool.cli.{module}"), attribute)
    if isinstance(command, typer.Typer):
        return command
    app = typer.Typer(add_completion=False)
    app.command()(command)  # pyright: ignore[reportArgumentType, reportUnknownMemberType] -- every other attribute is a function
    return app


class LazyCommands(TyperGroup):
    """Commands by name, imported on use, so that `--help` loads terminal libraries only."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 -- the signature of typer
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 -- the signature of typer
        **extra: object,
    ) -> object:
        """Run a command; with `--json`, print usage errors as JSON too."""
        words = sys.argv[1:] if args is None else args
        as_json = "--json" in words
        if not as_json:
            replace_unencodable()
        with json_errors(enabled=as_json):
            alone = standalone_mode and not as_json
            try:
                status: object = super().main(args, prog_name, complete_var, alone, windows_expand_args, **extra)
            except typer.TyperException as error:
                if not as_json:
                    raise
                print_error("usage_error", error.format_message())
                status = error.exit_code
            except typer.Abort:
                if not as_json:
                    raise
                status = 1
            except Exception as error:
                if not is_agenttool_error(error):
                    raise
                print_exception(error)
                status = USAGE_ERROR
        return sys.exit(status if isinstance(status, int) else 0) if standalone_mode else status

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str):  # noqa: ANN201 -- the type is private to typer
        """Import a command, and prepare its help page."""
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(load_command(cmd_name))
        command.name = cmd_name
        for each in (command, *getattr(command, "commands", {}).values()):
            each.help = _unwrapped(each.help)
            for parameter in each.get_params(cast("typer.Context", ctx)):
                _fix_help(parameter)
        return command

    def format_help(self, ctx: object, formatter: object) -> None:
        """Print the table of commands; typer's own page loads a Markdown parser, which is slow to import."""
        console = Console()
        console.print(Text("agenttool", style="bold"), "the governed tool layer for AI agents\n")
        console.print("Usage: [bold]agenttool[/] COMMAND … [dim](every command has --help and --json)[/]\n")
        table = plain_table()
        table.columns[0].style = "cyan"
        for name, (_, sentence) in COMMANDS.items():
            table.add_row(name, sentence)
        table.add_section()
        table.add_row("--version", "Print the version.")
        table.add_row("--help", "Print this page.")
        console.print(table)


app = typer.Typer(cls=LazyCommands, add_completion=False, no_args_is_help=True)


def _unwrapped(page: str | None) -> str:
    """Return help text with one line per paragraph, so that the terminal wraps it, and without markup."""
    paragraphs = inspect.cleandoc(page or "").split("\n\n")
    return escape("\n\n".join(" ".join(each.split()) for each in paragraphs))


def _fix_help(parameter: object) -> None:
    """Show a flag without a value, which typer would print as `<bool>`, and escape markup."""
    if isinstance(parameter, TyperOption) and parameter.is_flag:
        parameter.metavar = ""
    if isinstance(parameter, TyperOption | TyperArgument) and parameter.help:
        parameter.help = escape(parameter.help)


def show_version(value: bool) -> None:  # noqa: FBT001 -- typer calls it with the flag
    """Print the version and exit, if the flag is given."""
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
    """Run the command line; if the output cannot be written, because the disk is full, print one line."""
    try:
        app()
    except OSError as error:
        if error.errno not in _DISK_ERRORS or error.filename is not None:
            raise
        discard_output()
        with ignoring_write_errors():
            problem = f"the output cannot be written: {error.strerror}; free some space, or send it elsewhere"
            print_text(Console(stderr=True), problem, "red")
        sys.exit(USAGE_ERROR)
