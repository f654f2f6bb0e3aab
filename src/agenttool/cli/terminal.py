"""The person at the terminal: asked without holding up anything else, and shown nothing that commands the terminal."""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.json import JSON
from rich.markup import escape
from rich.text import Text

from agenttool.config import environment
from agenttool.records import Json

_AT_ONCE = 65_536


def printable(text: str) -> str:
    """Take out what would command the terminal instead of being shown, one character for another."""
    return "".join(each if each in "\n\t" or each.isprintable() else "\ufffd" for each in text)


def in_one_line(text: str) -> str:
    """Show text that comes from elsewhere in one line, so that none of it passes for a line of ours."""
    return " ".join(printable(text).split())


def as_words(text: str) -> str:
    """Let the words of a tool's author be words: neither markup nor commands to the terminal."""
    return escape(printable(text))


def pretty(value: Json) -> Text:
    """Write JSON over several lines, in colours."""
    shown = JSON.from_data(value, indent=2).text
    shown.plain = printable(shown.plain)
    return shown


def indented(text: Text) -> Text:
    """Move a text to the right, without blanks at the ends of its lines."""
    return Text("\n").join([Text("  ") + line for line in text.split("\n")])


class Terminal:
    """Reads lines as they are typed. Nothing blocks meanwhile, so that Ctrl-C is heard at once."""

    def __init__(self) -> None:
        """Write to the error stream, because the output belongs to results."""
        self.console = Console(stderr=True)
        self.is_lent = False
        """An editor has the terminal, and Ctrl-C is for the editor."""
        self._typed = b""

    @property
    def has_person(self) -> bool:
        """Tell whether somebody can be asked."""
        return self.console.is_terminal and sys.stdin.isatty()

    async def line(self, prompt: str) -> str | None:
        """Ask for a line; none at the end of the input (Ctrl-D)."""
        self.console.print(prompt, end=" ", highlight=False)
        loop, source = asyncio.get_running_loop(), sys.stdin.fileno()
        while b"\n" not in self._typed:
            ready = loop.create_future()
            loop.add_reader(source, lambda ready=ready: ready.done() or ready.set_result(None))
            try:
                await ready
            finally:
                loop.remove_reader(source)
            piece = os.read(source, _AT_ONCE)
            if not piece:
                self.console.print()
                return None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").strip()

    async def edited(self, text: str) -> str | None:
        """Let somebody change a text: in their editor, or as one line if they named none; none if they leave it."""
        chosen = environment(("VISUAL", "EDITOR"))
        editor = chosen.get("VISUAL") or chosen.get("EDITOR")
        if not editor:
            return await self.line("[bold]the whole input as JSON[/] [dim](empty leaves it)[/]:") or None
        self.is_lent = True
        try:
            return await asyncio.to_thread(_edit, shlex.split(editor), text)
        except (OSError, ValueError) as error:
            self.console.print(f"the editor {editor!r} cannot be used: {error}", style="red", markup=False)
            return None
        finally:
            self.is_lent = False


def _edit(editor: list[str], text: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "input.json")
        file.write_text(text, encoding="utf-8")
        status = subprocess.run([*editor, str(file)], check=False).returncode  # noqa: S603 -- the person's own editor
        changed = file.read_text(encoding="utf-8")
    return None if status or changed == text else changed
