"""How a command says why it stops: in red to a person, as one JSON object to a program that asked for JSON."""

import json
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn, cast

import typer
from rich.console import Console

from agenttool.cli.dropping import complaining

UNUSABLE = 2

_is_for_program: ContextVar[bool] = ContextVar("_is_for_program", default=False)


@contextmanager
def speaking(*, to_program: bool) -> Generator[None]:
    """Remember, for one command, who reads what it says."""
    before = _is_for_program.set(to_program)
    try:
        yield
    finally:
        _is_for_program.reset(before)


def refuse(error: Exception | str) -> NoReturn:
    """Say what was wrong, and stop."""
    code = "unusable" if isinstance(error, str) else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    tell(code, str(error))
    raise typer.Exit(UNUSABLE)


def tell(code: str, message: str) -> None:
    """Say why a command ends; where JSON was asked for, `{"error": {…}}` stands on the output like any answer."""
    if _is_for_program.get() and cast("object", sys.stdout) is not None:
        typer.echo(json.dumps({"error": {"error_code": code, "message": message}}, ensure_ascii=False))
        return
    with complaining():
        Console(stderr=True).print(_harmless(message), markup=False, style="red", soft_wrap=True)


def _harmless(text: str) -> str:
    """Spell out whatever could act on a terminal."""
    return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in text)
