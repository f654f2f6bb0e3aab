"""The command line: a table of commands, each imported only when it is called (ADR 0007)."""

import errno
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from itertools import takewhile
from typing import Annotated, cast

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from agenttool import __version__
from agenttool.cli.commands import COMMANDS, EXAMPLES, GROUPS
from agenttool.cli.output import (
    USAGE_ERROR,
    discard_output,
    heading,
    hint,
    ignoring_write_errors,
    indented,
    is_agenttool_error,
    json_output,
    plain_table,
    print_blocks,
    print_error,
    print_exception,
    replace_unencodable,
)

_OPTIONS = {
    "--version": ("", "Print the version."),
    "--help": ("", "Print this page."),
    "--install-completion": ("", "Complete names by Tab in this shell."),
}
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def load_command(name: str) -> typer.Typer:
    """Import the module of a command and return it as a typer application."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    app: object = getattr(import_module(f"agenttool.cli.{module}"), attribute)
    if not isinstance(app, typer.Typer):
        command, app = cast("Callable[..., None]", app), typer.Typer(add_completion=False)
        app.command()(command)
    for each in (*app.registered_commands, app.registered_callback):
        if each is not None and each.callback is not None:
            each.callback = expand_options(each.callback)
    return app


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that has the fields of a dataclass as options in place of a parameter of that class."""
    groups: dict[str, Callable[..., object]] = {}
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command).parameters.values():
        kind: object = each.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[each.name] = kind
            parameters += [
                each.replace(name=one.name, default=one.default, annotation=one.type) for one in fields(kind)
            ]
        else:
            parameters.append(each)

    @wraps(command)
    def expanded(**given: object) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each: given.pop(each) for each in inspect.signature(kind).parameters})
        command(**given)

    expanded.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue] -- `inspect` reads it
    return expanded if groups else command


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
        """Run a command; `--json` applies to it wherever it is written, and to errors of usage, too."""
        self.commands = {name: TyperCommand(name) for name in COMMANDS}  # for suggestions; `get_command` imports
        words = sys.argv[1:] if args is None else args
        as_json = "--json" in takewhile("--".__ne__, words)
        if not as_json:
            replace_unencodable()
        with json_output(enabled=as_json):
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
        parts = {cmd_name: command}
        parts |= {f"{cmd_name} {name}": each for name, each in getattr(command, "commands", {}).items()}
        json_option = [each for each in self.params if each.name == "as_json"]
        for path, each in parts.items():
            each.params += json_option
            each.help = _unwrapped(each.help)
            each.epilog = _example_text(EXAMPLES.get(path, ()))
            for parameter in each.get_params(cast("typer.Context", ctx)):
                _fix_help(parameter)
        return command

    def format_help(self, ctx: object, formatter: object) -> None:
        """Print the commands by group; typer's own page loads a Markdown parser, which is slow to import."""
        width = max(map(len, COMMANDS))
        blocks: list[RenderableType] = [
            _markup("[bold]agenttool[/]: the governed tool layer for AI agents"),
            _markup("\nUsage: [bold]agenttool[/] COMMAND … [dim](every command has --help and --json)[/]"),
        ]
        for title, commands in {**GROUPS, "Options": _OPTIONS}.items():
            table = plain_table(rows=((name, sentence) for name, (_, sentence) in commands.items()))
            table.columns[0].style, table.columns[0].min_width = "cyan", width
            blocks += [heading(title), indented(table)]
        print_blocks([*blocks, _markup(f"\n{_example_text(EXAMPLES[''])}")])


app = typer.Typer(cls=LazyCommands, no_args_is_help=True)


_markup = Text.from_markup


def _unwrapped(page: str | None) -> str:
    """Return help text with one line per paragraph, so that the terminal wraps it, and without markup."""
    paragraphs = inspect.cleandoc(page or "").split("\n\n")
    return escape("\n\n".join(" ".join(each.split()) for each in paragraphs))


def _example_text(examples: Iterable[str]) -> str | None:
    """Return the examples below a help page; none without any."""
    lines = "".join(f"\n  [cyan]{escape(each)}[/]" for each in examples)
    return f"[bold]Examples[/]{lines}" if lines else None


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
    as_json: Annotated[
        bool, typer.Option("--json", expose_value=False, help="Print only JSON: one object, or one on each line")
    ] = False,
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
            hint(problem, "red")
        sys.exit(USAGE_ERROR)
